// The Transformer: a block, the encoder of text, and the decoder that writes (with a memory, or alone).
import { addTo } from "./layers.js";
import { Module } from "./module.js";
import { mean, plus, tanh } from "./vectors.js";

/** Attention, cross-attention, feed-forward, each around a shortcut: x + f(norm(x)), or norm(x + f(x)). */
export class Block extends Module {
  forward(xs, causal = false) {
    xs = this.#around(this.attention_norm, xs, (ys) => this.attention.forward(ys, causal));
    return this.#around(this.feed_forward_norm, xs, (ys) => this.feed_forward.forward(ys));
  }

  /** The next vector of each text, after its past. */
  step(xs, pasts, memory) {
    let after;
    xs = this.#around(this.attention_norm, xs, (ys) => {
      const [out, now] = this.attention.step(ys, pasts);
      after = now;
      return out;
    });
    if (this.cross) xs = this.#around(this.cross_norm, xs, (ys) => this.cross.cross(ys, memory));
    return [this.#around(this.feed_forward_norm, xs, (ys) => this.feed_forward.forward(ys)), after];
  }

  #around(norm, xs, f) {
    return this.norm_first ? addTo(xs, f(norm.forward(xs))) : norm.forward(addTo(xs, f(xs)));
  }
}

export class TransformerEncoder extends Module {
  forward(tokens) {
    let xs = this.enter.forward(this.embedding.forward(tokens));
    for (const block of this.layers) xs = block.forward(xs);
    xs = this.norm.forward(xs);
    return { vectors: xs, summary: mean(xs) };
  }
}

/** x_t = norm(E[y_t] + position_t + segment_0); blocks; the summary is tanh(W x_0 + b), or without a pooler the mean. */
export class Bert extends Module {
  forward(tokens) {
    let xs = this.embedding.forward(tokens);
    if (this.types) xs = xs.map((x) => plus(x, this.types.data)); // one text is all of the first segment
    xs = this.embedding_norm.forward(xs);
    for (const block of this.layers) xs = block.forward(xs);
    xs = this.norm.forward(xs);
    return { vectors: xs, summary: this.pooler ? tanh(this.pooler.one(xs[0])) : mean(xs) };
  }
}

export class TransformerDecoder extends Module {
  start(memory = null) {
    return {
      rows: 1,
      length: 0,
      past: this.layers.map(() => [{ keys: [], values: [] }]),
      memory: this.layers.map((block) => (block.cross ? block.cross.memory(memory.vectors) : null)),
    };
  }

  step(tokens, state) {
    let xs = this.enter.forward(tokens.flatMap((token) => this.embedding.forward([token], state.length)));
    const past = this.layers.map((block, layer) => {
      const [out, after] = block.step(xs, state.past[layer], state.memory[layer]);
      xs = out;
      return after;
    });
    return [this.norm.forward(xs), { ...state, past, rows: tokens.length, length: state.length + 1 }];
  }

  select(state, rows) {
    return { ...state, rows: rows.length, past: state.past.map((layer) => rows.map((row) => layer[row])) };
  }
}
