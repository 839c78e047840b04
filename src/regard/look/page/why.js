// Why was this said? What layers, heads and parts of the input add to it: tables of numbers with a sign, asked of the model.
import { largest } from "./data.js";
import { drawMatrix } from "./matrix.js";
import { drawSigned, upon } from "./overlay.js";
import { css, element, inkOn, ramp, scaleBar, short, signedHeat, signedText } from "./paint.js";
import { numbersTable } from "./views.js";

const WAYS = {
  lens: ["prediction of each layer", "logit lens"],
  logits: ["contribution of each layer and head to a word", "direct logits"],
  "scores keys": ["contributions of the keys to the scores of one query", "score parts"],
  "scores queries": ["contributions of one query to its scores", "score parts"],
  "inputs integrated-gradients": ["contribution of each input", "integrated gradients"],
  "inputs attnlrp": ["contribution of each input", "AttnLRP"],
  "inputs input-gradient": ["contribution of each input", "input × gradient"],
  "patching heads": ["effect of each head on a second input", "patching"],
  "patching positions": ["effect of each position on a second input", "patching"],
  "patching states": ["effect of each recurrent state on a second input", "patching"],
  "patching paths": ["effect of each head on a later head", "path patching"],
  profile: ["role of each head, over validation inputs", "head profile"],
  "profile training": ["roles of heads during training", "head profile over training"],
};
const WHOSE = { cross: "over the source", encoder: "the encoder", decoder: "the decoder" };
const [MOST_WRITTEN, MOST_COLUMNS] = [4000, 14]; // cells and columns that are written as text: larger tables are painted

/**
 * `ways`: those that the model has an answer to; `tokens`: of the output, one of which may be asked about; `heads`: names of those that look at
 * what was written, as "0.3"; `kinds`: of attention; `grids`: the axes of pictures; `contrasts`: whether another word can be asked about;
 * `state`: {why, at, instead, other, whose, which}; `other(current, put)`: fields for a second input, which `put` is told; `explain({how, by, row, instead, against_input})` →
 * {title, about, rows, columns, values, words}; `change(changes, name)`: of the state, and the field that did it.
 * Gives back what was asked; null, if something is missing.
 */
export function drawWhy(place, { ways, tokens, heads, kinds, grids, state, known, contrasts, other }, explain, change) {
  const way = ways.includes(state.why) ? state.why : ways[0];
  const [how, by] = way.split(" ");
  const field = (label, name, made) => {
    made.name = name;
    made.addEventListener("input", () => { state[name] = made.value; }); // what is being typed outlives fields that are drawn anew meanwhile
    made.addEventListener("change", () => change({ [name]: made.value }, name));
    return element("label", {}, label, made);
  };
  const select = (options, current) => {
    const made = element("select", {}, ...options.map(([value, text]) => new Option(text, value)));
    made.value = current;
    return made;
  };
  const typed = (current, placeholder) => element("input", { type: "text", value: current, placeholder, autocomplete: "off", dir: "auto" });
  const parts = [field("why: ", "why", select(ways.map((one) => [one, `${WAYS[one][0]} (${WAYS[one][1]})`]), way))];
  const [stepwise, contrasted] = [!["lens", "profile"].includes(how), ["logits", "inputs", "patching"].includes(how) && contrasts];
  const every = how === "scores" ? [] : [["all", "all steps"]]; // scores are those of one query
  const row = tokens.length > 1 && tokens[Number(state.at)] ? state.at : every.length ? "all" : String(Math.max(0, tokens.length - 1));
  if (tokens.length > 1 && stepwise) parts.push(field("output step: ", "at", select([...every, ...tokens.map(({ text }, i) => [String(i), `${i + 1}: ${short(text)}`])], row)));
  const which = heads.includes(state.which) ? state.which : heads[0] ?? "";
  if (how === "scores") parts.push(field("head ", "which", select(heads.map((name) => [name, `layer ${name.replace(".", ", head ")}`]), which)));
  const places = { heads: kinds, paths: kinds.filter((kind) => kind !== "cross") }[by] ?? ["encoder", "decoder"];
  const whose = how === "patching" && places.includes(state.whose) ? state.whose : "";
  if (how === "patching") parts.push(field("part: ", "whose", select([["", "all parts"], ...places.map((kind) => [kind, WHOSE[kind]])], whose)));
  if (contrasted) parts.push(field("contrast with: ", "instead", typed(state.instead, "another output")));
  if (how === "patching") parts.push(...other(state.other, (text, name) => change({ other: text }, name)));
  const answer = element("div", { role: "status" });
  place.append(element("div", { className: "asks", role: "group", ariaLabel: "why" }, ...parts), answer);
  if (how === "patching" && !state.other.trim()) {
    answer.append(element("p", { className: "caption", textContent: "Enter a second input, ideally with a single difference. States of this input are copied into it; the table shows how much of the answer returns." }));
    return null;
  }
  const wish = { how, ...(by ? { by } : {}), ...(stepwise && row !== "all" ? { row: Number(row) } : {}), ...(whose ? { kind: whose } : {}) };
  if (how === "scores") [wish.layer, wish.head] = which.split(".").map(Number);
  if (contrasted && state.instead.trim()) wish.instead = state.instead.trim();
  if (how === "patching") wish.against_input = state.other;
  const key = JSON.stringify([wish, state.hypothesis]);
  if (!known.has(key)) known.set(key, explain(wish));
  answer.append(element("p", { className: "caption", textContent: "computing …" }));
  known.get(key).then((table) => {
    answer.replaceChildren();
    drawTable(answer, table, grids);
  }, (error) => {
    known.delete(key);
    answer.replaceChildren(element("p", { className: "wrong", textContent: error.message }));
  });
  return wish;
}

