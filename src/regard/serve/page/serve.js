// The served page: ask a model, and see where it looked. The question is in the URL's query, the view in its hash.
import { mount } from "./app.js";
import { listAsked } from "./asked.js";
import { DECODING, call, callStream, remoteSource } from "./asking.js";
import { drawExamples } from "./examples.js";
import { keepFile, sendAgain, sendFile } from "./files.js";
import { ASKED, decodingOf, fileField, fileKind, fitForm, modelLine, questionOf, searchOf, takesText, waysOf } from "./form.js";
import { recordSound } from "./microphone.js";
import { drawOtherInput } from "./other_input.js";

const form = document.getElementById("ask");
const fields = form.elements;
const part = (id) => document.getElementById(id);
let models = [];
let sentName = ""; // of the file or the example that is asked about, for models that take one
let decoding = {}; // how the output shall be written, where that is not as the model has it; as in the URL
let shown = null; // {page, questions} of the picture below
let viewer = null;
let examples = []; // of the model
let press = () => {};
let turn = 0; // of asking: an answer that comes too late is not shown

async function ask(path, body) {
  try {
    return await call(path, body, fields.key.value);
  } catch (error) {
    if (error.status === 401) part("key").hidden = false;
    throw error;
  }
}

const modelNow = () => models.find(({ name }) => name === fields.model.value);
const askedNow = () => ({ ...Object.fromEntries(ASKED.map((key) => [key, fields[key]?.value ?? ""])), ...decoding, file: sentName, same: fields.same.checked ? "1" : "" });

function say(text, wrong = false) {
  part("status").textContent = text;
  part("status").classList.toggle("wrong", wrong);
}

/** The models, once; with a key to enter first, the first run asks again. */
async function fillModels() {
  if (models.length) return;
  models = (await ask("/api/models")).models.filter((model) => model.looks);
  fields.model.append(...models.map(({ name }) => new Option(name)));
  fields.model.value = models[0]?.name ?? "";
}

/** Another model: its line, its examples, what it takes; nothing of the one before stays. */
async function openModel() {
  const model = modelNow();
  clear();
  fitForm(part, fields, model);
  part("name").textContent = document.title = model.name;
  const { turns, rest } = modelLine(model);
  part("line").replaceChildren(Object.assign(document.createElement("b"), { textContent: turns }), ` · ${rest}`);
  const others = models.filter(({ name, takes, gives }) => name !== model.name && String(takes) === String(model.takes) && gives === model.gives);
  fields.against.replaceChildren(new Option("nothing", ""), ...others.map(({ name }) => new Option(name)));
  part("compare").hidden = !others.length;
  part("examples").replaceChildren("loading examples …");
  [examples, press] = [[], () => {}];
  const found = await ask(`/api/examples?${new URLSearchParams({ model: model.name })}`).catch((error) => {
    if (error.status >= 500) return { examples: [] }; // one can do without
    throw error;
  });
  if (model !== modelNow()) return;
  examples = found.examples;
  press = drawExamples(part("examples"), examples, (example) => {
    fill(example);
    for (const name of ["prefix", "output"]) fields[name].value = "";
    submit();
  });
}

/** An example's parts into the fields that they belong to. */
function fill({ text }) {
  const model = modelNow();
  const parts = text.split("\t");
  model.takes.forEach((kind, place) => {
    if (kind === fileKind(model)) sentName = parts[place];
    else fields.text.value = parts[place];
  });
}

function clear() {
  viewer?.close();
  viewer = shown = null;
  part("seen").replaceChildren();
  part("bar").hidden = part("save").hidden = true;
  say("");
}

/** What the URL says into the form; then the same is asked again. */
async function fromUrl() {
  await fillModels();
  const wished = new URLSearchParams(location.search);
  const before = fields.model.value;
  if (models.some(({ name }) => name === wished.get("model"))) fields.model.value = wished.get("model");
  const fresh = before !== fields.model.value || !fields.method.options.length;
  const found = fresh ? openModel() : null;
  for (const key of ASKED) if (!["model", "file", "same"].includes(key) && fields[key]) fields[key].value = wished.get(key) ?? (key === "method" ? "raw" : "");
  decoding = Object.fromEntries(DECODING.filter((name) => wished.get(name)).map((name) => [name, wished.get(name)]));
  sentName = wished.get("file") ?? "";
  fields.same.checked = wished.has("same");
  await found;
  const model = modelNow();
  if (!wished.has("text") && !wished.has("file") && examples.length) {
    fill(examples[0]);
    return submit({ push: false });
  }
  return (fileKind(model) && !sentName) || (takesText(model) && !fields.text.value.trim()) ? null : submit({ push: false });
}

