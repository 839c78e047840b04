// How well does a query match a key? `asked` and `prepared` are the work on each of them alone, `of` brings them together.
import { Module } from "./module.js";
import { beside, dot, general, largest, linear, sum, times } from "./vectors.js";

/** e = q · k */
export class Dot extends Module {
  equation = "e = q kᵀ";

  asked(query) {
    return query;
  }

  prepared(key) {
    return key;
  }

  of(query, key) {
    return dot(query, key);
  }

  /** The query as it is compared, without the scale that was put into it. */
  compared(query) {
    return query;
  }

  /** What the score is the sum of. */
  terms(query, key) {
    return Array.from(query, (value, i) => value * key[i]);
  }

  /** The equation's right side with the numbers of one query and one key; empty if that is the score itself. */
  numbers() {
    return "";
  }
}

/** e = q · k / √d */
export class ScaledDot extends Dot {
  equation = "e = q kᵀ / √d";

  compared(query) {
    return times(query, Math.sqrt(query.length));
  }

  numbers(query, key) {
    return `${general(dot(this.compared(query), key))} / √${query.length}`;
  }

  asked(query) {
    return times(query, 1 / Math.sqrt(query.length));
  }
}

/** e = q W kᵀ */
export class Bilinear extends Dot {
  equation = "e = q W kᵀ";

  prepared(key) {
    return linear([key], this.weight)[0];
  }
}

/** e = cos(q, k) / τ */
export class Cosine extends Dot {
  equation = "e = cos(q, k) / τ";

  numbers(query, key) {
    const temperature = Math.exp(this.log_temperature.data[0]);
    return `${general(dot(query, key) * temperature)} / ${general(temperature)}`;
  }

  asked(query) {
    return times(this.prepared(query), 1 / Math.exp(this.log_temperature.data[0]));
  }

  prepared(key) {
    return times(key, 1 / Math.max(Math.sqrt(dot(key, key)), 1e-6));
  }
}

/** e = w_qᵀ q + w_kᵀ k + wᵀ (q ∘ k) */
export class Trilinear extends Dot {
  equation = "e = w_qᵀ q + w_kᵀ k + wᵀ (q ∘ k)";

  numbers(query, key) {
    const terms = this.terms(query, key), [ofQuery, ofKey] = terms.splice(-2);
    return [ofQuery, ofKey, sum(terms)].map((number) => general(number)).join(" + ");
  }

  asked(query) {
    const both = this.both.data;
    return beside(query.map((value, i) => value * both[i]), [dot(query, this.query.data), 1]);
  }

  prepared(key) {
    return beside(key, [1, dot(key, this.key.data)]);
  }
}

/** e = w₂ᵀ tanh(W_q q + W_k k) */
export class Additive extends Module {
  equation = "e = w₂ᵀ tanh(W_q q + W_k k)";

  asked(query) {
    return this.query.one(query);
  }

  prepared(key) {
    return this.key.one(key);
  }

  of(query, key) {
    const weight = this.weight.data;
    let total = 0;
    for (let i = 0; i < weight.length; i++) total += weight[i] * Math.tanh(query[i] + key[i]);
    return total;
  }

  compared(query) {
    return query;
  }

  terms(query, key) {
    return Array.from(this.weight.data, (weight, i) => weight * Math.tanh(query[i] + key[i]));
  }

  /** The terms that contribute most, and the sum of the others. */
  numbers(query, key) {
    const terms = this.terms(query, key), most = largest(terms.map(Math.abs), 3), others = terms.length - most.length;
    const shown = most.map((n) => `${general(this.weight.data[n], 3)}·tanh(${general(query[n], 3)} + ${general(key[n], 3)})`);
    const rest = sum(terms) - sum(most.map((n) => terms[n]));
    return [...shown, ...(others ? [`${general(rest, 3)} of ${others} other terms`] : [])].join(" + ");
  }
}

/** e = w₂ᵀ tanh(W₁ [q; k]), where W₁ [q; k] = W_q q + W_k k */
export class Concat extends Additive {
  equation = "e = w₂ᵀ tanh(W₁ [q; k])";

  asked(query) {
    return this.hidden.one(beside(query, new Float32Array(this.widths[1])));
  }

  prepared(key) {
    return this.hidden.one(beside(new Float32Array(this.widths[0]), key));
  }
}
