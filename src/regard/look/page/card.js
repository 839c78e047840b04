// Reliability of a picture: a sentence and the figures behind it.
import { element } from "./paint.js";

/** `askMore` returns {figures, sentence} that need the model, on request. */
export function drawCard(place, card, askMore) {
  if (!card) return;
  const number = (value) => element("td", { textContent: value === null ? "" : value.toFixed(3) });
  const wish = { low: " ↓", high: " ↑", "": "" };
  const keys = { here: "value", uniform: "uniform", shuffled: "shuffled" };
  const columns = Object.keys(keys).filter((name) => card.figures.some((figure) => figure[keys[name]] !== null));
  const head = element("tr", {}, element("td"), ...columns.map((name) => element("th", { textContent: name, scope: "col" })));
  const others = new Set();
  const shown = (name) => columns.includes(name);
  const notes = [shown("uniform") ? "uniform: the same weight for every column." : "", shown("shuffled") ? "shuffled: the rows in another order." : "",
    card.figures.some(({ better }) => better) ? "↓ lower is better, ↑ higher is better." : ""].filter(Boolean);
  const lines = card.figures.map((figure) => {
    const foreign = figure.about && figure.about !== card.title;
    if (foreign) others.add(figure.about);
    const name = element("th", { textContent: figure.name + wish[figure.better] + (foreign ? " *" : ""), scope: "row" });
    return element("tr", {}, name, ...columns.map((column) => number(figure[keys[column]])));
  });
  place.append(element("h2", { textContent: "Reliability" }),
    element("p", { className: "sentence", textContent: card.sentence }),
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)),
    element("p", { textContent: notes.join(" ") }));
  for (const about of others) place.append(element("p", { textContent: `* measured on: ${about}` }));
  if (!askMore) return;
  const button = element("button", { type: "button", className: "more", textContent: "Measure faithfulness" });
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const more = await askMore();
      if (!more.figures.some(({ name }) => card.figures.every((figure) => figure.name !== name))) {
        button.replaceWith(element("p", { role: "status", textContent: "Faithfulness cannot be measured: these rows are not output steps." }));
        return;
      }
      place.replaceChildren();
      const known = card.figures.filter(({ name }) => !more.figures.some((figure) => figure.name === name));
      drawCard(place, { ...card, figures: [...known, ...more.figures], sentence: more.sentence || card.sentence });
    } catch (error) {
      button.replaceWith(element("p", { className: "wrong", role: "alert", textContent: error.message }));
    }
  });
  place.append(button);
}
