// Colors: one ramp for weights and one for differences, each for light and for dark pages.

const RAMPS = {
  light: ["#f3f5fb", "#c5d0f7", "#7c97f0", "#3b53cf", "#171c6b"],
  dark: ["#1b1e2a", "#2c3c86", "#4f69e0", "#9db0ff", "#f4f6ff"],
};
const SIGNED = {
  light: ["#a3460b", "#f0b27a", "#f5f5f7", "#8fa6f2", "#26329e"],
  dark: ["#ffb066", "#99551c", "#1b1e2a", "#3f57c4", "#a9baff"],
};
/** What is laid over pictures: it has to be seen on light and on dark ones. */
const HEAT = ["#150e37", "#641a80", "#c83f73", "#fb8861", "#fcfdbf"];
export const HEADS = ["#3b53cf", "#d1495b", "#2a9d5c", "#c9790c", "#8a5bd0", "#1795a8", "#b5541a", "#6b7386"];
const HEADS_DARK = ["#93a7ff", "#ff8b97", "#66d394", "#f5b352", "#c7a4ff", "#5fd0e0", "#ff9d63", "#aab1c4"];

export function isDark() {
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

export function headColor(number) {
  return (isDark() ? HEADS_DARK : HEADS)[number % HEADS.length];
}

/** 256 colors as [red, green, blue]; of a signed ramp the middle is zero. */
export function ramp(signed = false) {
  return between((signed ? SIGNED : RAMPS)[isDark() ? "dark" : "light"]);
}

export function heatRamp() {
  return between(HEAT);
}

function between(colors) {
  const stops = colors.map(rgb);
  return Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((part, c) => Math.round(part + (stops[low + 1][c] - part) * (at - low)));
  });
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

export function css(color) {
  return `rgb(${color.join(" ")})`;
}

/** Black or white, whichever can be read on a color. */
export function inkOn([red, green, blue]) {
  return 0.3 * red + 0.59 * green + 0.11 * blue > 140 ? "#14161f" : "#ffffff";
}

/** The colors from least to most, with the value at either end; `more`: some values are larger than the last. */
export function scaleBar(top, { colors = ramp(), low = "0", more = false } = {}) {
  const bar = element("span", { className: "bar" });
  bar.style.background = `linear-gradient(to right, ${[0, 64, 128, 192, 255].map((i) => css(colors[i])).join(", ")})`;
  return element("p", { className: "scale" }, `${low} `, bar, ` ${Number(top.toPrecision(2))}${more ? " and more" : ""}`);
}

/** Long tokens are cut in pictures; tables and readings have them whole. */
export function short(text, most = 22) {
  const characters = [...text];
  return characters.length <= most ? text : `${characters.slice(0, most - 1).join("")}…`;
}

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export function svgElement(name, attributes = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
