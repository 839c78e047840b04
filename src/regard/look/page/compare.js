// Two records side by side, on one scale: each with its own output, or both with the same one, and then with their difference.
import { largest, topWeight } from "./data.js";
import { sharingColumns } from "./focus.js";
import { drawMatrix } from "./matrix.js";
import { element, ramp, scaleBar } from "./paint.js";
import { numbersTable } from "./views.js";

/** The rows of one that are not in the other, word by word in order (the longest common part stays unmarked). */
export function differing(rows, others) {
  const [n, m] = [rows.length, others.length];
  if (n * m > 250_000) return new Set();
  const best = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) best[i][j] = rows[i].text === others[j].text ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  }
  const found = new Set();
  for (let i = 0, j = 0; i < n;) {
    if (j < m && rows[i].text === others[j].text) [i, j] = [i + 1, j + 1];
    else if (j < m && best[i][j + 1] >= best[i + 1][j]) j++;
    else found.add(i++);
  }
  return found;
}

/** `names`: of the two. */
export function drawComparison(place, table, other, names, log, focus) {
  const same = table.values.length === other.values.length && table.rows.length === other.rows.length
    && table.rows.every(({ text }, i) => text === other.rows[i].text);
  const top = Math.max(topWeight(table.values, table.columns.length), topWeight(other.values, other.columns.length));
  const panels = [[names[0], table, { log, top }], [names[1], other, { log, top }]];
  const apart = same ? { ...table, values: table.values.map((value, i) => value - other.values[i]) } : null;
  if (apart) panels.push(["first minus second", apart, { signed: true }]);
  const trio = element("div", { className: "trio" });
  place.append(trio);
  const figures = panels.map(([text, one]) => element("figure", {}, element("figcaption", {}, element("b", { textContent: text }), one === apart ? "" : saidBy(one, one === table ? other : table))));
  trio.append(...figures); // all of them, before any is drawn: they share the room
  const second = same ? focus : sharingColumns(focus);
  panels.forEach(([text, one, how], number) => drawMatrix(figures[number], one, { ...how, label: text }, one === other ? second : focus));
  const most = Math.max(largest(table.values), largest(other.values));
  figures.slice(0, 2).forEach((figure) => figure.append(scaleBar(top, { more: most > top * 1.0001 })));
  if (apart) figures[2].append(scaleBar(largest(apart.values), { colors: ramp(true), low: `−${Number(largest(apart.values).toPrecision(2))}` }));
  place.append(numbersTable(apart ?? table));
}

/** What one of them wrote, with the words marked that the other did not write. */
function saidBy(one, other) {
  const marked = differing(one.rows, other.rows);
  return element("p", { className: "wrote", dir: "auto" }, ...one.rows.flatMap((token, i) => [element(marked.has(i) ? "mark" : "span", { textContent: token.text }), " "]));
}
