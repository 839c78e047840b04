// Vectors are Float32Arrays, and a sequence is a list of them. Sums are formed in double precision.

/** y = W x + b for each x of a list. Four rows of W at a time: each number of x is read once for all of them. */
export function linear(xs, weight, bias = null) {
  const [out, width] = weight.shape, w = weight.data, b = bias?.data;
  const ys = xs.map(() => new Float32Array(out));
  for (let o = 0; o < out; o += 4) {
    const many = Math.min(4, out - o), w0 = o * width;
    const w1 = w0 + (many > 1 ? width : 0), w2 = w0 + (many > 2 ? 2 * width : 0), w3 = w0 + (many > 3 ? 3 * width : 0);
    for (let n = 0; n < xs.length; n++) {
      const x = xs[n], y = ys[n];
      let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (let i = 0; i < width; i++) {
        const v = x[i];
        s0 += v * w[w0 + i];
        s1 += v * w[w1 + i];
        s2 += v * w[w2 + i];
        s3 += v * w[w3 + i];
      }
      y[o] = s0 + (b ? b[o] : 0);
      if (many > 1) y[o + 1] = s1 + (b ? b[o + 1] : 0);
      if (many > 2) y[o + 2] = s2 + (b ? b[o + 2] : 0);
      if (many > 3) y[o + 3] = s3 + (b ? b[o + 3] : 0);
    }
  }
  return ys;
}

export function dot(x, y) {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
}

export const sum = (x) => x.reduce((total, value) => total + value, 0);

export const plus = (x, y) => x.map((value, i) => value + y[i]);
export const times = (x, factor) => x.map((value) => value * factor);
export const tanh = (x) => x.map(Math.tanh);
export const sigmoid = (value) => 1 / (1 + Math.exp(-value));

export function beside(...parts) {
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export function mean(xs) {
  const sum = new Float64Array(xs[0].length);
  for (const x of xs) for (let i = 0; i < sum.length; i++) sum[i] += x[i];
  return Float32Array.from(sum, (value) => value / xs.length);
}

/** log Σ exp, from the largest on, so that nothing overflows. */
export function logSumExp(x) {
  let largest = -Infinity, sum = 0;
  for (const value of x) if (value > largest) largest = value;
  for (const value of x) sum += Math.exp(value - largest);
  return largest + Math.log(sum);
}

export function softmax(x) {
  const all = logSumExp(x);
  return Float32Array.from(x, (value) => Math.exp(value - all));
}

/** Places of the `count` largest numbers, largest first; of equals, the one that comes first. */
export function largest(x, count) {
  const best = [];
  for (let i = 0; i < x.length; i++) {
    if (best.length === count && !(x[i] > x[best[count - 1]])) continue;
    let at = best.length;
    while (at > 0 && x[i] > x[best[at - 1]]) at--;
    best.splice(at, 0, i);
    if (best.length > count) best.pop();
  }
  return best;
}

/** A number with so many digits, as Python's %g has it. */
export function general(x, digits = 4) {
  const [mantissa, power] = x.toExponential(digits - 1).split("e"), place = Number(power);
  if (place >= -4 && place < digits) return String(Number(x.toPrecision(digits)));
  return `${Number(mantissa)}e${place < 0 ? "-" : "+"}${String(Math.abs(place)).padStart(2, "0")}`;
}
