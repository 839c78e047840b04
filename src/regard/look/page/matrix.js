// The labeled matrix: cells on a canvas of one pixel each, scaled up, so that a thousand by thousand stays fluent.
// A second canvas above it carries the crosshair; moving the pointer never paints the cells again.
import { largest, strength, topWeight } from "./data.js";
import { css, element, ramp, short } from "./paint.js";

const FONT = '13px system-ui, "Noto Sans", sans-serif';

/** `signed` tables (differences) have a color for each sign; `top` is painted strongest. */
export function drawMatrix(place, table, { log = false, signed = false, top, label = "attention" } = {}) {
  const [q, k] = [table.rows.length, table.columns.length];
  const strongest = top ?? (signed ? largest(table.values) : topWeight(table.values, k));
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = FONT;
  const widest = (tokens) => Math.min(150, Math.max(...tokens.map((token) => pen.measureText(short(token.text)).width)));
  const left = Math.ceil(widest(table.rows)) + 14;
  const head = Math.ceil(widest(table.columns) * 0.77) + 20;
  const room = Math.max(240, place.clientWidth - left - head * 0.7 - 8);
  const cell = Math.max(1, Math.min(34, Math.floor(room / k)));
  const tall = q <= 60 ? Math.max(cell, 15) : cell; // few rows over many columns keep their labels
  const width = left + cell * k + Math.ceil(head * 0.75);
  const height = head + tall * q + 4;

  const readout = element("output", { className: "readout" });
  const base = canvas(width, height);
  const over = canvas(width, height);
  over.className = "over";
  over.tabIndex = 0;
  over.setAttribute("role", "img");
  over.setAttribute("aria-label", `${label}: ${q} rows, ${k} columns. Arrow keys read the cells.`);
  const sheet = element("div", { className: "sheet" }, base, over);
  const scroll = element("div", { className: "scroll" }, sheet);
  place.append(readout, scroll);

  paint();
  let at = null;
  show(null);

  function canvas(w, h) {
    const scale = window.devicePixelRatio || 1;
    const made = element("canvas", { width: Math.round(w * scale), height: Math.round(h * scale) });
    made.style.width = `${w}px`;
    made.style.height = `${h}px`;
    made.getContext("2d").scale(scale, scale);
    return made;
  }

  function paint() {
    const cells = painted(table.values, q, k, strongest, log, signed);
    const pen = base.getContext("2d");
    pen.imageSmoothingEnabled = false;
    pen.drawImage(cells, left, head, cell * k, tall * q);
    const style = getComputedStyle(place);
    if (cell >= 8) {
      pen.strokeStyle = style.getPropertyValue("--paper") || "#ffffff";
      pen.lineWidth = 1;
      pen.beginPath();
      for (let j = 0; j <= k; j++) { pen.moveTo(left + j * cell, head); pen.lineTo(left + j * cell, head + q * tall); }
      for (let i = 0; i <= q; i++) { pen.moveTo(left, head + i * tall); pen.lineTo(left + k * cell, head + i * tall); }
      pen.stroke();
    }
    pen.font = FONT;
    pen.fillStyle = style.color;
    pen.textBaseline = "middle";
    const [every, second] = [Math.ceil(14 / cell), Math.ceil(14 / tall)];
    pen.textAlign = "right";
    table.rows.forEach((token, i) => {
      if (i % second === 0) pen.fillText(short(token.text), left - 7, head + (i + 0.5) * tall, left - 8);
    });
    pen.textAlign = "left";
    table.columns.forEach((token, j) => {
      if (j % every) return;
      pen.save();
      pen.translate(left + (j + 0.5) * cell, head - 8);
      pen.rotate(-Math.PI / 3.6);
      pen.fillText(short(token.text), 0, 0, 150);
      pen.restore();
    });
  }

  function show(next) {
    at = next;
    const pen = over.getContext("2d");
    pen.clearRect(0, 0, width, height);
    if (!at) {
      readout.replaceChildren("Point at a cell, or use the arrow keys, to read its value.");
      return;
    }
    const [i, j] = at;
    const value = table.values[i * k + j];
    readout.replaceChildren(
      element("bdi", { textContent: table.rows[i].text }), " ← ", element("bdi", { textContent: table.columns[j].text }),
      ": ", element("b", { textContent: (signed && value > 0 ? "+" : "") + value.toFixed(4) }),
    );
    const accent = getComputedStyle(place).getPropertyValue("--accent") || "#3b53cf";
    pen.strokeStyle = accent;
    pen.globalAlpha = 0.55;
    pen.strokeRect(left, head + i * tall, k * cell, tall);
    pen.strokeRect(left + j * cell, head, cell, q * tall);
    pen.globalAlpha = 1;
    pen.lineWidth = 2;
    pen.strokeRect(left + j * cell, head + i * tall, cell, tall);
    pen.lineWidth = 1;
  }

  /** Whoever listens tells how the weight came about. A difference of two is none. */
  function ask(cell) {
    if (cell && !signed) over.dispatchEvent(new CustomEvent("weight", { bubbles: true, detail: { row: cell[0], column: cell[1] } }));
  }

  function cellAt(event) {
    const box = over.getBoundingClientRect();
    const j = Math.floor((event.clientX - box.left - left) / cell);
    const i = Math.floor((event.clientY - box.top - head) / tall);
    return i >= 0 && i < q && j >= 0 && j < k ? [i, j] : null;
  }

  over.addEventListener("pointermove", (event) => show(cellAt(event)));
  over.addEventListener("pointerleave", () => show(null));
  over.addEventListener("focus", () => at || show([0, 0]));
  over.addEventListener("blur", () => show(null));
  over.addEventListener("click", (event) => ask(cellAt(event)));
  over.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const [i, j] = at ?? [0, 0];
    const ends = { Home: [i, 0], End: [i, k - 1] };
    const move = moves[event.key];
    const next = ends[event.key] ?? (move && [i + move[0], j + move[1]]);
    if (!next && event.key !== "Enter") return;
    event.preventDefault();
    if (!next) return ask(at);
    show([Math.min(q - 1, Math.max(0, next[0])), Math.min(k - 1, Math.max(0, next[1]))]);
  });
}