function drawTable(place, { title, about, rows, columns, values, words }, grids) {
  place.append(element("h2", { className: "answer", textContent: title }), element("p", { className: "caption", textContent: about }));
  const named = (texts) => texts.map((text) => ({ text }));
  const whole = { values: Float32Array.from(values.flat()), rows: named(rows), columns: named(columns) };
  const over = words ? null : uponPicture(rows, columns, values, grids) ?? uponPicture(columns, rows, turned(values), grids);
  if (over) {
    drawSigned(place, over.pictures, over.axis, over.top);
    place.append(signedScale(over.top, signedHeat()));
    if (over.rest.columns.length && largest(over.rest.values.flat()) > 1e-3 * over.top) place.append(writtenTable({ ...over.rest, top: over.top }, title)); // and no rounding
    place.append(numbersTable(whole, title));
  } else if (rows.length * columns.length > MOST_WRITTEN || (!words && columns.length > MOST_COLUMNS)) {
    drawMatrix(place, whole, { signed: true, label: title });
    place.append(signedScale(largest(whole.values)), numbersTable(whole, title));
  } else place.append(writtenTable({ rows, columns, values, words }, title));
}

/** Where the columns are regions of a picture: what lies upon it, row by row, and the columns that do not. */
function uponPicture(rows, columns, values, grids) {
  for (const axis of grids) {
    const names = columns.map((name) => name.split(" | ")[0]); // of two inputs, this one
    const places = upon(axis).map((place) => names.indexOf(axis.tokens[place].text));
    if (places.includes(-1)) continue;
    const others = columns.map((_, j) => j).filter((j) => !places.includes(j));
    const pictures = rows.map((text, i) => ({ text, values: places.map((j) => values[i][j]) }));
    const rest = { rows, columns: others.map((j) => columns[j]), values: values.map((row) => others.map((j) => row[j])) };
    return { axis, pictures, rest, top: largest(pictures.flatMap((one) => one.values)) };
  }
  return null;
}

function turned(values) {
  return values[0].map((_, j) => values.map((row) => row[j]));
}

function signedScale(top, colors = ramp(true)) {
  return scaleBar(top, { colors, low: `−${Number(top.toPrecision(2))}` });
}

function writtenTable({ rows, columns, values, words, top = largest(values.flat()) }, title) {
  const colors = ramp(true);
  const head = (text, scope) => Object.assign(element("th", { dir: "auto", textContent: text }), { scope });
  const cell = (value, word) => {
    const color = colors[Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, value / top)))];
    const made = element("td", { dir: "auto", textContent: word ?? signedText(value, top), title: value.toPrecision(4) });
    [made.style.background, made.style.color] = [css(color), inkOn(color)];
    return made;
  };
  const lines = rows.map((name, i) => element("tr", {}, head(name, "row"), ...columns.map((_, j) => cell(values[i][j], words?.[i][j]))));
  const made = element("table", { className: "why" }, element("thead", {}, element("tr", {}, element("td"), ...columns.map((name) => head(name, "col")))), element("tbody", {}, ...lines));
  return element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: title }, made);
}
