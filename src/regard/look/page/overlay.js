// Attention upon what was looked at: a veil over an image, thin where the weight is large; light on a sound or series.
import { largest, strength, topWeight } from "./data.js";
import { drawMatrix } from "./matrix.js";
import { element, isDark } from "./paint.js";
import { chips } from "./views.js";

const VEIL = 0.85; // how much is hidden where nobody looked
const WIDEST = 560;
const STRIP = 24; // pictures of the filmstrip, at most

export function drawOverlay(place, table, rows, columns, log) {
  if (columns.grid) drawImage(place, table, rows, columns, log);
  else drawSignal(place, table, columns, log);
}

/** The weights of a row, or the mean of all, on what lies upon it. */
function weightsOf(table, row, real) {
  const k = table.columns.length;
  if (row !== null) return real.map((j) => table.values[row * k + j]);
  return real.map((j) => table.rows.reduce((sum, _, i) => sum + table.values[i * k + j], 0) / table.rows.length);
}

/** The places of what lies upon the image or along the signal: not of special tokens, nor of another input's words. */
function upon({ tokens, after }) {
  return tokens.flatMap((token, place) => (token.special || place >= tokens.length - after ? [] : [place]));
}

function drawImage(place, table, rows, columns, log) {
  const [gridRows, gridColumns] = columns.grid;
  const real = upon(columns);
  const own = rows.grid ? upon(rows) : null; // rows that are regions themselves can be clicked
  const [high, wide] = columns.size ?? [gridRows * 40, gridColumns * 40];
  const width = Math.min(WIDEST, place.clientWidth || WIDEST, Math.max(420, wide));
  const readout = element("output", { className: "readout" });
  const large = framed(columns, width, (width * high) / wide);
  const over = large.querySelector("canvas");
  over.tabIndex = 0;
  over.setAttribute("role", "img");
  let weights = [];
  let row = null;
  let at = null;

  function show(next) {
    row = next;
    weights = weightsOf(table, row, real);
    const name = row === null ? "the mean of all rows" : table.rows[row].text;
    over.setAttribute("aria-label", `where ${name} looks, ${gridRows} by ${gridColumns} regions. Arrow keys read them`
      + (own ? ", Enter lets the region look." : "."));
    paint();
    tell(at);
  }

  function paint() {
    veil(over, weights, columns.grid, log);
    const region = own && row !== null ? own.indexOf(row) : -1;
    if (region >= 0) frame(region, "#ff5a36");
    if (at !== null) frame(at, "#ffffff");
  }

  function frame(region, color) {
    const pen = over.getContext("2d");
    const [w, h] = [over.width / gridColumns, over.height / gridRows];
    pen.strokeStyle = color;
    pen.lineWidth = 3;
    pen.strokeRect((region % gridColumns) * w + 1.5, Math.floor(region / gridColumns) * h + 1.5, w - 3, h - 3);
  }

  function tell(next) {
    at = next;
    paint();
    if (at === null) {
      readout.replaceChildren(own ? "Click a region to see where it looks." : "Point at a region, or use the arrow keys, to read its value.");
      return;
    }
    readout.replaceChildren(element("bdi", { textContent: row === null ? "all rows" : table.rows[row].text }), " ← ",
      columns.tokens[real[at]].text, ": ", element("b", { textContent: weights[at].toFixed(4) }));
  }

  const regionAt = (event) => {
    const box = over.getBoundingClientRect();
    const [i, j] = [Math.floor(((event.clientY - box.top) / box.height) * gridRows), Math.floor(((event.clientX - box.left) / box.width) * gridColumns)];
    return i >= 0 && i < gridRows && j >= 0 && j < gridColumns ? i * gridColumns + j : null;
  };
  over.addEventListener("pointermove", (event) => tell(regionAt(event)));
  over.addEventListener("pointerleave", () => tell(null));
  over.addEventListener("blur", () => tell(null));
  over.addEventListener("focus", () => at ?? tell(0));
  over.addEventListener("click", (event) => own && regionAt(event) !== null && press(1 + own[regionAt(event)]));
  over.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && own && at !== null) return press(1 + own[at]);
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const [i, j] = [Math.floor((at ?? 0) / gridColumns) + move[0], ((at ?? 0) % gridColumns) + move[1]];
    tell(Math.min(gridRows - 1, Math.max(0, i)) * gridColumns + Math.min(gridColumns - 1, Math.max(0, j)));
  });
  let press = (number) => show(number ? number - 1 : null);
  if (own) { // hundreds of regions need no button each: they are clicked where they are
    const named = rows.tokens.flatMap((token, i) => (own.includes(i) ? [] : [[token.text, i]]));
    const only = chips(place, "which row looks", ["all rows", ...named.map(([name]) => name)], 0, (number) => show(number ? named[number - 1][1] : null));
    press = (number) => {
      only(null);
      show(number - 1);
    };
  } else press = chips(place, "which row looks", ["all rows", ...table.rows.map((token) => token.text)], 0, press);
  place.append(readout, large);
  if (!own && table.rows.length > 1) place.append(filmstrip(table, columns, real, log, (number) => press(1 + number)));
}

/** One small picture for each row. */
function filmstrip(table, columns, real, log, pick) {
  const strip = element("div", { className: "grid strip" });
  const [high, wide] = columns.size ?? columns.grid;
  table.rows.slice(0, STRIP).forEach((token, number) => {
    const small = framed(columns, 116, (116 * high) / wide);
    const weights = weightsOf(table, number, real);
    veil(small.querySelector("canvas"), weights, columns.grid, log);
    const button = element("button", { type: "button" }, element("bdi", { textContent: token.text }), `: largest ${largest(weights).toPrecision(2)}, even ${(1 / weights.length).toPrecision(2)}`, small);
    button.addEventListener("click", () => pick(number));
    strip.append(button);
  });
  return strip;
}

