// Attention as training goes on: a slider over the validations, and how the figures of the chosen weights changed.
import { element, headColor, svgElement } from "./paint.js";

const [CURVE, HIGH, LEFT, BELOW] = [640, 190, 62, 26];

/** `steps`: of the validations; `figures`: for each of them, those of the chosen weights by name. Gives the curves back. */
export function drawTraining(place, steps, figures, chosen, pick) {
  const slider = element("input", { type: "range", name: "step", min: 0, max: steps.length - 1, value: chosen });
  const told = element("output", { textContent: `step ${steps[chosen].toLocaleString("en")}` });
  slider.setAttribute("aria-valuetext", `step ${steps[chosen]}`);
  slider.addEventListener("input", () => pick(Number(slider.value)));
  place.append(element("label", { className: "slider" }, "training step ", slider, " ", told));
  const names = [...new Set(figures.flatMap((one) => Object.keys(one)))];
  return names.map((name, number) => curve(place, name, number, steps, figures.map((one) => one[name] ?? null), chosen));
}

/** A line through values at `steps`, of which one is `chosen`. Values below zero are drawn below the axis. No wider than `place`. */
export function curve(place, name, number, steps, values, chosen, unit = "step") {
  const wide = Math.min(CURVE, place.clientWidth || CURVE);
  const there = values.filter((value) => value !== null);
  const top = Math.max(...there, 1e-9);
  const last = steps[steps.length - 1] - steps[0] || 1;
  const x = (i) => LEFT + ((steps[i] - steps[0]) / last) * (wide - LEFT - 12);
  const low = Math.min(0, ...there);
  const y = (value) => HIGH - BELOW - ((value - low) / (top - low)) * (HIGH - BELOW - 14);
  const now = values[chosen] === null ? "" : `: ${values[chosen].toFixed(3)}`;
  const svg = svgElement("svg", { viewBox: `0 0 ${wide} ${HIGH}`, width: wide, height: HIGH, role: "img",
    "aria-label": `${name} by ${unit}, from ${there[0].toFixed(3)} to ${there[there.length - 1].toFixed(3)}` });
  svg.append(svgElement("line", { x1: LEFT, x2: wide - 12, y1: y(0), y2: y(0), class: "axis" }));
  svg.append(tickText(LEFT - 6, y(top) + 5, "end", String(Number(top.toPrecision(3)))), tickText(LEFT - 6, y(0) + 5, "end", "0"));
  svg.append(tickText(LEFT, HIGH - 6, "start", steps[0]), tickText(wide - 12, HIGH - 6, "end", steps[steps.length - 1]));
  const points = values.flatMap((value, i) => (value === null ? [] : [`${x(i)},${y(value)}`]));
  svg.append(svgElement("polyline", { points: points.join(" "), fill: "none", stroke: headColor(number), "stroke-width": 2 }));
  values.forEach((value, i) => {
    if (value === null) return;
    const dot = svgElement("circle", { cx: x(i), cy: y(value), r: i === chosen ? 5 : 2.5, fill: headColor(number) });
    const title = svgElement("title");
    title.textContent = `${unit} ${steps[i]}: ${value.toFixed(4)}`;
    dot.append(title);
    svg.append(dot);
  });
  return element("figure", { className: "curve" }, element("figcaption", { textContent: name + now }), svg);
}

function tickText(x, y, anchor, text) {
  const made = svgElement("text", { x, y, "text-anchor": anchor, class: "tick" });
  made.textContent = text;
  return made;
}
