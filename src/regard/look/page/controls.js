// Controls of a record: view, attention, layer, head. Only available choices are shown.
import { hasWords } from "./data.js";
import { element } from "./paint.js";

const KINDS = { cross: "over the source", encoder: "of the encoder", decoder: "of the decoder" };
const VIEWS = { matrix: "Matrix", lines: "Lines", grid: "Heads", text: "Text", compare: "Side by side", training: "Training replay", why: "Why" };

export function viewsOf(record, columns, { against, history, why }) {
  const views = columns.grid ? ["overlay", "matrix", "grid"] // regions are no words
    : columns.times ? ["overlay", "matrix", "lines", "grid"] : ["matrix", "lines", "grid", "text"];
  if (against) views.push("compare");
  if (history.length) views.push("training");
  if (why) views.push("why");
  return views;
}

/** `settled`: {kinds, layers, heads, one, views}; `change(changes)` is called on a choice. */
export function drawControls(place, record, state, { kinds, layers, heads, one, views }, change) {
  const chosen = (key, value) => {
    change({ [key]: value });
    (place.querySelector(`[name=${key}]:checked`) ?? place.querySelector(`[name=${key}]`))?.focus();
  };
  const select = (name, key, options) => {
    const made = element("select", { name: key }, ...options.map(([value, text]) => new Option(text, value)));
    made.value = String(state[key]);
    made.addEventListener("change", () => chosen(key, made.value));
    return element("label", {}, name, made);
  };
  const tick = (name, key) => {
    const box = element("input", { type: "checkbox", name: key, checked: state[key] });
    box.addEventListener("change", () => chosen(key, box.checked));
    return element("label", { className: "tick" }, box, name);
  };
  const columns = record.axes[layers[0].columns];
  const tabs = views.map((view) => {
    const radio = element("input", { type: "radio", name: "view", value: view, checked: view === state.view });
    radio.addEventListener("change", () => chosen("view", view));
    return element("label", {}, radio, element("span", { textContent: view === "overlay" ? (columns.grid ? "Picture" : "Time") : VIEWS[view] }));
  });
  const whole = !["grid", "why"].includes(state.view); // layers and heads can be chosen
  const parts = [element("div", { className: "tabs", role: "radiogroup", ariaLabel: "view" }, ...tabs)];
  if (kinds.length > 1 && state.view !== "why") parts.push(select("attention", "kind", kinds.map((kind) => [kind, KINDS[kind]])));
  if (layers.length > 1 && whole) parts.push(select("layer", "layer", [["all", "all"], ...layers.map(({ layer }) => [String(layer), String(layer)])]));
  if (heads * layers.length > 1 && whole) {
    const numbers = !one ? [] : Array.from({ length: heads }, (_, h) => [String(h), String(h)]);
    parts.push(select("head", "head", [["mean", "mean"], ["max", "max"], ...numbers]));
  }
  const ticks = state.view === "why" ? [] : [tick("log scale", "log")];
  if (!["grid", "overlay", "why"].includes(state.view)) {
    if (hasWords(record)) ticks.push(tick("words", "words"));
    const shown = [layers[0].rows, layers[0].columns].flatMap((axis) => record.axes[axis].tokens);
    if (shown.some(({ special }) => special)) ticks.push(tick("special tokens", "specials"));
  }
  place.replaceChildren(...parts, element("div", { className: "ticks" }, ...ticks));
}
