// The smaller views: grid of heads, highlighted text, tree of hypotheses, and the table for screen readers.
import { strength, topWeight } from "./data.js";
import { smallMap } from "./matrix.js";
import { css, element, inkOn, ramp } from "./paint.js";

/** Every layer and head with its entropy; a click opens it as a matrix. */
export function drawGrid(place, layers, log, pick) {
  for (const { layer, heads } of layers) {
    const row = element("div", { className: "grid" });
    heads.forEach(({ values, q, k, line }, head) => {
      const button = element("button", { type: "button" }, `head ${head} · ${line}`, smallMap(values, q, k, log));
      button.addEventListener("click", () => pick(layer, head));
      row.append(button);
    });
    place.append(element("h2", { textContent: `layer ${layer}` }), row);
  }
}

/** The text that is looked at, painted by the weights of one row, or by the mean of all. */
export function drawText(place, table, log) {
  const k = table.columns.length;
  const mean = Array.from({ length: k }, (_, j) =>
    table.rows.reduce((sum, _, i) => sum + table.values[i * k + j], 0) / table.rows.length);
  const marked = element("p", { className: "marked", dir: "auto" });
  const colors = ramp();
  const show = (weights) => {
    const top = topWeight(weights, weights.length);
    marked.replaceChildren(...table.columns.flatMap((token, j) => {
      const color = colors[Math.round(255 * strength(weights[j], top, log))];
      const span = element("span", { textContent: token.text, title: weights[j].toFixed(4) });
      span.style.background = css(color);
      span.style.color = inkOn(color);
      return [span, " "];
    }));
  };
  chips(place, "which row looks", ["all rows", ...table.rows.map((token) => token.text)], 0,
    (at) => show(at ? [...table.values.subarray((at - 1) * k, at * k)] : mean));
  place.append(marked);
}

/** Buttons of which one is pressed; `pick` is told which, and also at the start. Gives back `press`; null is none. */
export function chips(place, label, names, chosen, pick) {
  const buttons = names.map((name, number) => {
    const button = element("button", { type: "button", textContent: name });
    button.addEventListener("click", () => press(number));
    return button;
  });
  const press = (number) => {
    buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === number)));
    if (number !== null) pick(number);
  };
  place.append(element("div", { className: "chips", role: "group", ariaLabel: label }, ...buttons));
  press(chosen);
  return press;
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

const MOST_CELLS = 200; // a side of the table: a million cells would bring any browser to a halt

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
    const columns = table.columns.slice(0, MOST_CELLS);
    const header = element("tr", {}, corner, ...columns.map((token) => cell(token.text, "col")));
    const lines = table.rows.slice(0, MOST_CELLS).map((token, i) => element("tr", {}, cell(token.text, "row"),
      ...Array.from(table.values.subarray(i * k, i * k + columns.length), (value) => cell(value.toFixed(4)))));
    const all = table.rows.length <= MOST_CELLS && k <= MOST_CELLS;
    const caption = element("caption", { textContent: all ? "Rows look at columns"
      : `Rows look at columns; the first ${lines.length} of ${table.rows.length} rows, ${columns.length} of ${k} columns` });
    const scroll = element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "table of weights" },
      element("table", {}, caption, element("thead", {}, header), element("tbody", {}, ...lines)));
    details.append(scroll);
  });
  return details;
}

/** The figures beside a picture. `askMore` brings those that the model has to be asked for, when somebody wants them. */
export function drawCard(place, card, askMore) {
  if (!card) return;
  const number = (value) => element("td", { textContent: value === null ? "" : value.toFixed(3) });
  const wish = { low: " ↓", high: " ↑", "": "" };
  const keys = { here: "value", uniform: "uniform", shuffled: "shuffled" };
  const columns = Object.keys(keys).filter((name) => card.figures.some((figure) => figure[keys[name]] !== null));
  const head = element("tr", {}, element("td"), ...columns.map((name) => {
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
    return element("tr", {}, name, ...columns.map((column) => number(figure[keys[column]])));
  });
  place.append(element("h2", { textContent: "Whether to believe it" }),
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)),
    element("p", { textContent: "Uniform and shuffled weights know nothing. ↓ low is better, ↑ high is better." }));
  for (const about of others) place.append(element("p", { textContent: `* measured on: ${about}` }));
  if (!askMore) return;
  const button = element("button", { type: "button", className: "more", textContent: "Does the model need it?" });
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const figures = await askMore();
      place.replaceChildren();
      drawCard(place, { ...card, figures: [...card.figures, ...figures] });
    } catch (error) {
      button.replaceWith(element("p", { className: "wrong", role: "alert", textContent: error.message }));
    }
  });
  place.append(button);
}