/** One pixel a cell. Colors are written as whole numbers: a million cells take some ten milliseconds. */
function painted(values, q, k, top, log, signed = false) {
  const colors = Uint32Array.from(ramp(signed), ([red, green, blue]) => (255 << 24) | (blue << 16) | (green << 8) | red);
  const image = new ImageData(k, q);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) {
    const share = strength(values[i], top, log);
    pixels[i] = colors[Math.round(signed ? 127.5 + 127.5 * Math.sign(values[i]) * share : 255 * share)];
  }
  const cells = element("canvas", { width: k, height: q });
  cells.getContext("2d").putImageData(image, 0, 0);
  return cells;
}

/** A small map without labels, for the grid of heads. */
export function smallMap(values, q, k, log, size = 112) {
  const cells = painted(values, q, k, topWeight(values, k), log);
  const scale = size / Math.max(q, k);
  const made = element("canvas", { width: Math.max(8, Math.round(k * scale)), height: Math.max(8, Math.round(q * scale)) });
  const pen = made.getContext("2d");
  pen.imageSmoothingEnabled = scale < 1;
  pen.drawImage(cells, 0, 0, made.width, made.height);
  return made;
}

/** The colors from least to most, with the value at either end. */
export function scaleBar(top, signed = false) {
  const colors = ramp(signed);
  const stops = [0, 64, 128, 192, 255].map((i) => css(colors[i])).join(", ");
  const bar = element("span");
  bar.style.cssText = `display:inline-block;width:8em;height:.6em;border-radius:3px;background:linear-gradient(to right, ${stops})`;
  return element("p", { className: "caption" }, signed ? `−${top.toFixed(2)} ` : "0 ", bar, ` ${top.toFixed(2)}`);
}
