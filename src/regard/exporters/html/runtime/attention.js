// Attention: scores, softmax, the weighted sum of values. One head, and many of them.
import { Module, Trace } from "./module.js";
import { Linear } from "./layers.js";
import { beside, linear, softmax } from "./vectors.js";

/** c = Σ_j a_j v_j, a = softmax(e); keys are prepared. Returns the context, the weights, and all that they came from. */
export function attend(score, query, keys, values, bias = null) {
  const asked = score.asked(query);
  const scores = keys.map((key, j) => score.of(asked, key) + (bias ? bias(j) : 0)), weights = softmax(scores);
  const context = new Float64Array(values[0].length);
  for (let j = 0; j < values.length; j++) {
    const value = values[j], share = weights[j];
    for (let i = 0; i < context.length; i++) context[i] += share * value[i];
  }
  return [Float32Array.from(context), weights, { score, query: asked, keys, values, bias, scores, weights }];
}

/** attend(f_q(x), f_k(memory), f_v(memory)): the general layer, one head. */
export class Attention extends Module {
  forward(xs, memory) {
    const keys = this.key.forward(memory).map((key) => this.score.prepared(key)), values = this.value.forward(memory);
    const seen = this.query.forward(xs).map((query) => attend(this.score, query, keys, values));
    Trace.now?.keep(this, seen.map(([, weights]) => [weights]), seen.map(([, , how]) => ({ heads: [how] })));
    return seen.map(([context]) => context);
  }
}

/** head_h = attend(x W_q, m W_k, m W_v), y = [head_1; …; head_H] W_o. Keys and values: a list of heads for each place. */
export class MultiHead extends Module {
  /** Every x looks at all of them, or with `causal` at none that comes later. */
  forward(xs, causal = false) {
    const [queries, memory] = this.#projected(xs, 0);
    return this.#attend(queries, queries.map((_, t) => (causal ? this.#first(memory, t + 1) : memory)));
  }

  /** The next x of each of several texts, after its past; returns the outputs and the pasts with these in them. */
  step(xs, pasts) {
    const start = pasts[0].keys.length, [queries, news] = this.#projected(xs, start, true);
    const after = pasts.map(({ keys, values }, n) => ({ keys: [...keys, news.keys[n]], values: [...values, news.values[n]] }));
    return [this.#attend(queries, after), after];
  }

  /** What looks at a memory that is shared by all. */
  cross(xs, memory) {
    const queries = linear(xs, this.project.weight, this.project.bias).map((x) => this.#heads(x, this.heads));
    return this.#attend(queries, queries.map(() => memory));
  }

  memory(vectors) {
    const [, keys] = this.sizes;
    const both = this.project_kv.forward(vectors);
    return {
      keys: both.map((x) => this.#prepared(this.#heads(x.subarray(0, keys), this.kv_heads))),
      values: both.map((x) => this.#heads(x.subarray(keys), this.kv_heads)),
    };
  }

  #projected(xs, start, together = false) {
    const [queries, keys] = this.sizes, all = this.project.forward(xs);
    const turn = (heads, t) => (this.rotary ? heads.map((head) => this.rotary.turned(head, t)) : heads);
    const place = (n) => start + (together ? 0 : n);
    return [
      all.map((x, n) => turn(this.#heads(x.subarray(0, queries), this.heads), place(n))),
      {
        keys: all.map((x, n) => this.#prepared(turn(this.#heads(x.subarray(queries, queries + keys), this.kv_heads), place(n)))),
        values: all.map((x) => this.#heads(x.subarray(queries + keys), this.kv_heads)),
      },
    ];
  }

  #attend(queries, memories) {
    const group = this.heads / this.kv_heads, rows = [], hows = [];
    const contexts = queries.map((heads, n) => {
      const { keys, values } = memories[n], last = keys.length - 1;
      const asks = queries.length === keys.length ? n : last; // its place, for positions by distance
      const seen = heads.map((query, h) => {
        const kv = Math.floor(h / group), bias = this.relative ? (j) => this.relative.between(h, asks, j) : null;
        return attend(this.score, query, keys.map((key) => key[kv]), values.map((value) => value[kv]), bias);
      });
      rows.push(seen.map(([, weights]) => weights));
      hows.push({ heads: seen.map(([, , how]) => how), out: this.out.weight });
      return beside(...seen.map(([context]) => context));
    });
    Trace.now?.keep(this, rows, hows);
    return this.out.forward(contexts);
  }

  #first = ({ keys, values }, count) => ({ keys: keys.slice(0, count), values: values.slice(0, count) });
  #prepared = (heads) => heads.map((head) => this.score.prepared(head));
  #heads(x, count) {
    const width = x.length / count;
    return Array.from({ length: count }, (_, h) => x.subarray(h * width, (h + 1) * width));
  }
}

/** How much of what was looked at is let through. */
export class Gate extends Linear {}
