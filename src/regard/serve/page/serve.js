// The served page: ask a model, and see where it looked. The question is in the URL's query, the view in its hash.
import { mount } from "./app.js";
import { call, remoteSource } from "./asking.js";
import { recordSound } from "./microphone.js";

const form = document.getElementById("ask");
const fields = form.elements;
const part = (id) => document.getElementById(id);
const say = (text) => { part("status").textContent = text; };
const ASKED = ["model", "against", "method", "n_best", "text", "prefix", "output", "without"];
let models = [];
let uploaded = null; // the name of the file that was sent, for models that take one
let shown = null; // what the picture below is drawn from, and the questions that it answers
let viewer = null;

async function ask(path, body) {
  try {
    return await call(path, body, fields.key.value);
  } catch (error) {
    if (error.status === 401) part("key").hidden = false;
    throw error;
  }
}

const chosenModel = () => models.find(({ name }) => name === fields.model.value);
const takes = () => chosenModel()?.takes ?? ["text"];
const fileKind = () => takes().find((kind) => ["image", "sound"].includes(kind));
const takesText = () => takes().some((kind) => kind !== fileKind());
const complete = () => (!fileKind() || uploaded) && (!takesText() || fields.text.value.trim());

/** The models, once; with a key to enter first, the first run asks again. */
async function fillModels() {
  if (models.length) return;
  models = (await ask("/api/models")).models.filter((model) => model.looks);
  fields.model.append(...models.map(({ name }) => new Option(name)));
  fields.against.append(new Option("nothing", ""), ...models.map(({ name }) => new Option(name)));
  part("compare").hidden = models.length < 2;
  const wished = new URLSearchParams(location.search);
  for (const key of ASKED) if (wished.has(key)) fields[key].value = wished.get(key);
  if (!fields.model.value && models.length) fields.model.value = models[0].name;
  if (!fields.method.value) fields.method.value = "raw";
  if (!fields.n_best.value) fields.n_best.value = "1";
  fitToModel();
}

/** A box for text, a button for a file, or both. */
function fitToModel() {
  const model = chosenModel();
  const kind = fileKind();
  part("typed").hidden = !takesText();
  part("sent").hidden = !kind;
  part("record").hidden = kind !== "sound" || !navigator.mediaDevices;
  part("what").textContent = kind === "sound" ? "Recording" : "Picture";
  fields.file.accept = kind ? `${kind}/*` : "";
  part("history").hidden = !model?.history;
}

/** What the form asks, as the service wants it. */
function question() {
  const { model, method, prefix, output, without, n_best: hypotheses } = Object.fromEntries(ASKED.map((key) => [key, fields[key].value]));
  return {
    model, method, text: takes().map((kind) => (kind === fileKind() ? uploaded : fields.text.value)).join("\t"), output: output || null, prefix: output ? "" : prefix,
    without: without.split(/[\s,]+/).filter(Boolean), n_best: Number(hypotheses) > 1 ? Number(hypotheses) : null,
  };
}

/** An outline of the record; beside another model, or beside itself with all heads, a second one with the same output. */
async function run() {
  const first = question();
  const page = await ask("/api/page", first);
  const questions = [first];
  const beside = fields.against.value || (first.without.length ? first.model : "");
  let told = "";
  if (beside) {
    const second = { ...first, model: beside, output: page.records[0].output, prefix: "", without: [], n_best: null };
    if (first.without.length && !first.output) {
      const whole = await ask("/api/page", { ...first, without: [] });
      const [before, after] = [whole.records[0].output, page.records[0].output];
      told = before === after ? `With all heads, the output is the same: ${before}` : `With all heads: ${before}`;
    }
    page.records.push((await ask("/api/page", second)).records[0]);
    questions.push(second);
    page.open.view = "compare";
  }
  return { page, questions, told };
}

function show(page, questions, told, source) {
  shown = { page, questions };
  const seen = document.createElement("div");
  viewer?.close();
  part("seen").replaceChildren(seen);
  part("change").textContent = told;
  part("change").hidden = !told;
  viewer = mount(seen, page, { keep: true, source, changed: offerToMute });
  part("save").hidden = !questions.length;
  offerToMute();
}

