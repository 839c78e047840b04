// The small layers: linear, embedding, norms, feed-forward.
import { Module } from "./module.js";
import { linear, plus, sigmoid, times } from "./vectors.js";

export class Linear extends Module {
  forward(xs) {
    return linear(xs, this.weight, this.bias);
  }

  one(x) {
    return this.forward([x])[0];
  }
}

export class Identity extends Module {
  forward(x) {
    return x;
  }
}

export class Sequential extends Module {
  forward(x) {
    for (const part of this.parts) x = part.forward(x);
    return x;
  }
}

/** x_t = √D · E[y_t] + position_t */
export class Embedding extends Module {
  forward(tokens, start = 0) {
    const width = this.table.shape[1], scale = this.scaled ? Math.sqrt(this.width) : 1;
    const xs = tokens.map((token) => times(this.table.data.subarray(token * width, (token + 1) * width), scale));
    return this.positions ? this.positions.forward(xs, start) : xs;
  }
}

/** γ · (x − mean) / √(variance + ε) + β */
export class LayerNorm extends Module {
  forward(xs) {
    const gain = this.weight.data, shift = this.bias?.data;
    return xs.map((x) => {
      let sum = 0, squares = 0;
      for (const value of x) sum += value;
      const mean = sum / x.length;
      for (const value of x) squares += (value - mean) ** 2;
      const scale = 1 / Math.sqrt(squares / x.length + this.eps);
      return x.map((value, i) => (value - mean) * scale * gain[i] + (shift ? shift[i] : 0));
    });
  }
}

/** γ · x / √(mean of x² + ε) */
export class RMSNorm extends Module {
  forward(xs) {
    const gain = this.weight.data;
    return xs.map((x) => {
      let squares = 0;
      for (const value of x) squares += value * value;
      const scale = 1 / Math.sqrt(squares / x.length + this.eps);
      return x.map((value, i) => value * scale * gain[i]);
    });
  }
}

/** The error function, by its series. */
export function erf(x) {
  const size = Math.abs(x);
  if (size > 5.5) return Math.sign(x);
  let term = size, sum = size; // Σ (−1)ⁿ x^(2n+1) / (n! (2n+1)), which double precision carries this far
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum) && n < 200; n++) {
    term *= (-size * size) / n;
    sum += term / (2 * n + 1);
  }
  return Math.sign(x) * Math.min(1, (2 / Math.sqrt(Math.PI)) * sum);
}

const ACTIVATIONS = {
  relu: (x) => Math.max(x, 0),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  swish: (x) => x * sigmoid(x),
};

/** W₂ f(W₁ x), or gated: W₂ (silu(W₁ x) · W₃ x) */
export class FeedForward extends Module {
  forward(xs) {
    const wide = this.widen.forward(xs).map((x) => {
      if (!this.gated) return x.map(ACTIVATIONS[this.activation]);
      const half = x.length / 2, value = x.subarray(half);
      return x.subarray(0, half).map((gate, i) => gate * sigmoid(gate) * value[i]);
    });
    return this.narrow.forward(wide);
  }
}

export const addTo = (xs, ys) => xs.map((x, i) => plus(x, ys[i]));
