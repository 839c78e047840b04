// Decoding settings beside the film (search or sampling), and the tree of hypotheses.
import { element } from "./paint.js";

const BEAMS = [1, 2, 3, 5, 10];
const SEVERAL = [1, 2, 3, 5];

/**
 * `known`: the settings of the model, {beam?, temperature?, top_k?, top_p?, n_best?, …}; `now`: the requested settings, by the
 * same names, and `sample`; `ways`: "search", "sample" or both; `change(changes)` decodes again, null resets a setting.
 */
export function drawDecoding(place, { known, now, ways, change }) {
  const value = (name) => now[name] ?? known[name];
  const drawn = ways.length === 1 ? ways[0] === "sample" : Boolean(now.sample);
  const chosen = (name, given) => change({ [name]: given === known[name] ? null : given });
  const select = (label, name, options, current, tell) => {
    const made = element("select", { name }, ...options.map(([text, key]) => new Option(text, String(key))));
    made.value = String(current);
    made.addEventListener("change", () => tell(made.value));
    return element("label", {}, label, made);
  };
  const range = (label, name, { min, max, step }) => {
    const number = Number(value(name));
    const told = element("output", { textContent: number.toFixed(2) });
    const made = element("input", { type: "range", name, min, max, step });
    made.value = number;
    made.addEventListener("input", () => { told.textContent = Number(made.value).toFixed(2); });
    made.addEventListener("change", () => chosen(name, Number(made.value)));
    return element("label", {}, label, made, told);
  };
  const numbers = (offered, name) => [...new Set([...offered, value(name)])].sort((a, b) => a - b).map((one) => [one || "all", one]);
  /** A search returns at most `beam` hypotheses, so raising one or lowering the other changes both. */
  const several = () => select("hypotheses", "n_best", numbers(SEVERAL, "n_best"), value("n_best"), (given) => {
    const n = Number(given);
    change({ n_best: n === known.n_best ? null : n, ...(!drawn && n > value("beam") ? { beam: n } : {}) });
  });
  const parts = [];
  if (ways.length > 1) {
    const search = "beam" in known ? "beam search" : "greedy";
    parts.push(select("decoding", "sample", [[search, ""], ["sampling", "1"]], drawn ? "1" : "", (given) => change({ sample: given ? true : null, n_best: null })));
  }
  if (!drawn && "beam" in known) {
    parts.push(select("beam", "beam", numbers(BEAMS, "beam"), value("beam"), (given) => {
      const beam = Number(given);
      change({ beam: beam === known.beam ? null : beam, ...(value("n_best") > beam ? { n_best: beam } : {}) });
    }), several());
  }
  if (drawn) {
    parts.push(range("temperature", "temperature", { min: 0.1, max: 2, step: 0.05 }));
    if ("top_k" in known) parts.push(select("top-k", "top_k", numbers([0, 1, 3, 10, 40], "top_k"), value("top_k"), (given) => chosen("top_k", Number(given))));
    if ("top_p" in known) parts.push(range("top-p", "top_p", { min: 0.05, max: 1, step: 0.05 }));
    parts.push(several());
    const again = element("button", { type: "button", name: "seed", textContent: "Sample again", title: "with another random seed" });
    again.addEventListener("click", () => change({ seed: Number(value("seed") ?? 0) + 1 }));
    parts.push(again);
  }
  place.append(element("div", { className: "decoding", role: "group", ariaLabel: "decoding" }, ...parts));
}

/** The tree of hypotheses, with shared prefixes once. A button selects a hypothesis in every view. */
export function drawTree(place, nodes, scores, chosen, pick) {
  const branch = (node) => {
    const words = element("span", { textContent: node.tokens.join(" "), dir: "auto" });
    words.classList.toggle("best", node.hypotheses.includes(0));
    const item = element("li", {}, words, element("span", { className: "log", textContent: `log p ${node.log_probability.toFixed(2)}` }));
    if (node.children.length) item.append(element("ul", {}, ...node.children.map(branch)));
    else for (const number of node.hypotheses) {
      const score = scores[number] === null ? "" : `, score ${scores[number].toFixed(3)}`;
      const button = element("button", { type: "button", name: "hypothesis", value: number, textContent: `#${number + 1}${score}` });
      button.setAttribute("aria-pressed", String(number === chosen));
      button.addEventListener("click", () => pick(number));
      item.append(button);
    }
    return item;
  };
  place.append(element("section", { className: "hypotheses" }, element("h2", { textContent: "Hypotheses" }), element("ul", { className: "tree" }, ...nodes.map(branch))));
}
