// Why was this said? What layers, heads and parts of the input add to it: tables of numbers with a sign, asked of the model.
import { drawMatrix } from "./matrix.js";
import { css, element, inkOn, ramp, short } from "./paint.js";
import { numbersTable } from "./views.js";

const WAYS = {
  lens: ["what each layer would say next", "logit lens"],
  logits: ["what each layer and head adds to a word", "direct logits"],
  "inputs integrated-gradients": ["what each input adds", "integrated gradients"],
  "inputs attnlrp": ["what each input adds", "AttnLRP"],
  "inputs input-gradient": ["what each input adds", "input × gradient"],
  "patching heads": ["what each head carries of another input", "patching"],
  "patching positions": ["what each position carries of another input", "patching"],
  "patching states": ["what each recurrent state carries of another input", "patching"],
  "patching paths": ["what each head tells a later one", "path patching"],
};
const MOST_WRITTEN = 4000; // that are written as text: larger tables are painted

/**
 * `ways`: those that the model has an answer to; `tokens`: of the output, one of which may be asked about; `state`: {why, at,
 * instead, other}; `explain({how, by, row, instead, against_input})` → {title, about, rows, columns, values, words}.
 * Gives back what was asked; null, if something is missing.
 */
export function drawWhy(place, { ways, tokens, state, known }, explain, change) {
  const way = ways.includes(state.why) ? state.why : ways[0];
  const [how, by] = way.split(" ");
  const field = (label, name, made) => {
    made.name = name;
    made.addEventListener("change", () => change({ [name]: made.value }));
    return element("label", {}, label, made);
  };
  const select = (options, current) => {
    const made = element("select", {}, ...options.map(([value, text]) => new Option(text, value)));
    made.value = current;
    return made;
  };
  const typed = (current, placeholder) => element("input", { type: "text", value: current, placeholder, autocomplete: "off", dir: "auto" });
  const parts = [field("why: ", "why", select(ways.map((one) => [one, `${WAYS[one][0]} (${WAYS[one][1]})`]), way))];
  const row = tokens.length > 1 && tokens[Number(state.at)] ? state.at : "all";
  if (tokens.length > 1 && how !== "lens") parts.push(field("of ", "at", select([["all", "all steps"], ...tokens.map(({ text }, i) => [String(i), `${i + 1}: ${short(text)}`])], row)));
  if (how !== "lens") parts.push(field("instead of ", "instead", typed(state.instead, "any other")));
  if (how === "patching") parts.push(field("the other input ", "other", typed(state.other, "as long as this one")));
  const answer = element("div", { role: "status" });
  place.append(element("div", { className: "asks", role: "group", ariaLabel: "why" }, ...parts), answer);
  if (how === "patching" && !state.other.trim()) {
    answer.append(element("p", { className: "caption", textContent: "Give another input, such as this one with one word changed: states of this one are carried into it, and it is seen how much of the answer comes back." }));
    return null;
  }
  const wish = { how, ...(by ? { by } : {}), ...(how !== "lens" && row !== "all" ? { row: Number(row) } : {}) };
  if (how !== "lens" && state.instead.trim()) wish.instead = state.instead.trim();
  if (how === "patching") wish.against_input = state.other;
  const key = JSON.stringify([wish, state.hypothesis]);
  if (!known.has(key)) known.set(key, explain(wish));
  answer.append(element("p", { className: "caption", textContent: "asking the model …" }));
  known.get(key).then((table) => {
    answer.replaceChildren();
    drawTable(answer, table);
  }, (error) => {
    known.delete(key);
    answer.replaceChildren(element("p", { className: "wrong", textContent: error.message }));
  });
  return wish;
}

function drawTable(place, { title, about, rows, columns, values, words }) {
  place.append(element("h2", { className: "answer", textContent: title }), element("p", { className: "caption", textContent: about }));
  if (rows.length * columns.length > MOST_WRITTEN) {
    const named = (texts) => texts.map((text) => ({ text }));
    const table = { values: Float32Array.from(values.flat()), rows: named(rows), columns: named(columns) };
    drawMatrix(place, table, { signed: true, label: title });
    place.append(numbersTable(table));
    return;
  }
  const colors = ramp(true);
  const top = Math.max(...values.flat().map(Math.abs)) || 1;
  const head = (text, scope) => Object.assign(element("th", { dir: "auto", textContent: text }), { scope });
  const cell = (value, word) => {
    const color = colors[Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, value / top)))];
    const made = element("td", { dir: "auto", textContent: word ?? `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`, title: value.toPrecision(4) });
    [made.style.background, made.style.color] = [css(color), inkOn(color)];
    return made;
  };
  const lines = rows.map((name, i) => element("tr", {}, head(name, "row"), ...columns.map((_, j) => cell(values[i][j], words?.[i][j]))));
  const made = element("table", { className: "why" }, element("thead", {}, element("tr", {}, element("td"), ...columns.map((name) => head(name, "col")))), element("tbody", {}, ...lines));
  place.append(element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: title }, made));
}
