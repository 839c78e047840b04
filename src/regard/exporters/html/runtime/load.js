// A model from the text of a page: a tree of modules, and its numbers in base 64.
import { CLASSES } from "./classes.js";
import { build } from "./module.js";

export function loadModel({ tree, shapes, type, numbers }) {
  const all = type === "float32" ? new Float32Array(bytes(numbers).buffer) : fromHalf(new Uint16Array(bytes(numbers).buffer));
  let at = 0;
  const parameters = shapes.map((shape) => {
    const size = shape.reduce((product, n) => product * n, 1), data = all.subarray(at, at + size);
    at += size;
    return { data, shape };
  });
  return build(tree, CLASSES, parameters);
}

function bytes(text) {
  const binary = atob(text), all = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) all[i] = binary.charCodeAt(i);
  return all;
}

/** Half precision: a sign, five bits of exponent, ten of fraction. */
function fromHalf(halves) {
  return Float32Array.from(halves, (half) => {
    const sign = half & 0x8000 ? -1 : 1, exponent = (half >> 10) & 31, fraction = half & 1023;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    return exponent === 31 ? (fraction ? NaN : sign * Infinity) : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  });
}
