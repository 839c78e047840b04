// The page of a record: words, film, answer, controls, picture and card. `mount` serves an HTML file, a notebook and a served page
// alike.
import { drawCard } from "./card.js";
import { differing, drawComparison } from "./compare.js";
import { drawControls, viewsOf } from "./controls.js";
import { has, headsOf, keyOf, kindsOf, largest, layersOf, localSource, momentOf, openRecord, stepsOf, topWeight, writtenFrom } from "./data.js";
import { drawDecoding, drawTree } from "./decoding.js";
import { drawDrawing, drawFilm } from "./film.js";
import { makeFocus } from "./focus.js";
import { drawHeads } from "./heads.js";
import { drawLines } from "./lines.js";
import { drawMatrix } from "./matrix.js";
import { drawOverlay, upon } from "./overlay.js";
import { element, isDark, scaleBar, short } from "./paint.js";
import { drawSaid } from "./said.js";
import { drawSignal } from "./signal.js";
import { drawTraining } from "./training.js";
import { drawText, numbersTable } from "./views.js";
import { explainWeights } from "./weight.js";
import { drawWhy } from "./why.js";
import { drawWords, unknownWords } from "./words.js";

const AXES = { source: "Input", target: "Output", read: "Input so far", question: "Question", document: "Document" };
const LONG_OUTPUT = 48; // characters that are not written as large as others
const IN_URL = ["view", "kind", "layer", "head", "log", "words", "specials", "sort", "opacity", "hypothesis", "step", "why", "at", "instead", "other", "whose", "which"];

/**
 * `page`: {open, records: [record, against?], cards, methods, kinds, tree, scores, history?}. `history` has {step, record,
 * cards, figures} for each validation. `source` brings the tables, if the records are here without them; `keep` keeps
 * the state in the URL; `changed` is told of every change. `acts`: what can be asked of a model behind the page, all of it
 * optional: goOn({prefix} or {output}), mute(name of a head), sound() → a promise of an address, weight(cell) → a promise
 * of how it came about; `decoding`: how the output is written, as `drawDecoding` takes it; `why`, `contrasts` and `other`:
 * the ways in which `source.explain` can be asked, as `drawWhy` takes them.
 * A cell that is clicked is told by the event "weight" on `root`: {kind, layer, head, row, column}.
 * Returns {change, close, play, write, state, focus, asked, ready}: `change({view: "grid"})` does what the controls do, `close` lets go of the page,
 * `play(beginning)` runs the film from there on, `write(text)` shows the next token of an output that is written anew.
 */
