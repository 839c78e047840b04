// Recurrent cells, the encoder that reads in both directions, and the decoder with its four ways to the memory.
import { attend } from "./attention.js";
import { Module, Trace } from "./module.js";
import { beside, linear, sigmoid, tanh, times } from "./vectors.js";

/** Layers of cells over x_1 … x_T, or one step of them. A state is [h] or [h, c], a list of layers of vectors each. */
class Cells extends Module {
  start() {
    const zeros = () => Array.from({ length: this.num_layers }, () => new Float32Array(this.hidden_size));
    return Array.from({ length: this.kept }, zeros);
  }

  /** One step for each of several rows; `states` are theirs. */
  step(xs, states) {
    const after = states.map((state) => state.map(() => []));
    for (let layer = 0; layer < this.num_layers; layer++) {
      const part = (name) => this[`${name}_l${layer}`];
      const given = linear(xs, part("weight_ih"), part("bias_ih"));
      const before = linear(states.map(([hidden]) => hidden[layer]), part("weight_hh"), part("bias_hh"));
      xs = given.map((x, n) => {
        const now = this.cell(x, before[n], states[n].map((kept) => kept[layer]));
        now.forEach((vector, k) => after[n][k].push(vector));
        return now[0];
      });
    }
    return [xs, after];
  }

  forward(xs) {
    let states = [this.start()];
    return xs.map((x) => {
      const [[y], after] = this.step([x], states);
      states = after;
      return y;
    });
  }
}

/** h ← (1 − z) n + z h,  n = tanh(W x + r ∘ U h) */
export class GRU extends Cells {
  kept = 1;

  cell(x, u, [hidden]) {
    const width = hidden.length;
    return [hidden.map((value, i) => {
      const r = sigmoid(x[i] + u[i]), z = sigmoid(x[width + i] + u[width + i]);
      const n = Math.tanh(x[2 * width + i] + r * u[2 * width + i]);
      return (1 - z) * n + z * value;
    })];
  }
}

/** c ← f ∘ c + i ∘ g,  h = o ∘ tanh(c) */
export class LSTM extends Cells {
  kept = 2;

  cell(x, u, [hidden, cell]) {
    const width = hidden.length, at = (k, i) => x[k * width + i] + u[k * width + i];
    const now = cell.map((value, i) => sigmoid(at(1, i)) * value + sigmoid(at(0, i)) * Math.tanh(at(2, i)));
    return [now.map((value, i) => sigmoid(at(3, i)) * Math.tanh(value)), now];
  }
}

export class RecurrentEncoder extends Module {
  forward(tokens) {
    let xs = this.embedding.forward(tokens);
    this.ahead.forEach((ahead, layer) => {
      const forth = ahead.forward(xs);
      const back = this.back[layer]?.forward([...xs].reverse()).reverse();
      xs = back ? forth.map((x, t) => beside(x, back[t])) : forth;
    });
    const own = this.width / 2, last = xs.at(-1);
    return { vectors: xs, summary: this.back.length ? beside(last.subarray(0, own), xs[0].subarray(own)) : last };
  }
}

/** s_0 = tanh(W summary); f_t = tanh(W_f [s_t; c_t; x_t]); see decoders/recurrent.py for the four contexts. */
export class RecurrentDecoder extends Module {
  start(memory) {
    const first = tanh(this.begin.one(memory.summary)), size = this.depth * this.width;
    const layers = (part) => Array.from({ length: this.depth }, (_, l) => part.subarray(l * this.width, (l + 1) * this.width));
    const states = [Array.from({ length: first.length / size }, (_, k) => layers(first.subarray(k * size, (k + 1) * size)))];
    return {
      rows: 1,
      states,
      fed: this.input_feeding ? [new Float32Array(this.feature_width)] : null,
      keys: this.attention ? memory.vectors.map((vector) => this.attention.prepared(vector)) : null,
      values: memory.vectors,
      summary: memory.summary,
    };
  }

  step(tokens, state) {
    const xs = this.embedding.forward(tokens, 0);
    let contexts = null, inputs = xs;
    if (this.context === "previous") contexts = this.#look(state.states.map(([hidden]) => hidden.at(-1)), state);
    if (this.context === "constant") contexts = xs.map(() => state.summary);
    if (contexts) inputs = xs.map((x, n) => beside(x, contexts[n]));
    else if (state.fed) inputs = xs.map((x, n) => beside(x, state.fed[n]));
    const [tops, states] = this.rnn.step(inputs, state.states);
    if (this.context === "current") contexts = this.#look(tops, state);
    const read = tops.map((top, n) => (contexts ? beside(top, contexts[n], xs[n]) : beside(top, xs[n])));
    const features = this.readout.forward(read).map(tanh);
    return [features, { ...state, states, rows: tokens.length, fed: state.fed && features }];
  }

  select(state, rows) {
    const taken = (kept) => rows.map((row) => kept[row]);
    return { ...state, rows: rows.length, states: taken(state.states), fed: state.fed && taken(state.fed) };
  }

  #look(queries, { keys, values }) {
    const seen = queries.map((query) => attend(this.attention, query, keys, values));
    const shares = queries.map((query) => (this.gate ? sigmoid(this.gate.one(query)[0]) : 1)); // let through by a gate
    const hows = seen.map(([, , how], n) => ({ heads: [how], gate: this.gate ? shares[n] : null }));
    Trace.now?.keep(this.attention, seen.map(([, weights], n) => [times(weights, shares[n])]), hows);
    return seen.map(([context], n) => times(context, shares[n]));
  }
}
