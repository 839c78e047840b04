// Where things are: positions that are added to vectors (or stand beside them), and those inside the score.
import { Module } from "./module.js";
import { beside, plus } from "./vectors.js";

/** PE(t, 2i) = sin(t / 10000^{2i/d}), PE(t, 2i+1) = cos(t / 10000^{2i/d}) */
export function sinusoid(t, width) {
  return Float32Array.from({ length: width }, (_, i) => {
    const angle = t * 10000 ** (-(i - (i % 2)) / width);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

const combined = (x, position, combine) => (combine === "concat" ? beside(x, position) : plus(x, position));

export class Sinusoidal extends Module {
  forward(xs, start) {
    return xs.map((x, t) => combined(x, sinusoid(start + t, this.width), this.combine));
  }
}

export class Learned extends Module {
  forward(xs, start) {
    const [length, width] = this.table.shape;
    if (start + xs.length > length) throw new RangeError(`This model knows ${length} positions, and the text needs more.`);
    return xs.map((x, t) => combined(x, this.table.data.subarray((start + t) * width, (start + t + 1) * width), this.combine));
  }
}

/** Sinusoids of the row beside sinusoids of the column, row by row. */
export class SinusoidalGrid extends Module {
  forward(xs, [, columns]) {
    const half = this.width >> 1;
    return xs.map((x, k) => {
      const place = beside(sinusoid(Math.floor(k / columns), half), sinusoid(k % columns, this.width - half));
      return combined(x, place, this.combine);
    });
  }
}

/** Pairs of features turned by t times their frequency, so that q · k depends on the distance only. */
export class Rotary extends Module {
  turned(x, t) {
    const count = this.frequency.data.length, y = new Float32Array(x.length);
    for (let i = 0; i < count; i++) {
      const angle = Math.fround(t * this.frequency.data[i]), [cos, sin] = [Math.cos(angle), Math.sin(angle)];
      const [a, b] = this.halves ? [i, i + count] : [2 * i, 2 * i + 1];
      y[a] = x[a] * cos - x[b] * sin;
      y[b] = x[a] * sin + x[b] * cos;
    }
    return y;
  }
}

/** −slope · |distance| on the scores of each head. */
export class Alibi extends Module {
  between(head, query, key) {
    return -this.slopes.data[head] * Math.abs(query - key);
  }
}

/** T5: one number for each head and bucket of distances; near ones have a bucket each, far ones share. */
export class RelativeBias extends Module {
  between(head, query, key) {
    return this.bias.data[head * this.buckets + this.#bucket(key - query)];
  }

  #bucket(distance) {
    const count = this.both_ways ? this.buckets >> 1 : this.buckets, first = this.both_ways && distance > 0 ? count : 0;
    const steps = this.both_ways ? Math.abs(distance) : Math.max(0, -distance), exact = count >> 1;
    if (steps < exact) return first + steps;
    const share = Math.fround(Math.log(Math.fround(steps / exact))) / Math.log(this.farthest / exact);
    return first + Math.min(exact + Math.trunc(share * (count - exact)), count - 1);
  }
}
