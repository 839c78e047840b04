// The served page: ask a model, and see where it looked. The question is in the URL's query, the view in its hash.
import { mount } from "./app.js";

const form = document.getElementById("ask");
const fields = form.elements;
const say = (text) => { document.getElementById("status").textContent = text; };
const ASKED = ["model", "against", "method", "text", "prefix", "output"];
let shown = null; // what the picture below is drawn from, the question, and its choice of view
let asked = null;
let viewer = null;

/** POST, or GET without a body; an error's sentence becomes an Error. */
async function call(path, body) {
  const headers = { "content-type": "application/json" };
  if (fields.key.value) headers.authorization = `Bearer ${fields.key.value}`;
  const answer = await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
  if (answer.ok && !answer.headers.get("content-type").startsWith("application/json")) return answer.blob();
  const told = await answer.json();
  if (answer.status === 401) document.getElementById("key").hidden = false;
  if (!answer.ok) throw new Error(told.field ? `${told.field}: ${told.error}` : told.error);
  return told;
}

/** The models, once; with a key to enter first, the first run asks again. */
async function fillModels() {
  if (fields.model.length) return;
  const models = (await call("/api/models")).models.filter((model) => model.looks);
  fields.model.append(...models.map(({ name }) => new Option(name)));
  fields.against.append(new Option("nothing", ""), ...models.map(({ name }) => new Option(name)));
  document.getElementById("compare").hidden = models.length < 2;
  const wished = new URLSearchParams(location.search);
  for (const key of ASKED) if (wished.has(key)) fields[key].value = wished.get(key);
  if (!fields.model.value && models.length) fields.model.value = models[0].name;
  if (!fields.method.value) fields.method.value = "raw";
}

async function run() {
  const { model, against, method, text, prefix, output } = Object.fromEntries(ASKED.map((key) => [key, fields[key].value]));
  let forced = output || null;
  if (!forced && prefix) forced = (await call("/api/predict", { model, inputs: [text], prefix })).predictions[0].text;
  const page = await call("/api/page", { model, text, method, output: forced });
  if (against) { // the same output for both, so that their tables can be laid one upon the other
    const other = await call("/api/page", { model: against, text, method, output: page.records[0].output });
    page.records.push(other.records[0]);
    page.open.view = "compare";
  }
  return page;
}

function show(page) {
  shown = page;
  asked = Object.fromEntries(ASKED.map((key) => [key, fields[key].value]));
  const seen = document.createElement("div");
  document.getElementById("seen").replaceChildren(seen);
  viewer = mount(seen, page, { keep: true });
  document.getElementById("save").hidden = false;
}

function remember() {
  const kept = ASKED.map((key) => [key, fields[key].value]).filter(([, value]) => value);
  history.replaceState(null, "", `?${new URLSearchParams(kept)}${location.hash}`);
}

async function submit() {
  const button = form.querySelector(".go");
  button.disabled = true;
  say("running …");
  try {
    await fillModels();
    if (fields.text.value.trim()) {
      show(await run());
      remember();
    }
    say("");
  } catch (error) {
    say(error.message);
  }
  button.disabled = false;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
fields.text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});
document.getElementById("choices").addEventListener("change", (event) => {
  if (event.target.name === "against") {
    const view = new URLSearchParams(location.hash.slice(1));
    view.set("view", fields.against.value ? "compare" : "matrix");
    history.replaceState(null, "", `#${view}`);
  }
  if (event.target.name !== "key" && fields.text.value.trim()) form.requestSubmit();
});
fields.format.addEventListener("change", async () => {
  const format = fields.format.value;
  fields.format.value = "";
  if (!format) return;
  try {
    const [{ input, output, model, method }] = shown.records;
    const view = viewer.state;
    const layer = view.layer === "all" ? null : Number(view.layer);
    const head = ["mean", "max"].includes(view.head) ? view.head : Number(view.head);
    const body = { model: asked.model, text: input, output, method, kind: view.kind, layer, head };
    const drawn = view.view === "compare" || view.view === "beams" ? "matrix" : view.view;
    const content = format === "json" ? await call("/api/look", { ...body, layer: null, head: null, kind: null })
      : await call("/api/picture", { ...body, format, view: drawn, log: view.log });
    keepFile(content instanceof Blob ? content : new Blob([JSON.stringify(content)], { type: "application/json" }), `${model || "attention"}.${format}`);
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
