// The page: controls, caption, picture and card. `mount` serves an HTML file, a notebook and a served page alike.
import { has, hasWords, keyOf, kindsOf, largest, layersOf, localSource, openRecord, topWeight } from "./data.js";
import { drawLines } from "./lines.js";
import { drawMatrix, scaleBar } from "./matrix.js";
import { drawOverlay } from "./overlay.js";
import { element } from "./paint.js";
import { drawTraining } from "./training.js";
import { explainWeights } from "./weight.js";
import { drawCard, drawGrid, drawText, drawTree, numbersTable } from "./views.js";

/**
 * `page`: {open, records: [record, against?], cards, methods, kinds, tree, scores, history?}. `history` has {step, record,
 * cards, figures} for each validation. `source` brings the tables, if the records are here without them; `keep` keeps
 * the state in the URL; `changed` is told of every change.
 * Returns {change, close, state, ready}: `change({view: "grid"})` does what the controls do, `close` lets go of the page.
 */
export function mount(root, page, { keep = false, source = null, changed = () => {} } = {}) {
  const history = page.history ?? [];
  const records = [...page.records, ...history.map((one) => one.record)].map(openRecord);
  const [record, against] = [records[0], page.records.length > 1 ? records[1] : null];
  const tables = source ?? localSource(records, [page.cards, ...Array(page.records.length - 1), ...history.map((one) => one.cards)]);
  const state = { ...page.open, words: false, specials: true, hypothesis: 0, step: Math.max(0, history.length - 1) };
  if (keep) for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
    if (key in state) state[key] = typeof state[key] === "boolean" ? value === "true" : typeof state[key] === "number" ? Number(value) : value;
  }
  root.classList.add("regard");
  const controls = element("div", { className: "controls", role: "group", ariaLabel: "what is shown" });
  const caption = element("p", { className: "caption" });
  const card = element("aside", { className: "card", ariaLabel: "whether to believe it" });
  const title = element("h1", {}, element("bdi", { textContent: record.input || "attention" }));
  if (record.output) title.append(element("span", { className: "arrow", textContent: " → " }), element("bdi", { textContent: record.output }));
  let picture = element("div");
  const stage = element("div", { className: "stage" }, picture, card);
  root.append(title, caption, controls, stage);
  let shown = null; // the table of the picture
  const noWeights = explainWeights(root, () => state, tables.weight ?? null, () => shown);
  const kinds = kindsOf(record);
  let turn = 0; // of drawing: what comes too late is not shown
  let ready = Promise.resolve();

  function axesOf(kind) {
    const [one] = layersOf(record, kind);
    return [record.axes[one.rows], record.axes[one.columns]];
  }

  function viewsNow() {
    const columns = axesOf(state.kind)[1];
    const views = ["matrix", "lines", "grid", "text"];
    if (columns.grid || columns.times) views.push("overlay");
    if (against) views.push("compare");
    if (record.beams.length) views.push("beams");
    if (history.length) views.push("training");
    return views;
  }

  function settle() {
    if (!kinds.includes(state.kind)) state.kind = kinds[0];
    const views = viewsNow();
    if (!views.includes(state.view)) state.view = views[0];
    if (!(state.step >= 0 && state.step < history.length)) state.step = Math.max(0, history.length - 1);
    if (!(state.hypothesis >= 0 && state.hypothesis <= record.beams.length)) state.hypothesis = 0;
    const layers = layersOf(record, state.kind);
    if (state.layer !== "all" && !layers.some((one) => one.layer === Number(state.layer))) state.layer = "all";
    const heads = layers[0].shape[0];
    const one = layers.length === 1 || state.layer !== "all"; // layer, so that heads have numbers
    if (layers.length === 1) state.layer = "all";
    if (!["mean", "max"].includes(state.head) && !(one && Number(state.head) < heads)) state.head = "mean";
    return { layers, heads, one, views };
  }

  function change(changes) {
    Object.assign(state, changes);
    draw();
    if (keep) {
      const { view, kind, layer, head, log, words, specials } = state;
      window.history.replaceState(null, "", `#${new URLSearchParams({ view, kind, layer, head, log, words, specials })}`);
    }
    changed(state);
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

  function drawControls({ layers, heads, one, views }) {
    const kindNames = { cross: "over the source", encoder: "of the encoder", decoder: "of the decoder" };
    const parts = [choose("view", "view", views.map((name) => [name, name]))];
    if (kinds.length > 1) parts.push(choose("attention", "kind", kinds.map((kind) => [kind, kindNames[kind]])));
    if (layers.length > 1 && state.view !== "grid") parts.push(choose("layer", "layer", [["all", "all"], ...layers.map(({ layer }) => [String(layer), String(layer)])]));
    if (heads * layers.length > 1 && state.view !== "grid") {
      const numbers = !one ? [] : Array.from({ length: heads }, (_, h) => [String(h), String(h)]);
      parts.push(choose("head", "head", [["mean", "mean"], ["max", "max"], ...numbers]));
    }
    parts.push(tick("log scale", "log"));
    if (!["grid", "overlay"].includes(state.view)) {
      if (hasWords(record)) parts.push(tick("words", "words"));
      parts.push(tick("special tokens", "specials"));
    }
    controls.replaceChildren(...parts);
  }

  function draw() {
    const settled = settle();
    drawControls(settled);
    ready = show(settled, ++turn);
  }

  /** Fetches what is shown and nothing else; until it is here, the picture before it stays. */
  async function show({ layers, heads, one }, mine) {
    stage.setAttribute("aria-busy", "true");
    const apart = state.view === "grid" || (state.view === "lines" && state.head === "mean" && one && heads > 1);
    const next = element("div");
    try {
      const wanted = ["overlay"].includes(state.view) ? { ...state, words: false, specials: true } : { ...state };
      const number = state.view === "training" ? page.records.length + state.step : 0;
      const [table, more] = await Promise.all([
        state.view === "grid" ? null : tables.table(number, state.view === "beams" ? state.hypothesis : 0, wanted),
        state.view === "grid" ? tables.maps(state.kind)
          : state.view === "lines" && apart ? tables.heads(0, wanted)
            : state.view === "compare" && has(against, state) ? tables.table(1, 0, wanted) : null,
      ]);
      if (mine !== turn) return;
      shown = table && { ...table, one: one && !["mean", "max"].includes(state.head) || heads * layers.length === 1 };
      // The new picture takes the place of the old one before it is drawn: it has to know how wide it may be.
      picture.replaceWith(next);
      picture = next;
      const told = table?.card ?? page.cards?.[keyOf({ ...state, layer: "all", head: "mean" })] ?? null;
      const method = page.methods[record.method];
      const subject = apart ? `Attention ${page.kinds[state.kind]}, each head by itself` : told?.title ?? "";
      const silent = record.without?.length ? ` Without ${record.without.join(", ")}.` : "";
      const given = record.forced ? ` ${page.given}` : "";
      caption.textContent = `${subject}. Method: ${record.method}${method ? `, ${method}` : ""}.${silent}${given}`;
      stage.classList.toggle("wide", state.view === "compare");
      card.replaceChildren();
      card.hidden = !told;
      const asks = tables.evidence && table?.card && state.kind === "cross" && !(state.view === "beams" && state.hypothesis);
      if (told) drawCard(card, told, asks ? () => tables.evidence(number, wanted) : null);
      view(table, more, told?.title ?? "", apart);
    } catch (error) {
      if (mine !== turn) return;
      picture.replaceWith(next);
      picture = next;
      next.append(element("p", { className: "wrong", role: "alert", textContent: error.message }));
    }
    stage.setAttribute("aria-busy", "false");
  }

  function view(table, more, label, apart) {
    const { log } = state;
    if (state.view === "grid") {
      drawGrid(picture, more, log, (layer, head) => change({ view: "matrix", layer: String(layer), head: String(head) }));
      return;
    }
    if (state.view === "compare") return compare(table, more);
    if (state.view === "lines") drawLines(picture, apart ? more : [table], apart ? more.map((_, head) => `head ${head}`) : [label], log);
    else if (state.view === "text") drawText(picture, table, log);
    else if (state.view === "overlay") drawOverlay(picture, table, ...axesOf(state.kind), log);
    else {
      if (state.view === "beams") drawTree(picture, page.tree, page.scores, state.hypothesis, (number) => change({ hypothesis: number }));
      const curves = state.view === "training" ? training() : [];
      drawMatrix(picture, table, { log, label });
      picture.append(scaleBar(topWeight(table.values, table.columns.length)), ...curves);
    }
    picture.append(numbersTable(table));
  }

  function training() {
    const figures = history.map((one) => Object.fromEntries((one.cards[keyOf(state)]?.figures ?? []).map((figure) => [figure.name, figure.value])));
    return drawTraining(picture, history.map((one) => one.step), figures, state.step, (step) => {
      change({ step });
      ready.then(() => picture.querySelector("[name=step]")?.focus());
    });
  }

  function compare(table, other) {
    if (!other || other.values.length !== table.values.length) {
      picture.append(element("p", { textContent: "The second record has no table like this one: choose another layer or head." }));
      return;
    }
    const apart = { ...table, values: table.values.map((value, i) => value - other.values[i]) };
    const top = topWeight([largest(table.values), largest(other.values)], table.columns.length);
    const trio = element("div", { className: "trio" });
    picture.append(trio);
    const name = (one, rank) => `${one.model || rank} (${one.method}${one.without?.length ? `, without ${one.without.join(", ")}` : ""})`;
    const panels = [
      [name(record, "first"), table, { log: state.log, top }],
      [name(against, "second"), other, { log: state.log, top }],
      ["first minus second", apart, { signed: true }],
    ];
    const figures = panels.map(([text]) => element("figure", {}, element("figcaption", { textContent: text })));
    trio.append(...figures); // all of them, before any is drawn: they share the room
    panels.forEach(([text, one, how], number) => drawMatrix(figures[number], one, { ...how, label: text }));
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
    turn = -1; // nothing that is still on its way is drawn
    cancelAnimationFrame(waiting);
    scheme.removeEventListener("change", draw);
    sizes.disconnect();
    noWeights();
    root.replaceChildren();
  };
  return { change, close, state, get ready() { return ready; } };
}
