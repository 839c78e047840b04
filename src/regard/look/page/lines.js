// Lines between words: who looks stands at the left, what is looked at at the right, each head in a color of its own.
import { strength, topWeight } from "./data.js";
import { element, headColor, short, svgElement } from "./paint.js";

const STEP = 27;
const MOST = 4000; // lines; the faintest are left out

export function drawLines(place, tables, names, log) {
  const { rows, columns } = tables[0];
  const height = STEP * Math.max(rows.length, columns.length) + 12;
  const svg = svgElement("svg", { viewBox: `0 0 640 ${height}`, width: 640, height, role: "group", "aria-label": "lines between words" });
  const y = (i, count) => 6 + ((i + 0.5) * (height - 12)) / count;
  const drawn = [];
  tables.forEach((table, number) => {
    const top = topWeight(table.values, columns.length);
    table.values.forEach((value, at) => {
      const share = strength(value, top, log);
      if (share > 0.03) drawn.push({ i: Math.floor(at / columns.length), j: at % columns.length, share, value, number });
    });
  });
  drawn.sort((a, b) => a.share - b.share);
  const paths = drawn.slice(-MOST).map(({ i, j, share, value, number }) => {
    const shift = (number - (tables.length - 1) / 2) * 1.8;
    const [from, to] = [y(i, rows.length) + shift, y(j, columns.length) + shift];
    const path = svgElement("path", {
      class: "line", d: `M200 ${from} C 310 ${from}, 330 ${to}, 440 ${to}`, stroke: headColor(number),
      "stroke-width": 0.6 + 2.6 * share, opacity: 0.15 + 0.8 * share,
    });
    const title = svgElement("title");
    title.textContent = `${rows[i].text} ← ${columns[j].text}: ${value.toFixed(4)}`;
    path.append(title);
    svg.append(path);
    return { path, i, j };
  });
  const side = (tokens, x, anchor, key) => tokens.forEach((token, index) => {
    const text = svgElement("text", { class: "word", x, y: y(index, tokens.length) + 5, "text-anchor": anchor, tabindex: 0, direction: "ltr" });
    text.textContent = short(token.text);
    const only = (on) => paths.forEach((one) => one.path.classList.toggle("away", on && one[key] !== index));
    for (const event of ["pointerenter", "focus"]) text.addEventListener(event, () => only(true));
    for (const event of ["pointerleave", "blur"]) text.addEventListener(event, () => only(false));
    svg.append(text);
  });
  side(rows, 190, "end", "i");
  side(columns, 450, "start", "j");
  place.append(svg);
  if (names.length > 1) {
    const legend = element("ul", { className: "legend" });
    names.forEach((name, number) => {
      const mark = element("span");
      mark.style.background = headColor(number);
      legend.append(element("li", {}, mark, name));
    });
    place.append(legend);
  }
}
