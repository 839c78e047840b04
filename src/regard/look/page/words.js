// Words are the interface: what was read and what was written, as two rows of chips. Pointing at one lights up what it
// looks at, or what looks at it, here and in every view; a click keeps it.
import { strength, topWeight } from "./data.js";
import { css, element, inkOn, ramp } from "./paint.js";

const MOST_CHIPS = 1200; // of a row: of longer texts the beginning

/**
 * `sides`: {columns, rows}, each {label, places}: the tokens that are words. `steps`: what is known of each row, or []; `marked`: rows
 * that another model did not write. Gives back {reveal(row)}: rows after it are hidden, null shows all.
 */
export function drawWords(place, table, sides, { steps, log = false, marked = new Set() }, focus) {
  const k = table.columns.length;
  const colors = ramp().map((color) => [css(color), inkOn(color)]);
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
    button.classList.toggle("special", token.special);
    button.classList.toggle("unknown", Boolean(token.unknown));
    button.classList.toggle("other", side === "rows" && marked.has(at));
    const step = side === "rows" ? steps[at] : null;
    if (step) {
      const share = Math.exp(step.score);
      const small = element("small", { textContent: percent(share) });
      small.setAttribute("aria-hidden", "true");
      button.append(small);
      button.title = `probability ${share.toFixed(3)}`;
    }
    return button;
  }

  const plain = (button) => {
    if (button.style.background) button.style.background = button.style.color = "";
  };
  const paint = (buttons, weight) => buttons?.forEach((button) => {
    const level = Math.round(255 * strength(weight(Number(button.dataset.at)), top, log));
    [button.style.background, button.style.color] = colors[level];
  });
  focus.listen(({ row, column, pinned }) => {
    for (const [side, at] of [["rows", row], ["columns", column]]) {
      made[side]?.forEach((button) => {
        const on = Number(button.dataset.at) === at;
        if (on !== button.classList.contains("on")) button.classList.toggle("on", on);
        const pressed = String(on && pinned);
        if (button.getAttribute("aria-pressed") !== pressed) button.setAttribute("aria-pressed", pressed);
      });
    }
    if (row !== null && row < table.rows.length) paint(made.columns, (j) => table.values[row * k + j]);
    else made.columns?.forEach(plain);
    if (column !== null && row === null) paint(made.rows, (i) => table.values[i * k + column]);
    else made.rows?.forEach(plain);
  });
  return {
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
  return element("p", { className: "warning", role: "note" }, `Not in its vocabulary, so the model reads <unk> in ${names.length === 1 ? "its" : "their"} place: `, element("bdi", { textContent: shown }));
}