/** One thing at a time, with a word about it, and a sentence if it fails: then nothing of what was before stays. */
async function work(doing) {
  const mine = ++turn;
  say("running …");
  part("seen").classList.add("waiting");
  try {
    await doing(() => mine === turn);
    if (mine === turn) say("");
  } catch (error) {
    if (mine !== turn) return;
    clear();
    say(error.message, true);
  } finally {
    if (mine === turn) part("seen").classList.remove("waiting", "writing");
  }
}

const submit = ({ push = true, live = false } = {}) => work(async (current) => {
  await fillModels();
  if (!fields.method.options.length) await openModel();
  const [asked, model] = [askedNow(), modelNow()];
  if (fileKind(model) && !asked.file) throw new Error(`Choose a ${fileField(fileKind(model))[0]}, or click an example.`);
  if (takesText(model) && !asked.text.trim()) throw new Error("Enter a text, or click an example.");
  await sendAgain(asked.file, asked.model, ask);
  const first = questionOf(asked, model);
  const questions = [first];
  const streamed = live && await writeLive(first, current);
  const page = await ask("/api/page", first);
  const [record] = page.records;
  let told = [];
  const beside = asked.against || (first.without.length ? first.model : "");
  if (beside) {
    const own = { ...first, model: beside, without: [], n_best: null };
    questions.push(asked.same ? { ...own, output: record.output, prefix: "" } : own);
    page.records.push((await ask("/api/page", questions[1])).records[0]);
    if (first.without.length && !asked.against) told = changes(record.output, page.records[1].output, first.without);
    if (asked.against) page.open.view = "compare";
  }
  if (!current()) return;
  const search = searchOf(asked);
  if (search !== location.search) history[push ? "pushState" : "replaceState"](null, "", `${search}${location.hash.replace(/hypothesis=\d+/, "hypothesis=0")}`); // the best one, of another question
  remember(search, asked.model, asked.text || record.input, record.output);
  press(first.text);
  const source = remoteSource(questions, ask, [record, ...record.beams].map((one) => one.output));
  const explain = async (hypothesis, wish) => {
    await sendAgain(wish.against_input ?? "", asked.model, ask);
    return source.explain(hypothesis, wish);
  };
  show(page, questions, told, { ...source, explain });
  if (live && !streamed) viewer.ready.then(() => current() && viewer.play(first.prefix));
});

function changes(after, before, without) {
  const heads = without.join(", ");
  const bold = (text) => Object.assign(document.createElement("b"), { textContent: text, dir: "auto" });
  return after === before ? [`Output with ${heads} masked (unchanged): `, bold(after)] : [`Output with ${heads} masked: `, bold(after), "; with all heads: ", bold(before)];
}

/** To ask why; heads are profiled where there is attention, and as it trained where that was kept. */
function whysOf({ explanations, methods, history }) {
  const profiles = explanations.length && methods.includes("raw") ? ["profile", ...(history ? ["profile training"] : [])] : [];
  return [...explanations, ...profiles];
}

function show(page, questions, told, source) {
  shown = { page, questions, source };
  const seen = document.createElement("div");
  viewer?.close();
  part("seen").replaceChildren(seen);
  part("change").replaceChildren(...told);
  part("same").hidden = questions.length < 2 || ["values", "drawing"].includes(page.records[0].said?.kind); // these cannot be given
  part("save").hidden = false;
  part("bar").hidden = !told.length && questions.length === 1;
  const model = modelNow();
  const ways = waysOf(model);
  const other = (current, put) => drawOtherInput({ model, examples, now: questions[0].text, send: (file) => sendFile(file, model.name, ask) }, current, put);
  const acts = { goOn, mute, why: whysOf(model), contrasts: model.takes_instead, other, ...(ways.length ? { decoding: { known: model.decoding, now: decodingOf(decoding), ways, change: writeSo } } : {}), ...(fileKind(model) === "sound" ? { sound } : {}) };
  viewer = mount(seen, page, { keep: true, source, acts, level: "h2" });
}

function goOn({ prefix = "", output = "" }) {
  [fields.prefix.value, fields.output.value] = [prefix, output];
  submit({ live: Boolean(prefix) });
}

/** Tokens as they are written, in the place of those before; what goes wrong is told by the question after it. A beam search does not know
 *  its first word before its last: its film shows it, from the word that was chosen. */
