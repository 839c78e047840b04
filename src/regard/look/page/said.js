// What the model said, where that is more than a text: labels with their probabilities, marks in a text.
import { element } from "./paint.js";
import { percent } from "./words.js";

const MOST_LABELS = 10;

/** `choose(label)`: looks at another label; null: nobody is there to ask. `chosen`: the one that is looked at. */
export function drawSaid(place, said, chosen, choose) {
  if (said.kind === "labels") drawLabels(place, said, chosen, choose);
  if (said.kind === "marks") drawMarks(place, said);
}

function drawLabels(place, { names, values }, chosen, choose) {
  const list = element("ol", { className: "next labels" });
  names.slice(0, MOST_LABELS).forEach((name, number) => {
    const bar = element("span", { className: "share" });
    bar.style.width = `${100 * values[number]}%`;
    const parts = [element("bdi", { textContent: name }), element("span", { className: "track" }, bar), element("span", { className: "number", textContent: percent(values[number]) })];
    const line = choose && name !== chosen ? element("button", { type: "button", title: "explain this label" }, ...parts) : element("span", { className: "line" }, ...parts);
    line.classList.toggle("written", name === chosen);
    if (choose && name !== chosen) line.addEventListener("click", () => choose(name));
    list.append(element("li", {}, line));
  });
  place.append(element("h2", { textContent: names.length > MOST_LABELS ? `The ${MOST_LABELS} most probable of ${names.length} labels` : "Labels" }), list);
}

function drawMarks(place, { text, marks }) {
  const letters = [...text];
  const line = element("p", { className: "marked", dir: "auto" });
  let at = 0;
  for (const [start, end, label] of marks) {
    line.append(letters.slice(at, start).join(""), element("mark", {}, letters.slice(start, end).join(""), element("small", { textContent: label })));
    at = end;
  }
  line.append(letters.slice(at).join(""));
  place.append(element("h2", { textContent: "Marked in the text" }), line);
}