export function mount(root, page, { keep = false, source = null, changed = () => {}, acts = {}, level = "h1" } = {}) {
  const history = page.history ?? [];
  const records = [...page.records, ...history.map((one) => one.record)].map(openRecord);
  const [record, against] = [records[0], page.records.length > 1 ? records[1] : null];
  const tables = source ?? localSource(records, [page.cards, ...Array(page.records.length - 1), ...history.map((one) => one.cards)], page.beam_cards);
  const state = { ...page.open, words: false, specials: true, hypothesis: 0, step: Math.max(0, history.length - 1), opacity: 0.6, sort: "layer", why: "", at: "all", instead: "", other: "", whose: "", which: "" };
  if (keep) for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
    if (key in state) state[key] = typeof state[key] === "boolean" ? value === "true" : typeof state[key] === "number" ? Number(value) : value;
  }
  const focus = makeFocus();
  const [aboveFocus, pictureFocus] = [focus.part(), focus.part()];
  root.classList.add("regard");
  const wrote = element("bdi", { className: "wrote-this" });
  const title = element(level, { className: "headline" }, record.model ? element("span", { className: "model", textContent: record.model }) : "", element("bdi", { textContent: short(record.input || "attention", 90) }));
  if (record.output) title.append(element("span", { className: "arrow", textContent: history.length && record.said?.kind !== "values" ? " · forced output: " : " → " }), wrote);
  const [words, film, said] = ["words", "film", "said"].map((className) => element("div", { className }));
  const controls = element("div", { className: "controls", role: "group", ariaLabel: "view settings" });
  const caption = element("p", { className: "caption" });
  const card = element("aside", { className: "card", ariaLabel: "reliability" });
  let picture = element("div");
  const stage = element("div", { className: "stage" }, picture, card);
  root.append(title, element("div", { className: "above" }, words, film, said), controls, caption, stage);
  let current = null; // the table of the picture, and the choice that it was asked for with
  const noWeights = explainWeights(root, () => current?.choice, tables.weight ?? acts.weight ?? null, () => current);
  const kinds = kindsOf(record);
  let turn = 0; // of drawing: what comes too late is not shown
  let ready = Promise.resolve();
  let reel = null; // of the film
  let steps = []; // of what was written, as far as they are known
  let asked = null; // by `why`: what is shown there
  const explained = new Map(); // what was asked by `why`, and its answers
  let write = () => {}; // the next token of an output that is written anew
  let drawn = ""; // what the words, the film and what was said are drawn of: they stay when the view changes

  /** The hypothesis that is shown; of the training, there is one only. */
  const hypothesisNow = () => (state.view === "training" ? 0 : state.hypothesis);
  const recordNow = () => [record, ...record.beams][hypothesisNow()];

  function axesOf(kind) {
    const [one] = layersOf(record, kind);
    return [recordNow().axes[one.rows], recordNow().axes[one.columns]];
  }

  /** As it trained, attention lies over the picture, the sound or the series that was looked at, too. */
  function drawnAs(columns) {
    return state.view !== "training" ? state.view : columns.grid || columns.times ? "overlay" : "matrix";
  }

  function settle() {
    if (!(state.hypothesis >= 0 && state.hypothesis <= record.beams.length)) state.hypothesis = 0;
    if (!kinds.includes(state.kind)) state.kind = kinds[0];
    const views = viewsOf(record, axesOf(state.kind)[1], { against, history, why: acts.why?.length && tables.explain });
    if (!views.includes(state.view)) state.view = views[0];
    if (!(state.step >= 0 && state.step < history.length)) state.step = Math.max(0, history.length - 1);
    const layers = layersOf(record, state.kind);
    if (state.layer !== "all" && !layers.some((one) => one.layer === Number(state.layer))) state.layer = "all";
    const heads = layers[0].shape[0];
    const one = layers.length === 1 || state.layer !== "all"; // layer, so that heads have numbers
    if (layers.length === 1) state.layer = "all";
    if (!["mean", "max"].includes(state.head) && !(one && Number(state.head) < heads)) state.head = "mean";
    return { kinds, layers, heads, one, views };
  }

  function change(changes) {
    Object.assign(state, changes);
    draw();
    remember();
  }

  function remember() {
    if (keep) window.history.replaceState(window.history.state, "", `#${new URLSearchParams(IN_URL.map((key) => [key, state[key]]))}`);
    changed(state);
  }

  function draw() {
    const settled = settle();
    drawControls(controls, record, state, settled, change);
    ready = show(settled, ++turn);
  }

  /** Fetches what is shown and nothing else; until it is here, the picture before it stays. */
  async function show({ layers, heads, one }, mine) {
    stage.setAttribute("aria-busy", "true");
    const apart = state.view === "lines" && state.head === "mean" && one && heads > 1;
    const next = element("div");
    try {
      const whole = ["overlay", "grid"].includes(drawnAs(axesOf(state.kind)[1]));
      const choice = { ...state, ...(whole ? { words: false, specials: true } : {}), ...(state.view === "grid" ? { layer: "all", head: "mean" } : {}) };
      const number = state.view === "training" ? page.records.length + state.step : 0;
      const hypothesis = hypothesisNow();
      const [table, more] = await Promise.all([
        tables.table(number, hypothesis, choice),
        state.view === "grid" ? tables.maps(hypothesis, state.kind)
          : apart ? tables.heads(hypothesis, choice)
            : state.view === "compare" && has(against, state) ? tables.table(1, 0, choice) : null,
      ]);
      if (mine !== turn) return;
      const [ofRows, ofColumns] = axesOf(state.kind);
      for (const one of [table].concat(more ?? [])) if (one.columns) Object.assign(one, { rows: withUnit(one.rows, ofRows), columns: withUnit(one.columns, ofColumns) });
      current = { ...table, choice, one: (one && !["mean", "max"].includes(state.head)) || heads * layers.length === 1 };
      // The new picture takes the place of the old one before it is drawn: it has to know how wide it may be.
      picture.replaceWith(next);
      picture = next;
      pictureFocus.forget();
      const told = table.card ?? page.cards?.[keyOf({ ...state, layer: "all", head: "mean" })] ?? null;
      const method = page.methods[record.method];
      const subject = apart ? `Attention ${page.kinds[state.kind]}, one picture for each head` : told?.title ?? "";
      const silent = record.without?.length ? ` Masked: ${record.without.join(", ")}.` : "";
      const given = record.forced ? ` ${page.given}` : "";
      caption.hidden = state.view === "why";
      caption.textContent = `${subject}. Method: ${record.method}${method ? `, ${method}` : ""}.${silent}${given}`;
      stage.classList.toggle("wide", ["compare", "why"].includes(state.view) || (state.view === "grid" && heads * layers.length > 2));
      card.replaceChildren();
      card.hidden = !told?.figures.length || state.view === "why";
      const asks = tables.evidence && table.card && state.kind === "cross" && !hypothesis && state.view !== "grid";
      if (told) drawCard(card, told, asks ? () => tables.evidence(number, choice) : null);
      const key = [number, hypothesis, ...["kind", "layer", "head", "words", "specials", "log"].map((name) => choice[name]), state.view === "compare", isDark()].join();
      if (key !== drawn) above(recordNow(), table, choice, state.view === "compare" ? more : null);
      drawn = key;
      if (table.rows.length === 1) focus.pin({ row: 0 }, false);
      view(table, more, told?.title ?? "", apart);
    } catch (error) {
      if (mine !== turn) return;
      picture.replaceWith(next);
      picture = next;
      next.append(element("p", { className: "wrong", role: "alert", textContent: error.message }));
    }
    stage.setAttribute("aria-busy", "false");
  }

  /** What was read and written, how it was written, and what else was said. */
  function above(shown, table, choice, other) {
    const [one] = layersOf(shown, state.kind);
    const [rows, columns] = [shown.axes[one.rows], shown.axes[one.columns]];
    steps = history.length ? [] : stepsOf(shown, state.kind, choice);
    const from = steps.length && shown.next_tokens.length ? Math.max(0, steps.findLastIndex(({ first }) => first <= writtenFrom(shown).first)) : 0;
    const places = (axis, count) => {
      const covered = axis.grid || axis.times ? new Set(upon(axis)) : null;
      return Array.from({ length: count }, (_, i) => i).filter((i) => !covered || (!covered.has(i) && !axis.tokens[i].special));
    };
    const name = (axis) => (history.length && axis === "target" ? "Reference" : AXES[axis] ?? axis);
    const self = one.rows === one.columns;
    const sides = {
      columns: { label: self ? `${name(one.columns)}, looked at` : name(one.columns), places: places(columns, table.columns.length) },
      rows: { label: self ? `${name(one.rows)}, looking` : name(one.rows), notes: history.length ? [] : notesOf(shown.said, rows), places: rows.grid ? rows.tokens.flatMap(({ special }, i) => (special ? [i] : [])) : places(rows, table.rows.length).filter((i) => i >= from) },
    };
    aboveFocus.forget();
    words.replaceChildren();
    const warning = unknownWords(columns.tokens.concat(one.rows === "target" ? [] : rows.tokens));
    const revealed = drawWords(words, table, sides, { steps, log: state.log, marked: other ? differing(table.rows, other.rows) : new Set() }, aboveFocus);
    ({ write } = revealed);
    if (warning) words.append(warning);
    reel?.stop();
    reel = null;
    film.replaceChildren();
    if (shown.said?.kind === "drawing") reel = drawDrawing(film, shown.said, aboveFocus);
    else if (steps.length && shown.next_tokens.length) reel = drawFilm(film, shown, steps, from, aboveFocus, revealed.reveal, acts.goOn ?? null);
    if (acts.decoding) drawDecoding(film, acts.decoding);
    if (page.tree.length && !history.length) drawTree(film, page.tree, page.scores, state.hypothesis, pick);
    film.hidden = !film.childElementCount;
    wrote.textContent = short(shown.output, 90);
    wrote.classList.toggle("long", shown.output.length > LONG_OUTPUT);
    said.replaceChildren();
    said.hidden = !["labels", "marks"].includes(shown.said?.kind) || history.length > 0;
    if (!said.hidden) drawSaid(said, shown.said, shown.output, acts.goOn ? (label) => acts.goOn({ output: label }) : null);
  }

  function pick(hypothesis) {
    change({ hypothesis });
    ready.then(() => film.querySelector("[name=hypothesis][aria-pressed=true]")?.focus());
  }

  function view(table, more, label, apart) {
    const { log } = state;
    const [rows, columns] = axesOf(state.kind);
    if (state.view === "grid") {
      drawHeads(picture, more, table, { kind: state.kind, log, sort: state.sort, silent: record.without ?? [], axis: columns }, pictureFocus, {
        pick: (layer, head) => change({ view: "matrix", layer: String(layer), head: String(head) }),
        sorted: (sort) => change({ sort }), mute: acts.mute ?? null,
      });
      return;
    }
    if (state.view === "why") {
      const target = recordNow().axes.target;
      const tokens = target && !target.grid && !target.times ? target.tokens : [];
      asked = drawWhy(picture, { ways: acts.why, tokens, heads: headsOf(recordNow(), "decoder"), kinds, grids: Object.values(recordNow().axes).filter((axis) => axis.grid), state, known: explained, contrasts: acts.contrasts, other: acts.other }, (wish) => tables.explain(state.hypothesis, wish), (changes, name) => {
        change(changes);
        ready.then(() => picture.querySelector(`.asks [name=${name}]`)?.focus());
      });
      return;
    }
    if (state.view === "compare") {
      if (more) return drawComparison(picture, table, more, [record, against].map(nameOf), log, pictureFocus);
      picture.append(element("p", { textContent: "The second record has no matching table. Choose another layer or head." }));
      return;
    }
    const curves = state.view === "training" ? training() : [];
    const drawing = drawnAs(columns);
    if (drawing === "lines") drawLines(picture, apart ? more : [table], apart ? more.map((_, head) => `head ${head}`) : [label], log, pictureFocus);
    else if (drawing === "text") drawText(picture, table, log, pictureFocus);
    else if (drawing === "overlay" && columns.grid) drawOverlay(picture, table, rows, columns, { log, opacity: state.opacity }, pictureFocus, { opacity: (opacity) => { state.opacity = opacity; remember(); } });
    else if (drawing === "overlay") drawSignal(picture, table, columns, { log, said: history.length ? null : record.said, sound: acts.sound ?? null }, pictureFocus, { onCell });
    else {
      const top = topWeight(table.values, table.columns.length);
      drawMatrix(picture, table, { log, label, top }, pictureFocus, { onCell });
      picture.append(scaleBar(top, { more: largest(table.values) > top * 1.0001 }));
    }
    picture.append(...(curves.length ? [element("div", { className: "curves" }, ...curves)] : []), numbersTable(table));
  }

  function onCell(row, column) {
    focus.pin({ row, column }, false);
    const { kind, head } = state;
    const [only, ...others] = layersOf(record, kind);
    const layer = state.layer !== "all" ? Number(state.layer) : others.length ? "all" : only.layer;
    const number = ["mean", "max"].includes(head) ? only.shape[0] === 1 && layer !== "all" ? 0 : head : Number(head);
    root.dispatchEvent(new CustomEvent("weight", { detail: { kind, layer, head: number, row, column }, bubbles: true }));
  }

  function training() {
    const figures = history.map((one) => Object.fromEntries((one.cards[keyOf(state)]?.figures ?? []).map((figure) => [figure.name, figure.value])));
    return drawTraining(picture, history.map((one) => one.step), figures, state.step, (step) => {
      change({ step });
      ready.then(() => picture.querySelector("[name=step]")?.focus());
    });
  }

  /** The film, from the last word of a beginning. */
  function play(beginning) {
    const { tokens } = recordNow().axes.target;
    const end = writtenFrom(recordNow()).begin + [...beginning].length;
    reel?.play(steps.findLastIndex(({ first }) => tokens[first].span?.[0] < end));
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
    reel?.stop();
    cancelAnimationFrame(waiting);
    scheme.removeEventListener("change", draw);
    sizes.disconnect();
    noWeights();
    root.replaceChildren();
  };
  return { change, close, play, write: (text) => write(text), state, focus, get asked() { return asked; }, get ready() { return ready; } };
}

function nameOf(record, number) {
  const silent = record.without?.length ? `, masked: ${record.without.join(", ")}` : "";
  return `${record.model || ["first", "second"][number]} (${record.method}${silent})`;
}

/** Moments that are numbers only have their unit beside them. */
function withUnit(tokens, { times, unit }) {
  return tokens.map((token) => (times && !token.special ? { ...token, text: momentOf(token.text, unit) } : token));
}

/** Beneath each step of a forecast: its number. */
function notesOf(said, { tokens }) {
  return said?.kind === "values" && said.values.length === tokens.length ? said.values.map((value) => String(Number(value.toPrecision(4)))) : [];
}