/** The name of the head that is shown, such as cross.0.1. */
function headShown() {
  const { kind, layer, head } = viewer.state;
  if (["mean", "max"].includes(head)) return null;
  const [only] = shown.page.records[0].attentions.filter((one) => one.kind === kind);
  return `${kind}.${layer === "all" ? only.layer : layer}.${head}`;
}

function offerToMute() {
  const name = viewer && shown.questions.length ? headShown() : null;
  part("mute").hidden = !name;
  if (name) part("mute").textContent = fields.without.value.split(/[\s,]+/).includes(name) ? `With ${name} again` : `Without ${name}`;
}

function remember() {
  const kept = ASKED.map((key) => [key, fields[key].value]).filter(([, value]) => value);
  history.replaceState(null, "", `?${new URLSearchParams(kept)}${location.hash}`);
}

/** One thing at a time, with a word about it, and a sentence if it fails. */
async function busy(work) {
  const button = form.querySelector(".go");
  button.disabled = true;
  say("running …");
  try {
    await work();
    say("");
  } catch (error) {
    say(error.message);
  }
  button.disabled = false;
}

const submit = () => busy(async () => {
  await fillModels();
  if (!complete()) return;
  const { page, questions, told } = await run();
  show(page, questions, told, remoteSource(questions, ask, [page.records[0], ...page.records[0].beams].map((one) => one.output)));
  remember();
});

const send = (file) => busy(async () => {
  uploaded = (await ask(`/api/upload?${new URLSearchParams({ model: fields.model.value })}`, file)).name;
  await submit();
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
part("choices").addEventListener("change", (event) => {
  if (event.target.name === "model") {
    uploaded = null;
    fitToModel();
  }
  if (event.target.name === "against") {
    const view = new URLSearchParams(location.hash.slice(1));
    view.set("view", fields.against.value ? "compare" : "matrix");
    history.replaceState(null, "", `#${view}`);
  }
  if (event.target.name !== "key") form.requestSubmit();
});
fields.file.addEventListener("change", () => fields.file.files.length && send(fields.file.files[0]));

let recording = null;
part("record").addEventListener("click", async () => {
  try {
    if (!recording) {
      recording = await recordSound();
      part("record").textContent = "Stop";
      return;
    }
    const sound = await recording.stop();
    recording = null;
    part("record").textContent = "Record";
    send(sound);
  } catch (error) {
    say(`the microphone cannot be used (${error.message})`);
  }
});

part("mute").addEventListener("click", () => {
  const name = headShown();
  const names = fields.without.value.split(/[\s,]+/).filter(Boolean);
  fields.without.value = (names.includes(name) ? names.filter((one) => one !== name) : [...names, name]).join(" ");
  const view = new URLSearchParams(location.hash.slice(1));
  view.set("view", fields.without.value ? "compare" : "matrix");
  history.replaceState(null, "", `${location.search}#${view}`);
  form.requestSubmit();
});

part("history").addEventListener("click", () => location.assign(`/runs?${new URLSearchParams({ run: fields.model.value })}`));

fields.format.addEventListener("change", async () => {
  const format = fields.format.value;
  fields.format.value = "";
  if (!format) return;
  try {
    const [first, second] = shown.questions;
    const { view, kind, layer, head, log } = viewer.state;
    const chosen = { kind, layer: layer === "all" ? null : Number(layer), head: ["mean", "max"].includes(head) ? head : Number(head) };
    const against = view === "compare" ? second.model : null;
    const content = format === "json" ? await ask("/api/look", first)
      : await ask("/api/picture", { ...first, ...chosen, format, log, against, view: view === "compare" ? "matrix" : view });
    keepFile(content instanceof Blob ? content : new Blob([JSON.stringify(content)], { type: "application/json" }), `${first.model || "attention"}.${format}`);
  } catch (error) {
    say(error.message);
  }
});

function keepFile(content, name) {
  const address = URL.createObjectURL(content);
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser reads it after the click
}

submit();
