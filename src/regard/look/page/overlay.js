// Attention over a picture: heat from dark violet to light yellow, seen on light and on dark regions alike.
//     pixel = (1 − o) · image + o · heat(weight),     o the opacity
import { largest, meanRow, strength, topWeight } from "./data.js";
import { css, element, enlarged, heatRamp, scaleBar, signedHeat, signedText } from "./paint.js";

const [WIDEST, BESIDE] = [560, 232]; // of the picture, and of what stands beside it at the least
const STRIP = 24; // pictures of the filmstrip, at most
const [SIDE, ONLY_SIDE, HEAD_SIDE] = [180, 320, 200]; // pixels of one of many pictures with signs, of one of few, and of a head's

/** The weights of a row, or the mean of all, on what lies upon it. */
export function weightsOf(table, row, real) {
  const k = table.columns.length;
  const weights = row === null ? meanRow(table) : table.values.subarray(row * k, (row + 1) * k);
  return real.map((j) => weights[j]);
}

/** The places of what lies upon the image or along the signal: not of special tokens, nor of another input's words. */
export function upon({ tokens, after }) {
  return tokens.flatMap((token, place) => (token.special || place >= tokens.length - after ? [] : [place]));
}

/** `opacity`: at first; `acts.opacity(value)` is told when it is changed. */
export function drawOverlay(place, table, rows, columns, { log, opacity }, focus, acts) {
  const [gridRows, gridColumns] = columns.grid;
  const real = upon(columns);
  const own = rows.grid ? upon(rows) : null; // rows that are regions themselves can be clicked
  const [high, wide] = columns.size ?? [gridRows * 40, gridColumns * 40];
  const strip = !own && table.rows.length > 1;
  const room = place.clientWidth || WIDEST;
  const width = Math.min((strip ? 420 : WIDEST) * enlarged(), room < 2 * BESIDE ? room : room - BESIDE, (620 * wide) / high);
  const readout = element("output", { className: "readout" });
  const large = framed(columns, width, (width * high) / wide);
  const over = large.querySelector("canvas");
  over.tabIndex = 0;
  over.setAttribute("role", "img");
  const scale = element("div");
  const slider = element("input", { type: "range", name: "opacity", min: 0, max: 1, step: 0.05, value: opacity });
  const small = []; // canvases of the filmstrip
  const fade = () => small.forEach((canvas) => { canvas.style.opacity = slider.value; });
  let weights = [];
  let row = null;
  let at = null; // the region that is pointed at
  slider.addEventListener("input", () => {
    fade();
    paint();
    acts.opacity(Number(slider.value));
  });

  function paint() {
    heat(over, weights, columns.grid, log, Number(slider.value));
    const region = own && row !== null ? own.indexOf(row) : -1;
    if (region >= 0) frame(region, "#7cf5ff");
    if (at !== null) frame(at, "#ffffff");
  }

  function frame(region, color) {
    const pen = over.getContext("2d");
    const [w, h] = [over.width / gridColumns, over.height / gridRows];
    pen.globalAlpha = 1;
    for (const [line, ink] of [[5, "#000000"], [2.5, color]]) {
      pen.strokeStyle = ink;
      pen.lineWidth = line;
      pen.strokeRect((region % gridColumns) * w + 2, Math.floor(region / gridColumns) * h + 2, w - 4, h - 4);
    }
  }

  function tell() {
    const name = row === null ? "all rows" : table.rows[row].text;
    if (at === null) readout.replaceChildren(own ? "Click a region to see where it looks." : "Point at a region, or use the arrow keys, to read its value.");
    else readout.replaceChildren(element("bdi", { textContent: name }), " ← ", columns.tokens[real[at]].text, ": ", element("b", { textContent: weights[at].toFixed(4) }));
  }

  function point(region) {
    at = region;
    paint();
    tell();
  }

  focus.listen((now) => {
    row = now.row !== null && now.row < table.rows.length ? now.row : table.rows.length === 1 ? 0 : null;
    weights = weightsOf(table, row, real);
    const column = now.column === null ? -1 : real.indexOf(now.column);
    if (column >= 0) at = column;
    const name = row === null ? "the mean of all rows" : table.rows[row].text;
    over.setAttribute("aria-label", `where ${name} looks, ${gridRows} by ${gridColumns} regions. Arrow keys read them`
      + (own ? ", Enter shows where the region looks." : "."));
    const bar = scaleBar(topWeight(weights, weights.length), { colors: heatRamp(), more: largest(weights) > topWeight(weights, weights.length) });
    bar.append(`; uniform: ${(1 / weights.length).toPrecision(2)}`);
    scale.replaceChildren(bar);
    paint();
    tell();
  });

  const regionAt = (event) => {
    const box = over.getBoundingClientRect();
    const [i, j] = [Math.floor(((event.clientY - box.top) / box.height) * gridRows), Math.floor(((event.clientX - box.left) / box.width) * gridColumns)];
    return i >= 0 && i < gridRows && j >= 0 && j < gridColumns ? i * gridColumns + j : null;
  };
  over.addEventListener("pointermove", (event) => point(regionAt(event)));
  over.addEventListener("pointerleave", () => point(null));
  over.addEventListener("blur", () => point(null));
  over.addEventListener("focus", () => at ?? point(0));
  over.addEventListener("click", (event) => own && regionAt(event) !== null && focus.pin({ row: own[regionAt(event)] }));
  over.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && own && at !== null) return focus.pin({ row: own[at] });
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const [i, j] = [Math.floor((at ?? 0) / gridColumns) + move[0], ((at ?? 0) % gridColumns) + move[1]];
    point(Math.min(gridRows - 1, Math.max(0, i)) * gridColumns + Math.min(gridColumns - 1, Math.max(0, j)));
  });
  const beside = element("div", { className: "beside" }, element("label", { className: "slider" }, "heat ", slider), scale);
  if (strip) beside.append(filmstrip(table, columns, real, log, focus, small));
  else if (columns.image) beside.append(bare(columns, Math.min(BESIDE - 24, width / 2)));
  place.append(readout, element("div", { className: "canvas-side" }, large, beside));
  fade();
}

