// Click a weight: how did it come about? A dialog with the score's equation, the row before and after the softmax, and
// what the weight adds to the output. Anything inside `root` opens it by a bubbling event:
//   dispatchEvent(new CustomEvent("weight", { bubbles: true, detail: { kind, layer, head, row, column } }))
import { css, element, ramp } from "./paint.js";

const MOST_PARTS = 8; // of a query or a key
const MOST_KEYS = 12; // of the row: those with the largest weights

/**
 * `choice()`: the table that is shown, {kind, layer, head, …}; what an event does not say is as it is there.
 * `explain(choice)` → what the service says of the weight, as /api/weight has it; null where there is no model to ask,
 * and `table()` has the numbers that are shown. Gives back what takes it away.
 */
export function explainWeights(root, choice, explain, table) {
  const body = element("div", { tabIndex: -1 });
  const shut = element("button", { type: "button", className: "shut", textContent: "Close" });
  const dialog = element("dialog", { className: "weight", ariaLabel: "computation of this weight" }, shut, body);
  shut.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // beside it
  root.append(dialog);
  let turn = 0;
  let from = null;

  async function open(event) {
    const mine = ++turn;
    const wanted = { ...choice(), ...event.detail };
    if (!dialog.open) from = document.activeElement;
    body.replaceChildren(element("p", { className: "caption", role: "status", textContent: "computing …" }));
    if (!dialog.open) dialog.showModal();
    body.focus(); // the Enter that opens it shall not press its button
    try {
      const found = explain ? await explain(wanted) : fromTable(table(), wanted);
      found.shown = shownInstead(table(), found, wanted);
      const byTokens = found.tokens && !found.tokens.length ? () => open({ detail: { ...event.detail, tokens: true } }) : null;
      if (mine === turn) drawWeight(body, found, byTokens);
    } catch (error) {
      if (mine === turn) body.replaceChildren(element("p", { className: "wrong", role: "alert", textContent: error.message }));
    }
  }
  const back = () => from?.isConnected && from.focus();
  root.addEventListener("weight", open);
  dialog.addEventListener("close", back);
  return () => {
    turn = -1;
    root.removeEventListener("weight", open);
    dialog.remove();
  };
}

/** Without a model: the row as it is shown, and scores up to what a softmax does not see, e_j − max e = ln(a_j / max a). */
export function fromTable({ values, rows, columns, one }, { row, column }) {
  const weights = Array.from(values.subarray(row * columns.length, (row + 1) * columns.length));
  const top = Math.max(...weights);
  const steps = [["softmax", `a = ${weights[column].toFixed(4)}, one of ${columns.length} weights of its row`]];
  if (one) steps.unshift(["score", "e − max e = ln(a / max a), computed from the weights"]);
  return {
    title: `${rows[row].text} ← ${columns[column].text}: ${weights[column].toFixed(4)}`, steps, terms: [], weights,
    place: column, keys: columns.map((token) => token.text),
    scores: one ? weights.map((weight) => (weight > 0 ? Math.log(weight / top) : null)) : null,
    note: "This file contains the weights only. Query, key and value are in the model: open it with regard serve.",
  };
}

/** `byTokens()` asks for what each part of the input brings, which takes longer; null where that is here already, or cannot be asked. */
function drawWeight(place, found, byTokens) {
  const where = found.title.lastIndexOf(" (attention ");
  const [cell, told] = where < 0 ? [found.title, ""] : [found.title.slice(0, where), found.title.slice(where)];
  const number = cell.lastIndexOf(": ") + 1; // before it are words, which stay as they are
  const steps = found.steps.flatMap(([name, text]) => [element("dt", { textContent: name }), element("dd", {}, ...equation(text))]);
  place.replaceChildren(
    element("h2", {}, element("bdi", { textContent: cell.slice(0, number) + withMinus(cell.slice(number)) }), element("small", { textContent: told })),
    ...(found.shown ? [element("p", { className: "caption", textContent: found.shown })] : []),
    element("dl", {}, ...(found.query ? comparedVectors(found) : []), ...steps),
    ...(found.terms.length ? [element("h3", { textContent: "The terms that add most to the score" }), barsTable(found.terms.map(([dimension, number]) => [`dimension ${dimension}`, number]))] : []),
    ...(found.parts?.length ? [element("h3", { textContent: "Parts of the score (they add up to it)" }), barsTable(mostOf(found.parts.map(({ name, value }) => [name, value])))] : []),
    ...(found.tokens?.length ? [element("h3", { textContent: "Contributions of the input to the score (they add up to it)" }), barsTable(mostOf(found.tokens.map(({ name, value }) => [name, value])))] : []),
    ...(byTokens ? [asking("Contributions of the input", byTokens)] : []),
    element("h3", { textContent: "The row, before and after the softmax" }), rowTable(found),
    ...(found.note ? [element("p", { className: "caption", textContent: found.note })] : []),
  );
}

function asking(text, act) {
  const made = element("button", { type: "button", className: "more", textContent: text });
  made.addEventListener("click", act);
  return made;
}

