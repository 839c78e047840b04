// Whether to believe a picture: a sentence with its numbers, and the figures it was made of.
import { element } from "./paint.js";

/** `askMore` brings {figures, sentence} that the model has to be asked for, when somebody wants them. */
export function drawCard(place, card, askMore) {
  if (!card) return;
  const number = (value) => element("td", { textContent: value === null ? "" : value.toFixed(3) });
  const wish = { low: " ↓", high: " ↑", "": "" };
  const keys = { here: "value", uniform: "uniform", shuffled: "shuffled" };
  const columns = Object.keys(keys).filter((name) => card.figures.some((figure) => figure[keys[name]] !== null));
  const head = element("tr", {}, element("td"), ...columns.map((name) => element("th", { textContent: name, scope: "col" })));
  const others = new Set();
  const lines = card.figures.map((figure) => {
    const foreign = figure.about && figure.about !== card.title;
    if (foreign) others.add(figure.about);
    const name = element("th", { textContent: figure.name + wish[figure.better] + (foreign ? " *" : ""), scope: "row" });
    return element("tr", {}, name, ...columns.map((column) => number(figure[keys[column]])));
  });
  place.append(element("h2", { textContent: "Whether to believe it" }),
    element("p", { className: "sentence", textContent: card.sentence }),
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)),
    element("p", { textContent: "Uniform and shuffled weights know nothing. ↓ low is better, ↑ high is better." }));
  for (const about of others) place.append(element("p", { textContent: `* measured on: ${about}` }));
  if (!askMore) return;
  const button = element("button", { type: "button", className: "more", textContent: "Does the model need it?" });
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const more = await askMore();
      if (!more.figures.some(({ name }) => card.figures.every((figure) => figure.name !== name))) {
        button.replaceWith(element("p", { role: "status", textContent: "The model cannot be asked: these rows are not what it says." }));
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
