// Lines between words: who looks stands at the left, what is looked at at the right, each head in a color of its own, which
// can be switched off.
import { strength, topWeight } from "./data.js";
import { element, enlarged, headColor, short, svgElement, widthOf } from "./paint.js";

const [STEP, CLOSE, APART] = [27, 19, 64]; // between words, where there are many of them, and at the most, where the other side has many more
const MANY_WORDS = 40;
const [PICTURE, LINES] = [860, 90]; // of the picture, and of its lines at the least
const MOST_LINES = 2000; // the faintest are left out
const OF_A_ROW = 6; // the strongest of a row and a head, where there are many columns

export function drawLines(place, tables, names, log, focus) {
  const { rows, columns } = tables[0];
  const most = Math.max(rows.length, columns.length);
  const larger = enlarged();
  const height = (most > MANY_WORDS ? CLOSE : STEP) * larger * most + 12;
  const width = Math.min(PICTURE * larger, place.clientWidth || PICTURE); // and no scaling, so that words are as large as elsewhere
  const longest = Math.max(4, Math.min(22, Math.floor((width - LINES) / 18)));
  const { font } = getComputedStyle(place);
  const widest = (tokens) => Math.ceil(Math.max(...tokens.map((token) => widthOf(short(token.text, longest), `bold ${font}`)))); // as it is when it is pointed at
  const [left, right] = [widest(rows) + 4, width - widest(columns) - 4];
  const bend = (right - left - 20) / 2;
  const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "lines between words" });
  const y = (i, count) => height / 2 + (i + 0.5 - count / 2) * Math.min((height - 12) / count, APART * larger);
  const drawn = tables.flatMap((table, number) => strongestLines(table, number, log)).sort((a, b) => a.share - b.share);
  const paths = drawn.slice(-MOST_LINES).map(({ i, j, share, value, number }) => {
    const shift = (number - (tables.length - 1) / 2) * 1.8;
    const [from, to] = [y(i, rows.length) + shift, y(j, columns.length) + shift];
    const path = svgElement("path", {
      class: "line", d: `M${left + 10} ${from} c ${bend} 0, ${bend} ${to - from}, ${2 * bend} ${to - from}`, stroke: headColor(number),
      "stroke-width": 0.6 + 2.6 * share, opacity: 0.15 + 0.8 * share,
    });
    const title = svgElement("title");
    title.textContent = `${rows[i].text} ← ${columns[j].text}: ${value.toFixed(4)}`;
    path.append(title);
    svg.append(path);
    return { path, row: i, column: j, number };
  });
  const side = (tokens, x, anchor, key) => tokens.map((token, index) => {
    const text = svgElement("text", { class: "word", x, y: y(index, tokens.length) + 5, "text-anchor": anchor, tabindex: 0, direction: "ltr" });
    text.textContent = short(token.text, longest);
    for (const event of ["pointerenter", "focus"]) text.addEventListener(event, () => focus.hover({ [key]: index }));
    for (const event of ["pointerleave", "blur"]) text.addEventListener(event, () => focus.hover(null));
    text.addEventListener("click", () => focus.pin({ [key]: index }));
    svg.append(text);
    return text;
  });
  const words = { row: side(rows, left, "end", "row"), column: side(columns, right, "start", "column") };
  const off = new Set();
  const refresh = ({ row, column }) => {
    for (const one of paths) {
      const away = off.has(one.number) || (row !== null && one.row !== row) || (column !== null && one.column !== column);
      if (away !== one.away) one.path.classList.toggle("away", away);
      one.away = away;
    }
    words.row.forEach((text, i) => text.classList.toggle("on", i === row));
    words.column.forEach((text, j) => text.classList.toggle("on", j === column));
  };
  place.append(svg);
  focus.listen(refresh);
  if (names.length < 2) return;
  const legend = element("div", { className: "legend", role: "group", ariaLabel: "heads that are shown" });
  names.forEach((name, number) => {
    const mark = element("span");
    mark.style.background = headColor(number);
    const button = element("button", { type: "button" }, mark, name);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      if (!off.delete(number)) off.add(number);
      button.setAttribute("aria-pressed", String(!off.has(number)));
      refresh(focus.now);
    });
    legend.append(button);
  });
  place.append(legend);
}

function strongestLines({ values, rows, columns }, number, log) {
  const k = columns.length;
  const top = topWeight(values, k);
  return rows.flatMap((_, i) => {
    const row = Array.from({ length: k }, (_, j) => ({ i, j, value: values[i * k + j], share: strength(values[i * k + j], top, log), number }));
    const seen = row.filter((one) => one.share > 0.03);
    return k <= 40 ? seen : seen.sort((a, b) => b.share - a.share).slice(0, OF_A_ROW);
  });
}
