// The form, the URL and the question are three forms of one thing: what is asked.
import { DECODING } from "./asking.js";

export const ASKED = ["model", "against", "method", "text", "file", "prefix", "output", "without", "same", "training", ...DECODING];
const KINDS_OF_FILES = { image: ["picture", "image/*"], sound: ["recording", "audio/*"], table: ["table (CSV)", ".csv,.tsv,.txt,text/csv"] };
const THINGS = { text: "text", image: "a picture", sound: "a recording", table: "a series" };

/** What it turns into what, how large it is, and how good: a line on a model. */
export function modelLine({ takes, gives, parameters, scores, about }) {
  const size = parameters >= 1e6 ? `${(parameters / 1e6).toFixed(1)} M` : parameters >= 1e4 ? `${Math.round(parameters / 1e3)} k` : parameters.toLocaleString("en");
  const names = Object.keys(scores).filter((name) => name !== "loss");
  const good = (names.length ? names.slice(0, 2) : Object.keys(scores)).map((name) => `validation ${name.replaceAll("_", " ").replace(/ at \d+$/, "$&:")} ${Number(scores[name].toPrecision(3))}`);
  return { turns: `${takes.map((kind) => THINGS[kind] ?? kind).join(" and ")} → ${gives}`, rest: [`${size} parameters`, ...good, ...(about ? [about] : [])].join(" · ") };
}

export function fileKind(model) {
  return model?.takes.find((kind) => kind in KINDS_OF_FILES) ?? null;
}

/** What it is called, and which files it accepts. */
export function fileField(kind) {
  return KINDS_OF_FILES[kind] ?? ["file", ""];
}

export function takesText(model) {
  return (model?.takes ?? ["text"]).some((kind) => !(kind in KINDS_OF_FILES));
}

/** Only what the model takes, and only what it can be asked. */
export function fitForm(part, fields, model) {
  const kind = fileKind(model);
  part("typed").hidden = !takesText(model);
  part("sent").hidden = !kind;
  part("record").hidden = kind !== "sound" || !navigator.mediaDevices;
  [part("what").textContent, fields.file.accept] = fileField(kind);
  part("chosen").textContent = "";
  part("led").hidden = part("forced").hidden = !model?.writes_text;
  part("history").hidden = !model?.history;
  const chosen = fields.method.value;
  fields.method.replaceChildren(...(model?.methods ?? ["raw"]).map((name) => new Option(name)));
  fields.method.value = model?.methods.includes(chosen) ? chosen : fields.method.options[0].value;
  if (!model?.writes_text) for (const name of ["prefix", "output"]) fields[name].value = "";
}

/** What is asked, as the service wants it. */
export function questionOf(asked, model) {
  const kind = fileKind(model);
  const { model: name, method, prefix, output, without } = asked;
  return {
    model: name, method: method || "raw", text: model.takes.map((one) => (one === kind ? asked.file : asked.text)).join("\t"),
    output: output || null, prefix: output ? "" : prefix ?? "", without: (without ?? "").split(/[\s,]+/).filter(Boolean),
    ...decodingOf(asked),
  };
}

/** How the output shall be written, as numbers: the URL has texts. */
export function decodingOf(asked) {
  return Object.fromEntries(DECODING.filter((name) => asked[name]).map((name) => [name, name === "sample" ? true : Number(asked[name])]));
}

/** In which ways a model can write its output: none, where there is nothing to choose. */
export function waysOf({ writes_text: writes, decoding }) {
  const drawn = "temperature" in decoding ? ["sample"] : [];
  return writes ? ["search", ...drawn] : drawn;
}

export function searchOf(asked) {
  const kept = ASKED.map((key) => [key, asked[key]]).filter(([key, value]) => value && !(key === "method" && value === "raw"));
  return `?${new URLSearchParams(kept)}`;
}
