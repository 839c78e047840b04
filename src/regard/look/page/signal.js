// Attention along a sound or a series: light on the moments that were looked at, what is forecast after them, and a play head.
import { largest, momentOf, strength, topWeight } from "./data.js";
import { drawMatrix } from "./matrix.js";
import { element, enlarged, isDark, roundNumbers, scaleBar } from "./paint.js";
import { upon, weightsOf } from "./overlay.js";

const [TALL, FOOT] = [190, 22];
const VALUES = 52; // pixels for the numbers of a series, at its left

/** `said`: what was forecast, or null; `sound()`: a promise of the address of what can be heard, or null. */
export function drawSignal(place, table, columns, { log, said, sound }, focus, acts) {
  const real = upon(columns);
  const { edges } = columns;
  const ahead = said?.kind === "values" && columns.signal_shape?.length === 1 ? said : null;
  const width = Math.max(280, (place.clientWidth || 560) - 4);
  const scale = window.devicePixelRatio || 1;
  const canvas = element("canvas", { width: Math.round(width * scale), height: Math.round((TALL + FOOT) * scale), className: "signal" });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${TALL + FOOT}px`;
  canvas.setAttribute("role", "img");
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const span = edges[edges.length - 1] - edges[0] || 1;
  const step = span / Math.max(1, columns.signal?.length ?? real.length);
  const whole = span + (ahead ? step * ahead.values.length : 0);
  const left = columns.signal_shape?.length === 1 ? VALUES : 0;
  const x = (time) => left + ((time - edges[0]) / whole) * (width - left);
  const readout = element("output", { className: "readout" });
  const nameAt = (place) => momentOf(columns.tokens[place].text, columns.unit);
  const counted = real.every((place) => !Number.isNaN(Number(columns.tokens[place].text))); // and no dates
  let head = null; // of what is played, in the unit of the edges

  function paint({ row }) {
    const who = row !== null && row < table.rows.length ? row : table.rows.length === 1 ? 0 : null;
    const weights = weightsOf(table, who, real);
    const top = topWeight(weights, weights.length);
    const style = getComputedStyle(place);
    pen.clearRect(0, 0, width, TALL + FOOT);
    if (columns.signal_shape?.length === 2) paintBands(pen, columns, x(edges[edges.length - 1]));
    pen.fillStyle = style.getPropertyValue("--light") || "#f5a524";
    weights.forEach((value, i) => {
      pen.globalAlpha = 0.75 * strength(value, top, log);
      pen.fillRect(x(edges[i]), 0, Math.max(1, x(edges[i + 1]) - x(edges[i])), TALL);
    });
    pen.globalAlpha = 1;
    if (left) paintSeries(pen, columns.signal, ahead, [left, width], style, who !== null && ahead ? who : null);
    ticks(style.color);
    if (head !== null) {
      pen.fillStyle = style.getPropertyValue("--mark") || "#c2410c";
      pen.fillRect(x(head) - 1, 0, 2, TALL);
    }
    const best = weights.indexOf(Math.max(...weights));
    const name = who === null ? "the mean of all rows" : table.rows[who].text;
    const moment = nameAt(real[best]);
    canvas.setAttribute("aria-label", `${name} looks most at ${moment}, with ${weights[best].toFixed(4)}`);
    const number = ahead && who !== null && who < ahead.values.length ? ` is forecast as ${told(ahead.values[who])}${ahead.low.length ? ` (${told(ahead.low[who])} to ${told(ahead.high[who])})` : ""} and` : "";
    readout.replaceChildren(element("bdi", { textContent: name }), `${number} looks most at `, element("b", { textContent: moment }), `: ${weights[best].toFixed(4)}`);
  }

  function ticks(color) {
    pen.fillStyle = color;
    pen.font = `${12 * enlarged()}px system-ui, "Noto Sans", sans-serif`;
    pen.textBaseline = "bottom";
    const names = counted ? roundNumbers(edges[0], edges[0] + whole, Math.max(3, Math.floor(width / 75))).map((time) => [time, momentOf(told(time), columns.unit)])
      : [...real.map((j, i) => [edges[i], nameAt(j)]), ...(ahead?.names ?? []).map((name, i) => [edges[edges.length - 1] + i * step, name])];
    const every = counted ? 1 : Math.max(1, Math.ceil(names.length / Math.max(2, Math.floor(width / 130))));
    pen.textAlign = "left";
    let end = -Infinity; // of the name before
    names.forEach(([time, name], i) => {
      const wide = pen.measureText(name).width;
      const at = Math.max(0, Math.min(width - wide, x(time) - (counted ? wide / 2 : 0)));
      if (i % every || at < end + 10) return;
      pen.fillText(name, at, TALL + FOOT);
      end = at + wide;
    });
  }

  canvas.addEventListener("pointermove", (event) => {
    const time = edges[0] + ((event.clientX - canvas.getBoundingClientRect().left - left) / (width - left)) * whole;
    const later = ahead && time >= edges[edges.length - 1] ? Math.floor((time - edges[edges.length - 1]) / step) : null;
    if (later !== null) return focus.hover(later < table.rows.length ? { row: later } : null);
    const at = edges.findIndex((edge, i) => i + 1 < edges.length && time >= edge && time < edges[i + 1]);
    return focus.hover(at >= 0 ? { ...focus.pinned, column: real[at] } : null);
  });
  canvas.addEventListener("pointerleave", () => focus.hover(null));
  place.append(readout, canvas);
  if (sound) place.append(player(sound, (time) => {
    head = time;
    paint(focus.now);
  }));
  if (ahead) place.append(element("p", { className: "legend" }, mark("--ink", "past"), mark("--accent", "forecast"), ahead.band ? mark("--band", `quantiles ${ahead.band}`) : "", ahead.actual.length ? mark("--mark", "actual") : ""));
  focus.listen(paint);
  if (table.rows.length < 2) return;
  const top = topWeight(table.values, table.columns.length);
  drawMatrix(place, table, { log, label: "rows over time", top }, focus, { onCell: acts.onCell });
  place.append(scaleBar(top, { more: largest(table.values) > top * 1.0001 }));
}

function told(value) {
  return String(Number(value.toPrecision(4))).replace("-", "−");
}

function mark(color, text) {
  const sign = element("span");
  sign.style.background = `var(${color})`;
  return element("span", { className: "key" }, sign, text);
}

/** The recording itself, with its time told to `moved` as it plays. */
function player(sound, moved) {
  const audio = element("audio", { controls: true, preload: "none" });
  const box = element("p", { className: "player" }, audio);
  sound().then((address) => { audio.src = address; }, (error) => box.replaceChildren(error.message));
  const follow = () => {
    moved(audio.currentTime);
    if (!audio.paused && audio.isConnected) requestAnimationFrame(follow);
  };
  audio.addEventListener("play", follow);
  audio.addEventListener("seeked", () => moved(audio.currentTime));
  return box;
}

function range(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return [low, high - low || 1];
}

function paintBands(pen, { signal, signal_shape: [bands, steps] }, width) {
  const [low, size] = range(signal);
  const image = new ImageData(steps, bands);
  const pixels = new Uint32Array(image.data.buffer);
  const dark = isDark();
  for (let i = 0; i < pixels.length; i++) {
    const band = bands - 1 - Math.floor(i / steps); // the lowest at the bottom
    const share = (signal[band * steps + (i % steps)] - low) / size;
    const gray = Math.round(255 * (dark ? share : 1 - share));
    pixels[i] = (255 << 24) | (gray << 16) | (gray << 8) | gray;
  }
  const cells = element("canvas", { width: steps, height: bands });
  cells.getContext("2d").putImageData(image, 0, 0);
  pen.drawImage(cells, 0, 0, width, TALL);
}

/** The past, and what was forecast within its band; `now`: the step that is pointed at. */
function paintSeries(pen, signal, ahead, [left, width], style, now) {
  const [low, size] = range([...signal, ...(ahead ? [...ahead.values, ...ahead.low, ...ahead.high, ...ahead.actual] : [])]);
  const count = signal.length + (ahead?.values.length ?? 0);
  const x = (i) => left + ((i + 0.5) / count) * (width - left);
  const y = (value) => TALL - 6 - ((TALL - 14) * (value - low)) / size;
  const color = (name) => style.getPropertyValue(name);
  const line = (values, from, ink, dashes = []) => {
    pen.strokeStyle = ink;
    pen.lineWidth = 1.8;
    pen.setLineDash(dashes);
    pen.beginPath();
    values.forEach((value, i) => pen.lineTo(x(from + i), y(value)));
    pen.stroke();
    pen.setLineDash([]);
  };
  pen.font = `${12 * enlarged()}px system-ui, "Noto Sans", sans-serif`;
  [pen.textAlign, pen.textBaseline] = ["right", "middle"];
  for (const value of roundNumbers(low, low + size, 5)) {
    pen.fillStyle = color("--faint");
    pen.fillText(told(value), left - 7, Math.min(TALL - 7, Math.max(7, y(value))));
    pen.fillStyle = color("--line");
    pen.fillRect(left, Math.round(y(value)), width - left, 1);
  }
  if (ahead?.low.length) {
    pen.fillStyle = color("--band");
    pen.beginPath();
    const last = signal[signal.length - 1];
    [last, ...ahead.high].forEach((value, i) => pen.lineTo(x(signal.length - 1 + i), y(value)));
    [...ahead.low].reverse().forEach((value, i) => pen.lineTo(x(signal.length + ahead.low.length - 1 - i), y(value)));
    pen.fill();
  }
  line(signal, 0, style.color);
  if (!ahead) return;
  if (ahead.actual.length) line([signal[signal.length - 1], ...ahead.actual], signal.length - 1, color("--mark"), [5, 4]);
  line([signal[signal.length - 1], ...ahead.values], signal.length - 1, color("--accent"));
  if (now === null || now >= ahead.values.length) return;
  pen.fillStyle = color("--accent");
  pen.beginPath();
  pen.arc(x(signal.length + now), y(ahead.values[now]), 5, 0, 7);
  pen.fill();
}
