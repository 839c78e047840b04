// The smaller views: grid of heads, highlighted text, tree of hypotheses, and the table for screen readers.
import { largest, strength } from "./data.js";
import { smallMap } from "./matrix.js";
import { css, element, inkOn, ramp } from "./paint.js";

/** Every layer and head with its entropy; a click opens it as a matrix. */
export function drawGrid(place, layers, log, lineOf, pick) {
  for (const one of layers) {
    const [heads, q, k] = one.shape;
    const row = element("div", { className: "grid" });
    for (let h = 0; h < heads; h++) {
      const values = one.weights.subarray(h * q * k, (h + 1) * q * k);
      const button = element("button", { type: "button" }, `head ${h} · ${lineOf(one.layer, h)}`, smallMap(values, q, k, log));
      button.addEventListener("click", () => pick(one.layer, h));
      row.append(button);
    }
    place.append(element("h2", { textContent: `layer ${one.layer}` }), row);
  }
}

/** The text that is looked at, painted by the weights of one row, or by the mean of all. */
export function drawText(place, table, log) {
  const k = table.columns.length;
  const mean = Array.from({ length: k }, (_, j) =>
    table.rows.reduce((sum, _, i) => sum + table.values[i * k + j], 0) / table.rows.length);
  const marked = element("p", { className: "marked", dir: "auto" });
  const colours = ramp();
  const show = (weights) => {
    const top = largest(weights);
    marked.replaceChildren(...table.columns.flatMap((token, j) => {
      const colour = colours[Math.round(255 * strength(weights[j], top, log))];
      const span = element("span", { textContent: token.text, title: weights[j].toFixed(4) });
      span.style.background = css(colour);
      span.style.color = inkOn(colour);
      return [span, " "];
    }));
  };
  const buttons = [["all rows", mean], ...table.rows.map((token, i) => [token.text, [...table.values.subarray(i * k, i * k + k)]])]
    .map(([name, weights]) => {
      const button = element("button", { type: "button", textContent: name });
      const press = () => {
        buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
        show(weights);
      };
      button.addEventListener("click", press);
      button.setAttribute("aria-pressed", "false");
      return button;
    });
  place.append(element("div", { className: "chips", role: "group", ariaLabel: "which row looks" }, ...buttons), marked);
  buttons[0].click();
}

/** Hypotheses: beginnings that they share are written once. A button shows where a hypothesis looked. */
export function drawTree(place, nodes, scores, chosen, pick) {
  const branch = (node) => {
    const words = element("span", { textContent: node.tokens.join(" "), dir: "auto" });
    words.classList.toggle("best", node.hypotheses.includes(0));
    const item = element("li", {}, words, element("span", { className: "log", textContent: `log p ${node.log_probability.toFixed(2)}` }));
    if (node.children.length) item.append(element("ul", {}, ...node.children.map(branch)));
    else for (const number of node.hypotheses) {
      const score = scores[number] === null ? "" : `, score ${scores[number].toFixed(3)}`;
      const button = element("button", { type: "button", textContent: `#${number + 1}${score}` });
      button.setAttribute("aria-pressed", String(number === chosen));
      button.addEventListener("click", () => pick(number));
      item.append(button);
    }
    return item;
  };
  place.append(element("ul", { className: "tree" }, ...nodes.map(branch)));
}

/** All numbers as a table, made when it is opened: for screen readers, and to copy from. */
export function numbersTable(table) {
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
    const header = element("tr", {}, corner, ...table.columns.map((token) => cell(token.text, "col")));
    const lines = table.rows.map((token, i) => element("tr", {}, cell(token.text, "row"),
      ...Array.from(table.values.subarray(i * k, i * k + k), (value) => cell(value.toFixed(4)))));
    const caption = element("caption", { textContent: "Rows look at columns" });
    const scroll = element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "table of weights" },
      element("table", {}, caption, element("thead", {}, header), element("tbody", {}, ...lines)));
    details.append(scroll);
  });
  return details;
}

/** The figures beside a picture. */
export function drawCard(place, card) {
  if (!card) return;
  const number = (value) => element("td", { textContent: value === null ? "" : value.toFixed(3) });
  const wish = { low: " ↓", high: " ↑", "": "" };
  const head = element("tr", {}, element("td"), ...["here", "uniform", "shuffled"].map((name) => {
    const made = element("th", { textContent: name });
    made.scope = "col";
    return made;
  }));
  const others = new Set();
  const lines = card.figures.map((figure) => {
    const foreign = figure.about && figure.about !== card.title;
    if (foreign) others.add(figure.about);
    const name = element("th", { textContent: figure.name + wish[figure.better] + (foreign ? " *" : "") });
    name.scope = "row";
    return element("tr", {}, name, number(figure.value), number(figure.uniform), number(figure.shuffled));
  });
  place.append(element("h2", { textContent: "Whether to believe it" }),
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)),
    element("p", { textContent: "Uniform and shuffled weights know nothing. ↓ low is better, ↑ high is better." }));
  for (const about of others) place.append(element("p", { textContent: `* measured on: ${about}` }));
}
