// Examples of a model's own validation data, to click: texts as they are, pictures, sounds and series as thumbnails.
import { css, element, headColor, ramp } from "./paint.js";

const SECOND = 60; // characters of a second text
const FEW = 8; // columns of a table that are drawn as lines

/** `pick(example)` is told which. Gives back `press(text)`: marks the one that is asked about. */
export function drawExamples(place, examples, pick) {
  const buttons = examples.map((example) => {
    const text = example.text.split("\t").filter((part) => !part.startsWith("example:")).join(" ");
    const button = element("button", { type: "button", title: example.right ? `reference: ${example.right}` : "" });
    button.dataset.text = example.text;
    if (example.image || example.signal) {
      button.className = "drawn";
      const picture = example.image ? element("img", { src: `data:image/png;base64,${example.image}`, alt: "" }) : drawnSignal(example.signal);
      button.append(picture, element("span", { textContent: text || example.right || example.when || "example", dir: "auto" }));
    } else {
      const [first, second = ""] = text.split("\n"); // of two texts both; of a long one its beginning, or the question about it
      button.append(element("bdi", { textContent: second && second.length <= SECOND ? `${first} / ${second}` : first }));
    }
    button.addEventListener("click", () => pick(example));
    return button;
  });
  place.replaceChildren(...buttons);
  return (asked) => buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.text === asked)));
}

/** A few lines, or bands from the lowest at the bottom. */
function drawnSignal(bands) {
  const [rows, columns] = [bands.length, bands[0].length];
  const canvas = element("canvas", { width: 192, height: 144 });
  const pen = canvas.getContext("2d");
  const all = bands.flat();
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const share = (value) => (value - low) / (high - low || 1);
  if (rows <= FEW) {
    bands.forEach((band, number) => {
      pen.strokeStyle = headColor(number);
      pen.lineWidth = 3;
      pen.beginPath();
      band.forEach((value, i) => pen.lineTo((i / Math.max(1, columns - 1)) * 186 + 3, 138 - 132 * share(value)));
      pen.stroke();
    });
    return canvas;
  }
  const colors = ramp();
  bands.forEach((band, i) => band.forEach((value, j) => {
    pen.fillStyle = css(colors[Math.round(255 * share(value))]);
    pen.fillRect((j * 192) / columns, 144 - ((i + 1) * 144) / rows, 192 / columns + 1, 144 / rows + 1);
  }));
  return canvas;
}
