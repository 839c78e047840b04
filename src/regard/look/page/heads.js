// Every layer and head as a labeled map, sorted as one likes; all of them show what is pointed at. A head can be taken out.
import { drawMatrix } from "./matrix.js";
import { drawHeat } from "./overlay.js";
import { element } from "./paint.js";

const WIDEST_MAP = 560; // pixels, of the only one
const SORTS = { layer: "layer", entropy: "entropy", alignment_error: "alignment error", role: "role" };
const ROLE = "The share of a head's weight that falls on the columns of its role, on this input, minus the share by chance. Roles: previous, next or same token, the token that followed it before (induction), the first or the last token, the same position or word in the source; for a picture and a text, the regions or the words.";

/**
 * `layers`: [{layer, heads: [{values, q, k, line, entropy, role, above_chance}]}]; `table`: tokens of rows and columns; `axis`: of the columns,
 * over whose picture a map is laid, if there is one. `acts`: {pick(layer, head), sorted(by),
 * mute(name) or null}; `silent`: names of heads that are out already.
 */
export function drawHeads(place, layers, { rows, columns }, { kind, log, sort, silent, axis }, focus, acts) {
  const all = layers.flatMap(({ layer, heads }) => heads.map((one, head) => ({ ...one, layer, head })));
  const known = Object.keys(SORTS).filter((key) => all.every((one) => one[key] !== undefined));
  const select = element("select", { name: "sort" }, ...known.map((key) => new Option(SORTS[key], key)));
  select.value = known.includes(sort) ? sort : "layer";
  select.addEventListener("change", () => acts.sorted(select.value));
  if (all.length > 1) place.append(element("label", { className: "sort" }, "sorted by ", select));
  const grid = element("div", { className: all.length > 1 ? "heads" : "heads only" });
  if (select.value === "role") place.append(element("p", { className: "caption", textContent: ROLE }));
  place.append(grid);
  if (select.value === "role") all.sort(byRole);
  else if (select.value !== "layer") all.sort((a, b) => a[select.value] - b[select.value]);
  let room = 0; // of a map, as wide as the tiles are: all alike, so that one is asked
  for (const one of all) {
    const name = `${kind}.${one.layer}.${one.head}`;
    const out = silent.includes(name);
    const open = element("button", { type: "button", className: "open", textContent: `layer ${one.layer} · head ${one.head}`, title: "enlarge" });
    open.addEventListener("click", () => acts.pick(one.layer, one.head));
    const title = element("div", { className: "title" }, open);
    if (acts.mute) {
      const mute = element("button", { type: "button", className: "mute", textContent: out ? "↺" : "✕", ariaLabel: out ? `Unmask ${name}` : `Mask ${name}`, title: out ? "unmask" : "mask this head and decode again" });
      mute.addEventListener("click", () => acts.mute(name));
      title.append(mute);
    }
    const tile = element("div", { className: out ? "tile out" : "tile" }, title, element("p", { className: "line", textContent: one.line }));
    grid.append(tile);
    room ||= Math.min(WIDEST_MAP, Math.floor(tile.clientWidth - 2 * parseFloat(getComputedStyle(tile).paddingInlineStart)));
    const whole = one.q === rows.length && one.k === columns.length; // and no map of blocks
    const table = { values: one.values, rows: whole ? rows : blank(one.q), columns: whole ? columns : blank(one.k) };
    if (whole && axis.grid) drawHeat(tile, table, axis, log, focus, Math.min(room, all.length > 1 ? 300 : 380));
    else drawMatrix(tile, table, { log, small: room, label: name }, focus, { shift: whole ? null : [rows.length / one.q, columns.length / one.k] });
  }
}

function blank(count) {
  return Array.from({ length: count }, () => ({ text: "" }));
}

/** Heads of one role together, the clearest first; those without any at the end. */
function byRole(a, b) {
  return !a.role - !b.role || a.role.localeCompare(b.role) || b.above_chance - a.above_chance;
}
