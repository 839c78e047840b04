// How well does a query match a key? `asked` and `prepared` are the work on each of them alone, `of` brings them together.
import { Module } from "./module.js";
import { beside, dot, linear, times } from "./vectors.js";

/** e = q · k */
export class Dot extends Module {
  asked(query) {
    return query;
  }

  prepared(key) {
    return key;
  }

  of(query, key) {
    return dot(query, key);
  }
}

/** e = q · k / √d */
export class ScaledDot extends Dot {
  asked(query) {
    return times(query, 1 / Math.sqrt(query.length));
  }
}

/** e = q W kᵀ */
export class Bilinear extends Dot {
  prepared(key) {
    return linear([key], this.weight)[0];
  }
}

/** e = cos(q, k) / τ */
export class Cosine extends Dot {
  asked(query) {
    return times(this.prepared(query), 1 / Math.exp(this.log_temperature.data[0]));
  }

  prepared(key) {
    return times(key, 1 / Math.max(Math.sqrt(dot(key, key)), 1e-6));
  }
}

/** e = w_qᵀ q + w_kᵀ k + wᵀ (q ∘ k) */
export class Trilinear extends Dot {
  asked(query) {
    const both = this.both.data;
    return beside(query.map((value, i) => value * both[i]), [dot(query, this.query.data), 1]);
  }

  prepared(key) {
    return beside(key, [1, dot(key, this.key.data)]);
  }
}

/** e = wᵀ tanh(W_q q + W_k k) */
export class Additive extends Module {
  asked(query) {
    return this.query.one(query);
  }

  prepared(key) {
    return this.key.one(key);
  }

  of(query, key) {
    const weight = this.weight.data;
    let sum = 0;
    for (let i = 0; i < weight.length; i++) sum += weight[i] * Math.tanh(query[i] + key[i]);
    return sum;
  }
}

/** e = wᵀ tanh(W [q; k]), where W [q; k] = W_q q + W_k k */
export class Concat extends Additive {
  asked(query) {
    return this.hidden.one(beside(query, new Float32Array(this.widths[1])));
  }

  prepared(key) {
    return this.hidden.one(beside(new Float32Array(this.widths[0]), key));
  }
}
