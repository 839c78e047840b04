// A table of positions: the classic heat map, and how alike two positions are by their distance.
import { largest } from "./data.js";
import { drawMatrix } from "./matrix.js";
import { element, ramp, scaleBar } from "./paint.js";
import { curve } from "./training.js";
import { numbersTable } from "./views.js";

/** `page`: {positions: {title, table, similarity}}. */
export function showPositions(root, { positions: { title, table, similarity } }) {
  root.classList.add("regard");
  const numbered = (count) => Array.from({ length: count }, (_, i) => ({ text: String(i) }));
  const cells = { values: Float32Array.from(table.flat()), rows: numbered(table.length), columns: numbered(table[0].length) };
  const told = `${table.length} positions (down) × ${table[0].length} dimensions (across), and how alike positions are by distance.`;
  const picture = element("div");
  root.append(element("h1", { textContent: title }), element("p", { className: "caption", textContent: told }), picture);
  drawMatrix(picture, cells, { signed: true, label: "positions by dimensions" });
  picture.append(scaleBar(largest(cells.values), { colors: ramp(true), low: `−${Number(largest(cells.values).toPrecision(2))}` }),
    curve(picture, "mean cosine of positions by their distance", 0, similarity.map((_, distance) => distance), similarity, 0, "distance"),
    numbersTable(cells));
}
