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
const SIGNED_HEAT = ["#ff7a00", "#ffffff", "#2f4bff"];
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

export function signedHeat() {
  return between(SIGNED_HEAT);
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

/** Black or white, whichever has more contrast with a color: 4.5 at least (WCAG's relative luminance). */
export function inkOn(color) {
  const [red, green, blue] = color.map((part) => (part <= 10 ? part / 3295 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

const LEVELS = 24; // of what is painted by `painter`
const MANY = 300; // elements: of more, only those that can be seen are painted

/** Gives a function that paints elements by shares from 0 to 1, `share(number)`; null: as they are. Only what changes and can be seen
 *  is touched, so that a thousand words stay fluent. */
export function painter(elements) {
  const colors = ramp();
  const styles = Array.from({ length: LEVELS + 1 }, (_, level) => colors[Math.round((255 * level) / LEVELS)]).map((color) => [css(color), inkOn(color)]);
  const last = new Int8Array(elements.length);
  const numbers = new Map(elements.map((one, number) => [one, number]));
  const seen = elements.length > MANY ? new Set() : elements;
  let wished = null;
  const paint = (one) => {
    const number = numbers.get(one);
    const level = wished ? Math.round(LEVELS * wished(number)) : 0;
    if (level === last[number]) return;
    last[number] = level;
    [one.style.background, one.style.color] = level ? styles[level] : ["", ""];
  };
  if (elements.length > MANY) {
    const watching = new IntersectionObserver((changes) => changes.forEach(({ target, isIntersecting }) => {
      if (!isIntersecting) return seen.delete(target);
      seen.add(target);
      return paint(target);
    }));
    elements.forEach((one) => watching.observe(one));
  }
  return (share) => {
    wished = share;
    seen.forEach(paint);
  };
}

let ruler = null; // one for all texts: of 48 maps each would make its own

/** How much larger than usual everything is that is measured in letters: canvases have to ask. */
export function enlarged() {
  return parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
}

/** How many pixels a text takes in a font. */
export function widthOf(text, font) {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = font;
  return ruler.measureText(text).width;
}

/** Does `act` when an element is about to be seen, or printed: what is far down a page is not painted before. */
export function whenSeen(one, act) {
  const now = () => {
    watching.disconnect();
    window.removeEventListener("beforeprint", now);
    act();
  };
  const watching = new IntersectionObserver((changes) => {
    if (!one.isConnected || changes.some(({ isIntersecting }) => isIntersecting)) now();
  }, { rootMargin: "50% 0px" });
  watching.observe(one);
  window.addEventListener("beforeprint", now);
}

/** The colors from least to most, with the value at either end; `more`: some values are larger than the last. */
export function scaleBar(top, { colors = ramp(), low = "0", more = false } = {}) {
  const bar = element("span", { className: "bar" });
  bar.style.background = `linear-gradient(to right, ${[0, 64, 128, 192, 255].map((i) => css(colors[i])).join(", ")})`;
  return element("p", { className: "scale" }, `${low} `, bar, ` ${Number(top.toPrecision(2))}${more ? " and more" : ""}`);
}

/** A number with its sign, with as many decimals as numbers up to `top` need. */
export function signedText(value, top) {
  const text = Math.abs(value).toFixed(top < 0.1 ? 4 : top < 1 ? 3 : 2);
  return Number(text) ? `${value < 0 ? "−" : "+"}${text}` : text;
}

/** At most about `most` numbers from `low` to `high` for the ticks of an axis: 1, 2 or 5 times a power of ten apart. */
export function roundNumbers(low, high, most) {
  const power = 10 ** Math.floor(Math.log10((high - low) / most));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => (high - low) / one <= most + 1e-9);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
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
