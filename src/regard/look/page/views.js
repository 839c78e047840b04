// The smaller views: highlighted text, and the table for screen readers.
import { largest, meanRow, strength, topWeight } from "./data.js";
import { element, painter, scaleBar } from "./paint.js";

/** The text that is looked at, painted by the weights of the row that is pointed at, or by the mean of all. */
export function drawText(place, table, log, focus) {
  const k = table.columns.length;
  const mean = meanRow(table);
  const spans = table.columns.map((token) => element("span", { textContent: token.text }));
  const [told, scale] = [element("p", { className: "readout" }), element("div")];
  const paint = painter(spans);
  focus.listen(({ row, pinned }) => {
    const there = row !== null && row < table.rows.length;
    const weights = there ? table.values.subarray(row * k, (row + 1) * k) : mean;
    const top = topWeight(weights, k);
    paint((j) => strength(weights[j], top, log));
    if (pinned) spans.forEach((span, j) => { span.title = weights[j].toFixed(4); });
    scale.replaceChildren(scaleBar(top, { more: largest(weights) > top * 1.0001 }));
    told.replaceChildren("Where ", element("b", {}, element("bdi", { textContent: there ? table.rows[row].text : "the mean of all rows" })), " looks");
  });
  const text = spans.flatMap((span, j) => {
    const [own, next] = table.columns.slice(j, j + 2);
    const joined = next && ((own.span && own.span[1] === next.span?.[0]) || (own.word !== null && own.word === next.word));
    if (!joined) return [span, " "];
    span.classList.add("goes-on"); // a piece of a word
    spans[j + 1].classList.add("goes-before");
    return [span];
  });
  place.append(told, element("p", { className: "marked", dir: "auto" }, ...text), scale);
}

const MOST_CELLS = 200; // a side of the table: a million cells would bring any browser to a halt

/** All numbers as a table, made when it is opened: for screen readers, and to copy from. */
export function numbersTable(table, what = "Rows look at columns") {
  const details = element("details", {}, element("summary", { textContent: "The numbers as a table" }));
  details.addEventListener("toggle", () => {
    if (!details.open || details.childElementCount > 1) return;
    const k = table.columns.length;
    const cell = (text, scope) => {
      const made = element(scope ? "th" : "td", { textContent: text });
      if (scope) made.scope = scope;
      return made;
    };
    const corner = element("td");
    const columns = table.columns.slice(0, MOST_CELLS);
    const header = element("tr", {}, corner, ...columns.map((token) => cell(token.text, "col")));
    const lines = table.rows.slice(0, MOST_CELLS).map((token, i) => element("tr", {}, cell(token.text, "row"),
      ...Array.from(table.values.subarray(i * k, i * k + columns.length), (value) => cell(value.toFixed(4)))));
    const all = table.rows.length <= MOST_CELLS && k <= MOST_CELLS;
    const caption = element("caption", { textContent: all ? what
      : `${what}; the first ${lines.length} of ${table.rows.length} rows, ${columns.length} of ${k} columns` });
    const scroll = element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "table of weights" },
      element("table", {}, caption, element("thead", {}, header), element("tbody", {}, ...lines)));
    details.append(scroll);
  });
  return details;
}
