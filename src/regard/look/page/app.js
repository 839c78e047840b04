// The page: controls, caption, picture and card. `mount` serves an HTML file, a notebook and a served page alike.
import { has, hasWords, keyOf, kindsOf, largest, layersOf, openRecord, tableOf } from "./data.js";
import { drawLines } from "./lines.js";
import { drawMatrix, scaleBar } from "./matrix.js";
import { element } from "./paint.js";
import { drawCard, drawGrid, drawText, drawTree, numbersTable } from "./views.js";

/**
 * `page`: {open, records: [record, against?], cards, methods, kinds, tree, scores}; `keep` keeps the state in the URL.
 * Returns {change, close, state}: `change({view: "grid"})` does what the controls do, `close` lets go of the page.
 */
export function mount(root, page, { keep = false } = {}) {
  const [record, against] = page.records.map(openRecord);
  const hypotheses = [record, ...record.beams];
  const state = { ...page.open, words: false, specials: true, hypothesis: 0 };
  if (keep) for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
    if (key in state) state[key] = typeof state[key] === "boolean" ? value === "true" : value;
  }
  root.classList.add("regard");
  const controls = element("div", { className: "controls", role: "group", ariaLabel: "what is shown" });
  const caption = element("p", { className: "caption" });
  const picture = element("div");
  const card = element("aside", { className: "card", ariaLabel: "whether to believe it" });
  const title = element("h1", {}, element("bdi", { textContent: record.input }));
  if (record.output) title.append(element("span", { className: "arrow", textContent: " → " }), element("bdi", { textContent: record.output }));
  const stage = element("div", { className: "stage" }, picture, card);
  root.append(title, caption, controls, stage);

  const kinds = kindsOf(record);
  const views = ["matrix", "lines", "grid", "text"];
  if (against) views.push("compare");
  if (record.beams.length) views.push("beams");
  settle();

  function settle() {
    if (!kinds.includes(state.kind)) state.kind = kinds[0];
    if (!views.includes(state.view)) state.view = views[0];
    const layers = layersOf(record, state.kind);
    if (state.layer !== "all" && !layers.some((one) => one.layer === Number(state.layer))) state.layer = "all";
    const heads = layers[0].shape[0];
    const one = layers.length === 1 || state.layer !== "all"; // layer, so that heads have numbers
    if (layers.length === 1) state.layer = "all";
    if (!["mean", "max"].includes(state.head) && !(one && Number(state.head) < heads)) state.head = "mean";
    return { layers, heads, one };
  }

  function change(changes) {
    Object.assign(state, changes);
    draw();
    if (keep) {
      const { view, kind, layer, head, log, words, specials } = state;
      history.replaceState(null, "", `#${new URLSearchParams({ view, kind, layer, head, log, words, specials })}`);
    }
  }

  function choose(name, key, options) {
    const select = element("select", { name: key }, ...options.map(([value, text]) => new Option(text, value)));
    select.value = String(state[key]);
    select.addEventListener("change", () => {
      change({ [key]: select.value });
      controls.querySelector(`[name=${key}]`)?.focus();
    });
    return element("label", {}, name, select);
  }

  function tick(name, key) {
    const box = element("input", { type: "checkbox", name: key, checked: state[key] });
    box.addEventListener("change", () => {
      change({ [key]: box.checked });
      controls.querySelector(`[name=${key}]`)?.focus();
    });
    return element("label", { className: "tick" }, box, name);
  }

  function draw() {
    const { layers, heads, one } = settle();
    const kindNames = { cross: "over the source", encoder: "of the encoder", decoder: "of the decoder" };
    const parts = [choose("view", "view", views.map((name) => [name, name]))];
    if (kinds.length > 1) parts.push(choose("attention", "kind", kinds.map((kind) => [kind, kindNames[kind]])));
    if (layers.length > 1 && state.view !== "grid") parts.push(choose("layer", "layer", [["all", "all"], ...layers.map(({ layer }) => [String(layer), String(layer)])]));
    if (heads * layers.length > 1 && state.view !== "grid") {
      const numbers = !one ? [] : Array.from({ length: heads }, (_, h) => [String(h), String(h)]);
      parts.push(choose("head", "head", [["mean", "mean"], ["max", "max"], ...numbers]));
    }
    parts.push(tick("log scale", "log"));
    if (state.view !== "grid") {
      if (hasWords(record)) parts.push(tick("words", "words"));
      parts.push(tick("special tokens", "specials"));
    }
    controls.replaceChildren(...parts);

    const told = page.cards[keyOf(state)];
    const method = page.methods[record.method];
    const apart = state.view === "grid" || (state.view === "lines" && state.head === "mean" && one && heads > 1);
    const subject = apart ? `Attention ${page.kinds[state.kind]}, each head by itself` : told.title;
    caption.textContent = `${subject}. Method: ${record.method}${method ? `, ${method}` : ""}.`;
    stage.classList.toggle("wide", state.view === "compare");
    picture.replaceChildren();
    card.replaceChildren();
    drawCard(card, told);
    view(layers, told.title, apart);
  }

  function view(layers, label, apart) {
    const shown = hypotheses[state.hypothesis];
    const table = tableOf(state.view === "beams" ? shown : record, state);
    const { log } = state;
    if (state.view === "grid") {
      drawGrid(picture, layers, log, (layer, head) => page.cards[keyOf({ kind: state.kind, layer, head })].line,
        (layer, head) => change({ view: "matrix", layer: String(layer), head: String(head) }));
      return;
    }
    if (state.view === "compare") return compare(table);
    if (state.view === "lines") {
      const tables = !apart ? [table]
        : Array.from({ length: layers[0].shape[0] }, (_, head) => tableOf(record, { ...state, head }));
      drawLines(picture, tables, apart ? tables.map((_, head) => `head ${head}`) : [label], log);
    } else if (state.view === "text") drawText(picture, table, log);
    else {
      if (state.view === "beams") drawTree(picture, page.tree, page.scores, state.hypothesis, (number) => change({ hypothesis: number }));
      drawMatrix(picture, table, { log, label });
      picture.append(scaleBar(largest(table.values)));
    }
    picture.append(numbersTable(table));
  }

  function compare(table) {
    const there = has(against, state);
    const other = there && tableOf(against, state);
    if (!there || other.values.length !== table.values.length) {
      picture.append(element("p", { textContent: "The second record has no table like this one: choose another layer or head." }));
      return;
    }
    const apart = { ...table, values: table.values.map((value, i) => value - other.values[i]) };
    const top = Math.max(largest(table.values), largest(other.values));
    const trio = element("div", { className: "trio" });
    picture.append(trio);
    const panels = [
      [`${record.model || "first"} (${record.method})`, table, { log: state.log, top }],
      [`${against.model || "second"} (${against.method})`, other, { log: state.log, top }],
      ["first minus second", apart, { signed: true }],
    ];
    const figures = panels.map(([name]) => element("figure", {}, element("figcaption", { textContent: name })));
    trio.append(...figures); // all of them, before any is drawn: they share the room
    panels.forEach(([name, one, how], number) => drawMatrix(figures[number], one, { ...how, label: name }));
    picture.append(numbersTable(apart));
  }

  draw();
  const scheme = window.matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", draw);
  let waiting = 0;
  let width = root.clientWidth;
  const sizes = new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(draw);
  });
  sizes.observe(root);
  const close = () => {
    scheme.removeEventListener("change", draw);
    sizes.disconnect();
  };
  return { change, close, state };
}