/** Where the picture has several heads in one: what it shows, which is not what is told of one of them. */
function shownInstead(now, { weights, place }, { head, row, column }) {
  if (!["mean", "max"].includes(head) || !now) return "";
  const shown = now.values[row * now.columns.length + column];
  return Math.abs(shown - weights[place]) < 5e-5 ? "" : `The picture shows ${shown.toFixed(4)}, the ${head === "max" ? "largest" : "mean"} of several heads; this is the head that looks there most.`;
}

/** As it is written on a board: _q stands low, and the numbers that are filled in stand in a line of their own. */
function equation(text) {
  const [left, right, ...filled] = text.split(" = ");
  const lines = right === undefined ? [left] : [`${left} = ${right}`, ...(filled.length ? [` = ${filled.join(" = ")}`] : [])];
  return lines.map(withMinus).map((line) => element("span", {}, ...line.split(/_(\w+)/).map((part, i) => (i % 2 ? element("sub", { textContent: part }) : part))));
}

/** −2.9 − 0.99 and 4.1·10⁻⁵, where a program writes -2.9 + -0.99 and 4.1e-05. */
function withMinus(line) {
  const high = (digits) => [...String(Number(digits))].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
  return line.replace(/e-(\d+)/g, (_, digits) => `·10⁻${high(digits)}`).replace(/\+ -(?=\d)/g, "− ").replace(/(^|[\s(])-(?=\d)/g, "$1−");
}

/** Query and key as the score compares them: a strip each, a color for each sign, in one scale. */
function comparedVectors({ query, key }) {
  const top = Math.max(...query.map(Math.abs), ...key.map(Math.abs)) || 1;
  const colors = ramp(true);
  return [["query q", query], ["key k", key]].flatMap(([name, numbers]) => {
    const strip = element("canvas", { width: numbers.length, height: 1, className: "strip-of" });
    const length = Math.hypot(...numbers).toPrecision(4);
    strip.setAttribute("role", "img");
    strip.ariaLabel = `${numbers.length} numbers from ${Math.min(...numbers).toPrecision(3)} to ${Math.max(...numbers).toPrecision(3)}`;
    const pen = strip.getContext("2d");
    numbers.forEach((number, i) => {
      pen.fillStyle = css(colors[Math.round(127.5 + (127.5 * number) / top)]);
      pen.fillRect(i, 0, 1, 1);
    });
    return [element("dt", { textContent: name }), element("dd", {}, strip, element("span", { className: "caption", textContent: `${numbers.length} numbers, length ${length}` }))];
  });
}

/** The parts that add most, in their order, and all others as one. */
function mostOf(every) {
  const least = 1e-6 * Math.max(...every.map(([, number]) => Math.abs(number)));
  const parts = every.filter(([, number]) => Math.abs(number) > least); // and nothing that is rounding only
  const most = new Set([...parts].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, MOST_PARTS));
  const rest = parts.filter((part) => !most.has(part));
  const shown = parts.filter((part) => most.has(part));
  return rest.length ? [...shown, [`${rest.length} others`, rest.reduce((sum, [, number]) => sum + number, 0)]] : shown;
}

/** Bars by their size, with a color for each sign. `numbers`: [[name, number]]. */
function barsTable(numbers) {
  const top = Math.max(...numbers.map(([, number]) => Math.abs(number))) || 1;
  return element("table", { className: "terms" }, element("tbody", {}, ...numbers.map(([name, number]) => {
    const meter = element("td", { className: "bar" }, weightBar(Math.abs(number) / top, number < 0));
    return element("tr", {}, headCell(name, "row"), meter, element("td", { textContent: withSign(number) }));
  })));
}

function rowTable({ keys, scores, weights, place }) {
  const order = weights.map((_, key) => key).sort((a, b) => weights[b] - weights[a]).slice(0, MOST_KEYS);
  const shown = [...new Set([...order, place])].sort((a, b) => a - b);
  const lines = shown.map((key) => {
    const name = headCell(keys[key], "row");
    name.dir = "auto";
    const score = scores && element("td", { textContent: scores[key] === null ? "masked" : withMinus(scores[key].toFixed(3)) });
    const line = element("tr", {}, name, ...(scores ? [score] : []), element("td", { className: "bar" }, weightBar(weights[key])), element("td", { textContent: withMinus(weightText(weights[key])) }));
    line.classList.toggle("own", key === place);
    if (key === place) line.setAttribute("aria-current", "true");
    return line;
  });
  const head = element("tr", {}, headCell("key", "col"), ...(scores ? [headCell("score", "col")] : []), element("td"), headCell("weight", "col"));
  const made = element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines));
  const left = keys.length - shown.length;
  return element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "row of the query" }, made,
    ...(left ? [element("p", { className: "caption", textContent: `and ${left} keys with less weight` })] : []));
}

function headCell(text, scope) {
  const made = element("th", { textContent: text });
  made.scope = scope;
  return made;
}

function weightBar(share, below = false) {
  const made = element("span", { className: below ? "below" : "" });
  made.style.width = `${Math.max(1, 100 * share)}%`;
  return made;
}

/** A weight that is no zero does not look like one. */
function weightText(weight) {
  return weight >= 5e-5 || weight === 0 ? weight.toFixed(4) : weight.toExponential(1);
}

function withSign(number) {
  return `${number < 0 ? "−" : "+"}${Math.abs(number).toPrecision(3)}`;
}