/** One small picture for each row. */
function filmstrip(table, columns, real, log, focus, pictures) {
  const strip = element("div", { className: "strip" });
  const [high, wide] = columns.size ?? columns.grid;
  table.rows.slice(0, STRIP).forEach((token, number) => {
    const picture = framed(columns, 96, (96 * high) / wide);
    const weights = weightsOf(table, number, real);
    heat(picture.querySelector("canvas"), weights, columns.grid, log, 1);
    pictures.push(picture.querySelector("canvas"));
    const told = element("small", { textContent: `largest ${largest(weights).toPrecision(2)}` });
    const button = element("button", { type: "button" }, element("bdi", { textContent: token.text }), picture, told);
    button.addEventListener("click", () => focus.pin({ row: number }));
    button.addEventListener("pointerenter", () => focus.hover({ row: number }));
    button.addEventListener("pointerleave", () => focus.hover(null));
    strip.append(button);
  });
  return strip;
}

/** The picture as it is, small: under the heat it is hard to see. */
function bare(columns, width) {
  const [high, wide] = columns.size ?? columns.grid;
  const picture = framed(columns, width, (width * high) / wide);
  picture.querySelector("canvas").remove();
  return element("figure", { className: "bare" }, picture, element("figcaption", { textContent: "original" }));
}

/** The image, and a canvas above it. */
function framed(columns, width, height) {
  const canvas = element("canvas", { width: Math.round(width), height: Math.round(height), className: "over" });
  const box = element("span", { className: "framed" });
  box.classList.toggle("coarse", Math.max(...(columns.size ?? [0])) < 64);
  if (columns.image) box.append(element("img", { src: `data:image/png;base64,${columns.image}`, alt: "", width: Math.round(width), height: Math.round(height) }));
  box.style.width = `${Math.round(width)}px`;
  box.style.height = `${Math.round(height)}px`;
  box.append(canvas);
  return box;
}

function heat(canvas, weights, [rows, columns], log, opacity) {
  const top = topWeight(weights, weights.length);
  const colors = heatRamp();
  fillRegions(canvas, weights, [rows, columns], (value) => [css(colors[Math.round(255 * strength(value, top, log))]), opacity]);
}

/** `inkOf(value)` → [a color, its opacity]. */
function fillRegions(canvas, values, [rows, columns], inkOf) {
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  values.forEach((value, region) => {
    const [i, j] = [Math.floor(region / columns), region % columns];
    const [x, y] = [Math.round((j * canvas.width) / columns), Math.round((i * canvas.height) / rows)];
    const [right, bottom] = [Math.round(((j + 1) * canvas.width) / columns), Math.round(((i + 1) * canvas.height) / rows)];
    [pen.fillStyle, pen.globalAlpha] = inkOf(value);
    pen.fillRect(x, y, right - x, bottom - y);
  });
}

/** The weights of one head over the picture, of the row that is pointed at or of the mean of all; small. */
export function drawHeat(place, table, columns, log, focus, room) {
  const [high, wide] = columns.size ?? columns.grid;
  const side = Math.min(room, Math.max(HEAD_SIDE, (room * wide) / high));
  const picture = framed(columns, side, (side * high) / wide);
  const real = upon(columns);
  place.append(element("div", { className: "over-picture" }, picture));
  focus.listen(({ row }) => heat(picture.querySelector("canvas"), weightsOf(table, row !== null && row < table.rows.length ? row : null, real), columns.grid, log, 0.6));
}

/** Numbers with a sign over the picture, one picture a row: blue adds, orange takes away, and nothing is left clear. */
export function drawSigned(place, rows, columns, top) {
  const [high, wide] = columns.size ?? columns.grid;
  const room = place.clientWidth || WIDEST;
  const side = Math.min(Math.max(SIDE, Math.min(ONLY_SIDE, room / rows.length - 14)), (room - 12) / 2); // two beside each other on a phone
  const colors = signedHeat();
  const [against, supporting] = [css(colors[0]), css(colors[255])];
  const strip = element("div", { className: "strip signed" }, ...rows.slice(0, STRIP).map(({ text, values }) => {
    const picture = framed(columns, side, (side * high) / wide);
    fillRegions(picture.querySelector("canvas"), values, columns.grid, (value) => [value < 0 ? against : supporting, 0.85 * strength(value, top, false)]);
    const sum = values.reduce((total, value) => total + value, 0);
    return element("figure", { className: "bare" }, picture, element("figcaption", {}, element("bdi", { textContent: text }), ` ${signedText(sum, top)}`));
  }));
  strip.style.gridTemplateColumns = `repeat(auto-fill, ${Math.round(side)}px)`;
  place.append(strip);
}
