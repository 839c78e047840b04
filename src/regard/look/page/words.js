// Words are the interface: what was read and what was written, as two rows of chips. Pointing at one lights up what it
// looks at, or what looks at it, here and in every view; a click keeps it.
import { strength, topWeight } from "./data.js";
import { element, painter } from "./paint.js";

const MOST_CHIPS = 1200; // of a row: of longer texts the beginning

/**
 * `sides`: {columns, rows}, each {label, places, notes}: the tokens that are words, and what stands beneath them. `steps`: what is known of each row, or []; `marked`: rows
 * that another model did not write. Gives back {reveal(row)}: rows after it are hidden, null shows all; and {write(text)}: the next token of
 * another output, which takes the place of this one as it is written.
 */
export function drawWords(place, table, sides, { steps, log = false, marked = new Set() }, focus) {
  const k = table.columns.length;
  const top = topWeight(table.values, k);
  const made = {};
  for (const [side, { label, places }] of Object.entries(sides)) if (places.length) made[side] = chipRow(place, side, label, places);

  function chipRow(parent, side, label, places) {
    const key = side === "rows" ? "row" : "column";
    const chips = places.slice(0, MOST_CHIPS).map((i) => chip(table[side][i], i, side));
    const line = element("div", { className: "chips", role: "group", ariaLabel: label }, ...chips.flatMap((one) => [one, " "]));
    const at = (event) => {
      const button = event.target.closest("button");
      return button ? Number(button.dataset.at) : null;
    };
    line.addEventListener("pointerover", (event) => at(event) !== null && focus.hover({ [key]: at(event) }));
    line.addEventListener("pointerleave", () => focus.hover(null));
    line.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && focus.hover({ [key]: at(event) }));
    line.addEventListener("focusout", () => focus.hover(null));
    line.addEventListener("click", (event) => at(event) !== null && focus.pin({ [key]: at(event) }));
    parent.append(element("div", { className: `side ${side}` }, element("h2", { textContent: label }), line));
    return chips;
  }

  function chip(token, at, side) {
    const button = element("button", { type: "button", className: "chip", textContent: token.text || "·", dir: "auto" });
    button.dataset.at = at;
    button.setAttribute("aria-pressed", "false");
    if (token.special) button.classList.add("special");
    if (token.unknown) button.classList.add("unknown");
    if (side === "rows" && marked.has(at)) button.classList.add("other");
    const step = side === "rows" ? steps[at] : null;
    if (step) {
      const share = Math.exp(step.score);
      const small = element("small", { textContent: percent(share) });
      small.setAttribute("aria-hidden", "true");
      button.append(small);
      button.title = `probability ${share.toFixed(3)}`;
    }
    const note = sides[side].notes?.[at];
    if (note) button.append(element("small", { textContent: note }));
    return button;
  }

  const share = (value) => strength(value, top, log);
  const painters = Object.fromEntries(Object.entries(made).map(([side, chips]) => [side, painter(chips)]));
  const lit = {}; // the chip of each side that is pointed at
  const light = (side, at, pinned) => {
    const now = made[side]?.find((button) => Number(button.dataset.at) === at);
    for (const button of new Set([lit[side], now])) {
      button?.classList.toggle("on", button === now);
      button?.setAttribute("aria-pressed", String(button === now && pinned));
    }
    lit[side] = now;
  };
  focus.listen(({ row, column, pinned }) => {
    light("rows", row, pinned);
    light("columns", column, pinned);
    painters.columns?.(row !== null && row < table.rows.length ? (j) => share(table.values[row * k + sides.columns.places[j]]) : null);
    painters.rows?.(column !== null && row === null ? (i) => share(table.values[sides.rows.places[i] * k + column]) : null);
  });
  const line = made.rows?.[0].parentElement;
  let writing = false;
  return {
    write(text) {
      if (!line) return;
      if (!writing) line.replaceChildren();
      writing = true;
      line.append(element("span", { className: "chip coming", textContent: text, dir: "auto" }), " ");
      line.scrollTop = line.scrollHeight;
    },
    reveal(row) {
      made.rows?.forEach((button) => button.classList.toggle("ahead", row !== null && Number(button.dataset.at) > row));
    },
  };
}

export function percent(share) {
  return share >= 0.995 ? "100%" : share >= 0.1 ? `${Math.round(100 * share)}%` : `${(100 * share).toFixed(1)}%`;
}

/** A sentence on words that a model reads as <unk>; nothing, if it knows all. */
export function unknownWords(tokens) {
  const names = [...new Set(tokens.filter(({ unknown }) => unknown).map(({ text }) => text))];
  if (!names.length) return null;
  const shown = names.slice(0, 8).join(", ") + (names.length > 8 ? ", …" : "");
  return element("p", { className: "warning", role: "note" }, `Not in the vocabulary, read as <unk>: `, element("bdi", { textContent: shown }));
}
