// The labeled matrix: cells on a canvas of one pixel each, scaled up, so that a thousand by thousand stays fluent.
// A second canvas above it carries the crosshair; pointing at a cell never paints the cells again.
import { largest, strength, topWeight } from "./data.js";
import { element, enlarged, ramp, short, whenSeen, widthOf } from "./paint.js";

const [WIDEST_CELL, HIGHEST_CELL, SMALL_CELL] = [96, 44, 36]; // a sentence of ten words fills a page; a small map fills its tile
const [HIGHEST, THIN] = [1000, 4]; // pixels of many rows together; of columns that need not be whole ones
const [NARROW, SLANTING] = [480, 12]; // pixels of a page, and columns that have room for slanting names on it
const LONG = 12; // characters: small maps, most of whose columns are longer, have no labels
const FACE = 'system-ui, "Noto Sans", sans-serif';

/**
 * `signed` tables (differences) have a color for each sign; `top` is painted strongest. `small`: one of many, read by its focus: how many pixels it has.
 * `onCell(row, column)` is told of a cell that is clicked, or entered by the keyboard. `shift`: rows and columns that a cell stands for.
 */
export function drawMatrix(place, table, { log = false, signed = false, small = 0, top, label = "attention" } = {}, focus = null, { onCell = null, shift = null } = {}) {
  const [q, k] = [table.rows.length, table.columns.length];
  const strongest = top ?? (signed ? largest(table.values) : topWeight(table.values, k));
  const size = small ? (small > 300 ? 12 : 10) : Math.round(13 * enlarged());
  const font = `${size}px ${FACE}`;
  const longest = small ? 12 : 24;
  const widest = (tokens) => {
    const texts = tokens.map((token) => short(token.text, longest)).sort((a, b) => b.length - a.length);
    return Math.min(150, Math.max(...texts.slice(0, 100).map((text) => widthOf(text, font)))); // of the longest: measuring takes time
  };
  const labeled = !small || (Math.max(q, k) <= 24 && table.columns.filter((token) => token.text.length > LONG).length <= k / 2);
  const left = labeled ? Math.ceil(widest(table.rows)) + (small ? 8 : 14) : 2;
  const wide = labeled ? widest(table.columns) : 0;
  const across = wide <= size + 4; // letters and the like need not slant
  const upright = !across && !small && place.clientWidth < NARROW && k > SLANTING; // on a phone, where slanting names would take the room of their columns
  const head = !labeled ? 2 : across ? size + 10 : Math.ceil(wide * (upright ? 1 : 0.77)) + (small || upright ? 10 : 20);
  const tail = upright || across ? 4 : Math.ceil(head * 0.75);
  const room = (small || Math.max(120 + left + tail, place.clientWidth - 4)) - left - (labeled ? tail : 2);
  const cell = small ? Math.min(SMALL_CELL, room / k) : Math.max(1, room / k < THIN ? room / k : Math.min(WIDEST_CELL, Math.floor(room / k)));
  const tall = small ? Math.max(Math.min(cell, small / q), Math.min(12, small / (2 * q)))
    : q <= 60 || cell > size + 2 ? Math.max(size + 2, Math.min(cell, HIGHEST_CELL, HIGHEST / q)) : cell; // few rows over many columns keep their labels
  const width = Math.ceil(left + cell * k + (labeled ? tail : 2));
  const height = Math.ceil(head + tall * q + 4);
  const base = sheetCanvas(width, height);
  const over = sheetCanvas(width, height);
  over.className = "over";
  const sheet = element("div", { className: "sheet" }, base, over);
  const readout = small ? null : element("output", { className: "readout" });
  if (small) place.append(sheet);
  else place.append(readout, element("div", { className: "scroll" }, sheet));
  if (small) whenSeen(sheet, paint);
  else paint();
  let at = [null, null]; // what the crosshair shows: a row and a column

  function sheetCanvas(w, h) {
    const scale = window.devicePixelRatio || 1;
    const made = element("canvas", { width: Math.round(w * scale), height: Math.round(h * scale) });
    made.style.width = `${w}px`;
    made.style.height = `${h}px`;
    return made;
  }

  /** Asked for when something is drawn, and not before: of 48 maps most stay without a crosshair. */
  function penOf(canvas) {
    const found = canvas.getContext("2d");
    const scale = window.devicePixelRatio || 1;
    found.setTransform(scale, 0, 0, scale, 0, 0);
    return found;
  }

  function paint() {
    const sheetPen = penOf(base);
    sheetPen.imageSmoothingEnabled = cell < 1;
    sheetPen.drawImage(paintedCells(table.values, q, k, strongest, log, signed), left, head, cell * k, tall * q);
    const style = getComputedStyle(place);
    if (cell >= 8 && tall >= 8) {
      sheetPen.strokeStyle = style.getPropertyValue("--paper") || "#ffffff";
      sheetPen.lineWidth = 1;
      sheetPen.beginPath();
      for (let j = 0; j <= k; j++) { sheetPen.moveTo(left + j * cell, head); sheetPen.lineTo(left + j * cell, head + q * tall); }
      for (let i = 0; i <= q; i++) { sheetPen.moveTo(left, head + i * tall); sheetPen.lineTo(left + k * cell, head + i * tall); }
      sheetPen.stroke();
    }
    if (!labeled) return;
    sheetPen.font = font;
    sheetPen.fillStyle = style.color;
    sheetPen.textBaseline = "middle";
    const [every, second] = [Math.ceil((size + 4) / cell), Math.ceil((size + 1) / tall)];
    sheetPen.textAlign = "right";
    table.rows.forEach((token, i) => {
      if (i % second === 0) sheetPen.fillText(short(token.text, longest), left - 6, head + (i + 0.5) * tall, left - 7);
    });
    sheetPen.textAlign = across ? "center" : "left";
    table.columns.forEach((token, j) => {
      if (j % every) return;
      sheetPen.save();
      sheetPen.translate(left + (j + 0.5) * cell, head - size / 2);
      if (!across) sheetPen.rotate(upright ? -Math.PI / 2 : -Math.PI / 3.6);
      sheetPen.fillText(short(token.text, longest), 0, 0, 150);
      sheetPen.restore();
    });
  }

  function show([i, j]) {
    const none = at[0] === null && at[1] === null;
    at = [i, j];
    if (readout) tell(i, j);
    if (none && i === null && j === null) return;
    const overPen = penOf(over);
    overPen.clearRect(0, 0, width, height);
    if (i === null && j === null) return;
    overPen.strokeStyle = getComputedStyle(place).getPropertyValue("--mark") || "#c2410c";
    const [down, beside] = shift ?? [1, 1];
    const [y, x] = [head + Math.floor((i ?? 0) / down) * tall, left + Math.floor((j ?? 0) / beside) * cell];
    overPen.globalAlpha = 0.75;
    overPen.lineWidth = small ? 1.5 : 1;
    if (i !== null) overPen.strokeRect(left, y, k * cell, tall);
    if (j !== null) overPen.strokeRect(x, head, cell, q * tall);
    overPen.globalAlpha = 1;
    overPen.lineWidth = 2;
    if (i !== null && j !== null) overPen.strokeRect(x, y, cell, tall);
  }

  function tell(i, j) {
    if (i === null || j === null) {
      readout.replaceChildren(onCell ? "Point at a cell, or use the arrow keys, to read its value. Click a cell to see its computation." : "Point at a cell, or use the arrow keys, to read its value.");
      return;
    }
    const value = table.values[i * k + j];
    readout.replaceChildren(
      element("bdi", { textContent: table.rows[i].text }), " ← ", element("bdi", { textContent: table.columns[j].text }),
      ": ", element("b", { textContent: (signed && value > 0 ? "+" : "") + value.toFixed(4) }),
    );
  }

  const point = (row, column) => (focus ? focus.hover(row === null ? null : { row, column }) : show([row, column]));
  const within = (now, count) => (now !== null && now < count * (shift ? Infinity : 1) ? now : null);
  if (focus) focus.listen(({ row, column }) => show([within(row, q), within(column, k)]));
  else show([null, null]);
  const [down, beside] = shift ?? [1, 1];

  function cellAt(event) {
    const box = over.getBoundingClientRect();
    const j = Math.floor((event.clientX - box.left - left) / cell);
    const i = Math.floor((event.clientY - box.top - head) / tall);
    const inside = i >= 0 && i < q && j >= 0 && j < k;
    return inside ? [Math.floor(i * down), Math.floor(j * beside)] : [null, null];
  }

  over.addEventListener("pointermove", (event) => point(...cellAt(event)));
  over.addEventListener("pointerleave", () => point(null, null));
  if (small) return;
  over.tabIndex = 0;
  over.setAttribute("role", "img");
  over.setAttribute("aria-label", `${label}: ${q} rows, ${k} columns. Arrow keys read the cells.`);
  over.addEventListener("focus", () => at.includes(null) && over.matches(":focus-visible") && point(at[0] ?? 0, at[1] ?? 0));
  over.addEventListener("blur", () => point(null, null));
  const enter = ([row, column]) => row !== null && column !== null && onCell?.(row, column);
  over.addEventListener("click", (event) => enter(cellAt(event)));
  over.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const [i, j] = [at[0] ?? 0, at[1] ?? 0];
    const ends = { Home: [i, 0], End: [i, k - 1] };
    const move = moves[event.key];
    const next = ends[event.key] ?? (move && [i + move[0], j + move[1]]);
    if (!next && event.key !== "Enter") return;
    event.preventDefault();
    if (!next) return enter([i, j]);
    point(Math.min(q - 1, Math.max(0, next[0])), Math.min(k - 1, Math.max(0, next[1])));
  });
}

/** One pixel a cell. Colors are written as whole numbers: a million cells take some ten milliseconds. */
function paintedCells(values, q, k, top, log, signed = false) {
  const colors = Uint32Array.from(ramp(signed), ([red, green, blue]) => (255 << 24) | (blue << 16) | (green << 8) | red);
  const image = new ImageData(k, q);
  const pixels = new Uint32Array(image.data.buffer);
  if (!log && !signed) {
    const levels = 255 / top;
    for (let i = 0; i < pixels.length; i++) pixels[i] = colors[Math.min(255, (Math.abs(values[i]) * levels + 0.5) | 0)];
  } else for (let i = 0; i < pixels.length; i++) {
    const share = strength(values[i], top, log);
    pixels[i] = colors[Math.round(signed ? 127.5 + 127.5 * Math.sign(values[i]) * share : 255 * share)];
  }
  const cells = element("canvas", { width: k, height: q });
  cells.getContext("2d").putImageData(image, 0, 0);
  return cells;
}