async function writeLive({ text, model, prefix, without, ...rest }, current) {
  const how = { ...modelNow().decoding, ...rest };
  if (without.length || (!how.sample && how.beam > 1)) return false;
  const { beam, n_best: several, ...drawn } = decodingOf(decoding);
  const given = how.sample ? drawn : "beam" in how ? {} : { temperature: 0 }; // the most probable token
  const stop = new AbortController();
  let left = document.querySelectorAll("#seen .rows .chip").length; // a language model would go on for longer than is looked at
  const tell = ({ token }) => (current() && left-- > 0 ? viewer?.write(token.trim() || "·") : stop.abort());
  part("seen").classList.add("writing");
  await callStream("/api/stream", { text, model, prefix, ...given }, fields.key.value, tell, stop.signal).catch(() => {});
  return true;
}

/** Another way of writing the output: then the model writes it, even if one was given. */
async function writeSo(changes) {
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) delete decoding[name];
    else decoding[name] = String(name === "sample" ? 1 : value);
  }
  fields.output.value = "";
  const name = document.activeElement?.name;
  await submit();
  await viewer?.ready;
  if (name) document.querySelector(`.decoding [name="${name}"]`)?.focus();
}

function mute(name) {
  const names = fields.without.value.split(/[\s,]+/).filter(Boolean);
  fields.without.value = (names.includes(name) ? names.filter((one) => one !== name) : [...names, name]).join(" ");
  submit();
}

async function sound() {
  const content = await ask(`/api/sound?${new URLSearchParams({ model: fields.model.value, name: sentName })}`);
  return URL.createObjectURL(content);
}

const send = (file) => work(async () => {
  sentName = await sendFile(file, fields.model.value, ask);
  part("chosen").textContent = file.name ?? "";
  await submit();
});

const remember = listAsked(part("asked"), (search) => {
  history.pushState(null, "", search);
  fromUrl();
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
fields.text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});
fields.model.addEventListener("change", () => {
  history.pushState(null, "", searchOf({ model: fields.model.value }));
  decoding = {};
  sentName = fields.text.value = fields.without.value = fields.prefix.value = fields.output.value = "";
  fields.same.checked = false;
  work(async () => {
    await openModel();
    if (!examples.length) return;
    fill(examples[0]);
    await submit({ push: false });
  });
});
for (const name of ["against", "method", "same"]) fields[name].addEventListener("change", () => {
  if (name === "against") history.replaceState(null, "", `${location.search}#view=${fields.against.value ? "compare" : ""}`);
  submit();
});
fields.file.addEventListener("change", () => fields.file.files.length && send(fields.file.files[0]));
form.addEventListener("dragover", (event) => {
  if (!fileKind(modelNow())) return;
  event.preventDefault();
  form.classList.add("over");
});
form.addEventListener("dragleave", () => form.classList.remove("over"));
form.addEventListener("drop", (event) => {
  form.classList.remove("over");
  if (!fileKind(modelNow()) || !event.dataTransfer.files.length) return;
  event.preventDefault();
  send(event.dataTransfer.files[0]);
});

let recording = null;
part("record").addEventListener("click", async () => {
  try {
    if (!recording) {
      recording = await recordSound();
      part("record").textContent = "Stop";
      return;
    }
    const heard = await recording.stop();
    recording = null;
    part("record").textContent = "Record";
    send(heard);
  } catch (error) {
    say(`The microphone cannot be used: ${error.message}`, true);
  }
});

part("history").addEventListener("click", () => location.assign(`/runs?${new URLSearchParams({ run: fields.model.value })}`));
part("link").addEventListener("click", async () => {
  await navigator.clipboard.writeText(location.href).then(() => say("The link is copied."), () => say(`Copy it from here: ${location.href}`));
});

part("keep").addEventListener("click", async () => {
  try {
    const format = fields.format.value;
    const [first, second] = shown.questions;
    const { view, kind, layer, head, log, words, specials, hypothesis } = viewer.state;
    const chosen = { kind, layer: layer === "all" ? null : Number(layer), head: ["mean", "max"].includes(head) ? head : Number(head) };
    const beside = view === "compare" ? { against: second.model, same_output: fields.same.checked } : {};
    const whole = ["overlay", "grid"].includes(view) ? {} : { words, specials };
    const row = view === "overlay" ? viewer.focus.pinned.row : null;
    const content = view === "why" ? await shown.source.explain(hypothesis, { ...viewer.asked, format })
      : format === "json" ? await ask("/api/look", first)
      : await ask("/api/picture", { ...first, ...chosen, ...whole, ...beside, row, format, log, hypothesis, view: view === "compare" ? "matrix" : view });
    keepFile(content instanceof Blob ? content : new Blob([JSON.stringify(content)], { type: "application/json" }), `${first.model}.${format}`);
  } catch (error) {
    say(error.message, true);
  }
});

window.addEventListener("popstate", () => work(fromUrl));
work(fromUrl);