/** The image, and a canvas above it. */
function framed(columns, width, height) {
  const canvas = element("canvas", { width: Math.round(width), height: Math.round(height), className: "over" });
  const box = element("span", { className: "framed" });
  if (columns.image) box.append(element("img", { src: `data:image/png;base64,${columns.image}`, alt: "", width: Math.round(width), height: Math.round(height) }));
  box.style.width = `${Math.round(width)}px`;
  box.style.height = `${Math.round(height)}px`;
  box.append(canvas);
  return box;
}

function veil(canvas, weights, [rows, columns], log) {
  const pen = canvas.getContext("2d");
  const top = topWeight(weights, weights.length);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  weights.forEach((value, region) => {
    const [i, j] = [Math.floor(region / columns), region % columns];
    const [x, y] = [Math.round((j * canvas.width) / columns), Math.round((i * canvas.height) / rows)];
    const [right, bottom] = [Math.round(((j + 1) * canvas.width) / columns), Math.round(((i + 1) * canvas.height) / rows)];
    pen.fillStyle = `rgba(0, 0, 0, ${VEIL * (1 - strength(value, top, log))})`;
    pen.fillRect(x, y, right - x, bottom - y);
  });
}

/** The signal with the light of one row upon it, an axis of time, and beneath it all rows as a matrix. */
function drawSignal(place, table, columns, log) {
  const real = upon(columns);
  const { edges, unit } = columns;
  const width = Math.max(280, Math.min(1000, (place.clientWidth || WIDEST) - 8));
  const canvas = element("canvas", { width, height: 170, className: "signal" });
  canvas.setAttribute("role", "img");
  const x = (time) => ((time - edges[0]) / (edges[edges.length - 1] - edges[0] || 1)) * width;
  const show = (number) => {
    const weights = weightsOf(table, number ? number - 1 : null, real);
    const top = topWeight(weights, weights.length);
    const pen = canvas.getContext("2d");
    const style = getComputedStyle(place);
    pen.clearRect(0, 0, width, 170);
    pen.fillStyle = style.getPropertyValue("--accent") || "#3b53cf";
    const light = () => weights.forEach((value, i) => {
      pen.globalAlpha = 0.6 * strength(value, top, log);
      pen.fillRect(x(edges[i]), 0, Math.max(1, x(edges[i + 1]) - x(edges[i])), 146);
    });
    if (columns.signal_shape?.length === 2) paintBands(pen, columns, width);
    light();
    pen.globalAlpha = 1;
    if (columns.signal_shape?.length === 1) paintSeries(pen, columns, width, style.color);
    ticks(pen, style.color);
    const best = weights.indexOf(Math.max(...weights));
    const name = number ? table.rows[number - 1].text : "the mean of all rows";
    canvas.setAttribute("aria-label", `${name} looks most at ${edges[best]} ${unit}, with ${weights[best].toFixed(4)}`);
    readout.replaceChildren(element("bdi", { textContent: name }), " looks most at ", element("b", { textContent: `${Number(edges[best].toPrecision(4))} ${unit}` }), `: ${weights[best].toFixed(4)}`);
  };
  const ticks = (pen, color) => {
    pen.fillStyle = color;
    pen.font = '12px system-ui, "Noto Sans", sans-serif';
    pen.textBaseline = "bottom";
    for (let i = 0; i <= 5; i++) {
      const time = edges[0] + ((edges[edges.length - 1] - edges[0]) * i) / 5;
      pen.textAlign = i === 0 ? "left" : i === 5 ? "right" : "center";
      pen.fillText(`${Number(time.toPrecision(3))} ${unit}`, x(time), 168);
    }
  };
  const readout = element("output", { className: "readout" });
  chips(place, "which row looks", ["all rows", ...table.rows.map((token) => token.text)], 0, show);
  place.append(readout, canvas);
  drawMatrix(place, table, { log, label: "rows over time" });
}

function paintBands(pen, { signal, signal_shape: [bands, steps] }, width) {
  const low = signal.reduce((least, value) => Math.min(least, value), Infinity);
  const range = signal.reduce((most, value) => Math.max(most, value), -Infinity) - low || 1;
  const image = new ImageData(steps, bands);
  const pixels = new Uint32Array(image.data.buffer);
  const dark = isDark();
  for (let i = 0; i < pixels.length; i++) {
    const band = bands - 1 - Math.floor(i / steps); // the lowest at the bottom
    const share = (signal[band * steps + (i % steps)] - low) / range;
    const gray = Math.round(255 * (dark ? share : 1 - share));
    pixels[i] = (255 << 24) | (gray << 16) | (gray << 8) | gray;
  }
  const cells = element("canvas", { width: steps, height: bands });
  cells.getContext("2d").putImageData(image, 0, 0);
  pen.drawImage(cells, 0, 0, width, 146);
}

function paintSeries(pen, { signal }, width, color) {
  const low = signal.reduce((least, value) => Math.min(least, value), Infinity);
  const range = signal.reduce((most, value) => Math.max(most, value), -Infinity) - low || 1;
  pen.strokeStyle = color;
  pen.lineWidth = 1.3;
  pen.beginPath();
  signal.forEach((value, i) => pen.lineTo(((i + 0.5) / signal.length) * width, 140 - (134 * (value - low)) / range));
  pen.stroke();
}
