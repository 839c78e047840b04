// How one weight came about, with its numbers: what look/weight.py tells of it in Python.
//   e_ij = score(q_i, k_j) + b_ij       a_ij = exp(e_ij) / Σ_j exp(e_ij)       y_i = Σ_heads Σ_j a_ij v_j W_o
// A row of a trace has {heads: [{score, query, keys, values, bias, scores, weights}], out: W_o, gate}.
import { dot, general, largest, linear, sum, times } from "./vectors.js";

const MOST_TERMS = 8;

/** Of a cell of the tables of an answer. Without a layer or a head, those in which it has the most weight. */
export function weightOf({ attentions, axes }, kinds, { kind, layer, head, row, column }) {
  const tables = attentions.filter((one) => one.kind === kind && (typeof layer !== "number" || one.layer === layer));
  const cells = tables.flatMap((table) => Array.from({ length: table.shape[0] }, (_, h) => ({ table, h })))
    .filter(({ h }) => typeof head !== "number" || h === head);
  const shown = ({ table: { weights, shape }, h }) => weights[(h * shape[1] + row) * shape[2] + column];
  const { table, h } = cells.reduce((best, one) => (shown(one) > shown(best) ? one : best));
  const { before, query } = table.came, asked = query(row), place = column + before;
  const [rows, columns] = [table.rows, table.columns].map((name) => axes[name].tokens.map(({ text }) => text));
  if (!asked) {
    throw new Error(`The row ${rows[row]} is the mean over all vectors, as they are pooled alike, and a mean has no score of its own: choose the attention inside the encoder.`);
  }
  const { score: how, query: q, keys, values, bias: added, scores, weights } = asked.heads[h];
  if (place >= keys.length) throw new Error(`${rows[row]} cannot look at ${columns[column]}: the mask hides it.`);
  const key = keys[place], terms = how.terms(q, key), score = sum(terms), bias = added ? added(place) : null;
  const own = outputOf(asked, h, times(values[place], weights[place])), whole = wholeOf(asked);
  const hidden = Array(columns.length + before - keys.length).fill(null);
  const found = {
    kind, layer: table.layer, head: h, row, column, weight: weights[place], gate: asked.gate ?? null, score, bias, place,
    equation: [how.equation, how.numbers(q, key), general(score)].filter(Boolean).join(" = "),
    query: Array.from(how.compared(q)), key: Array.from(key), terms: largest(terms.map(Math.abs), MOST_TERMS).map((n) => [n, terms[n]]),
    keys: [...Array.from({ length: before }, (_, n) => `(${n})`), ...columns],
    scores: [...scores, ...hidden], weights: [...weights, ...hidden.map(() => 0)],
    value_length: length(values[place]), added_length: length(own), share: dot(own, whole) / Math.max(dot(whole, whole), 1e-30),
  };
  const where = `attention ${kinds[kind]}, layer ${table.layer}, head ${h}`;
  return { ...found, title: `${rows[row]} ← ${columns[column]}: ${weightNumber(found.weight)} (${where})`, steps: stepsOf(found, scores) };
}

/** From the score to the output: the name of each step, and what happens there. */
function stepsOf({ equation, score, bias, weight, gate, value_length, added_length, share }, scores) {
  const total = score + (bias ?? 0), top = Math.max(...scores), most = top >= 0 ? general(top) : `(${general(top)})`;
  const own = Math.exp(total - top), every = sum(scores.map((one) => Math.exp(one - top)));
  return [
    ["score", equation],
    ...(bias === null ? [] : [["position", `e = ${general(score)} ${bias < 0 ? "" : "+"}${general(bias)} = ${general(total)}`]]),
    ["softmax", `a = exp(e − ${most}) / Σ_j exp(e_j − ${most}) = ${general(own)} / ${general(every)} = ${weightNumber(own / every)}`],
    ...(gate === null ? [] : [["gate", `times the gate ${gate.toFixed(4)}: ${(gate * weight).toFixed(4)} is shown`]]),
    ["value", `‖v‖ = ${general(value_length)}`],
    ["output", `‖a v W_o‖ = ${general(added_length)} is added, ${(100 * share).toFixed(1).replace("-0.0", "0.0")}% of the output`],
  ];
}

/** What a vector of one head becomes in the output. */
function outputOf({ heads, out }, h, vector) {
  if (!out) return vector;
  const wide = new Float32Array(heads.length * vector.length);
  wide.set(vector, h * vector.length);
  return linear([wide], out)[0];
}

/** Σ_heads Σ_j a_ij v_j W_o */
function wholeOf(asked) {
  const contexts = asked.heads.map(({ values, weights }) => values[0].map((_, i) => sum(values.map((value, j) => weights[j] * value[i]))));
  const parts = contexts.map((context, h) => outputOf(asked, h, context));
  return parts.reduce((one, other) => one.map((value, i) => value + other[i]));
}

const length = (x) => Math.sqrt(dot(x, x));

/** A weight that is no zero does not look like one. */
function weightNumber(weight) {
  return weight >= 5e-5 || weight === 0 ? weight.toFixed(4) : weight.toExponential(1);
}
