// From what is given to an answer and a record of where the model looked, as regard.look makes it in Python.
import { loadModel } from "./load.js";
import { Trace } from "./module.js";
import { END, START, beamSearch } from "./search.js";
import { Tokenizer } from "./tokenizer.js";
import { largest, logSumExp, sigmoid, softmax } from "./vectors.js";

const special = (text) => ({ text, word: null, special: true });

/** What comes in: `read` makes what the model takes, and `axis` what stands beside a picture of attention. */
const INPUTS = {
  text: (how) => {
    const tokenizer = new Tokenizer(how.tokenizer), around = (ids) => [...how.first, ...ids, how.end];
    return {
      read: (text) => around(tokenizer.encode(text).slice(0, how.max_length ?? undefined)),
      axis: (ids) => ({ tokens: ids.map((id, n) => (n < how.first.length || n === ids.length - 1
        ? special(tokenizer.vocabulary[id]) : tokenizer.labels(ids.slice(how.first.length, -1))[n - how.first.length])) }),
      unknown: (text) => tokenizer.encode(text).filter((id) => id === tokenizer.unk).length,
    };
  },
  image: (how) => ({
    read: ({ pixels, image }) => ({ channels: how.channels, rows: how.height, columns: how.width, data: pixels, image }),
    axis: ({ image }, grid) => ({
      tokens: Array.from({ length: grid[0] * grid[1] }, (_, k) => ({ text: `row ${Math.floor(k / grid[1]) + 1}, column ${(k % grid[1]) + 1}`, word: null, special: false })),
      grid, image,
    }),
    unknown: () => 0,
  }),
  prompt: (how) => {
    const tokenizer = new Tokenizer(how.tokenizer);
    return { read: (text) => [...how.first, ...tokenizer.encode(text)], unknown: (text) => tokenizer.encode(text).filter((id) => id === tokenizer.unk).length };
  },
};

/** What comes out: `answer` gives {output, candidates, scores, axes, attentions}. */
const OUTPUTS = {
  text: (how, model, input) => {
    const tokenizer = new Tokenizer(how.tokenizer);
    return {
      answer(read, { prefix = "" } = {}) {
        const found = beamSearch(model, model.start(read), how, tokenizer.encode(prefix)).slice(0, how.n_best);
        const { tokens, ...rest } = found[0], told = [...tokens, END], steps = watched(model, read, told);
        return {
          ...rest, ...steps, output: tokenizer.decode(tokens), ids: tokens,
          candidates: found.map((one) => ({ text: tokenizer.decode(one.tokens), score: one.score, log_probability: one.log_probability })),
          axes: { source: input.axis(read, steps.grid), target: { tokens: [...tokenizer.labels(tokens), special("</s>")] },
            read: { tokens: [special("<s>"), ...tokenizer.labels(tokens)] } },
        };
      },
    };
  },
  continuation: (how, model) => {
    const tokenizer = new Tokenizer(how.tokenizer);
    return {
      answer(read, { temperature = 0, most = how.max_length, random = Math.random } = {}) {
        const ids = [...read], trace = new Trace();
        let state = model.start(), logits, total = 0, written = 0;
        const tell = (token) => trace.during(() => {
          const [features, after] = model.step([token], state);
          state = after;
          [logits] = model.logits(features);
        });
        const scores = [], next = [];
        for (let at = 0; at < ids.length && at < how.context && written < most; at++) {
          tell(ids[at]);
          const all = logSumExp(logits);
          next.push(likely(logits, all, tokenizer));
          if (at === ids.length - 1) {
            for (const token of how.forbidden) logits[token] = -Infinity;
            const token = temperature > 0 ? drawn(logits, temperature, random) : largest(logits, 1)[0];
            total += logits[token] - all;
            ids.push(token);
            written++;
          }
          scores.push(logits[ids[at + 1]] - all);
          if (ids[at + 1] === how.end) break;
        }
        const said = ids.slice(read.length).filter((id) => id !== how.end);
        const steps = ids.length - 1;
        return {
          output: tokenizer.decode(ids.slice(how.first)).slice(tokenizer.decode(read.slice(how.first)).length), ids: said, scores, next,
          score: total, log_probability: total, candidates: [],
          axes: { target: { tokens: tokenizer.labels(ids.slice(1)) }, read: { tokens: tokenizer.labels(ids.slice(0, steps)) } },
          attentions: tables(trace, steps),
        };
      },
    };
  },
  labels: (how, model, input) => ({
    answer(read) {
      const trace = new Trace();
      const logits = trace.during(() => model.logits(read));
      const chances = how.several ? logits.map(sigmoid) : softmax(logits), order = largest(chances, chances.length);
      const given = how.several ? order.filter((n) => chances[n] >= how.threshold) : order.slice(0, 1);
      const output = given.map((n) => how.names[n]).join(how.separator ?? "");
      const source = input.axis(read, how.grid), all = tables(trace), own = all.some((one) => one.role === "pooling");
      if (!own && all.some((one) => one.shape[2] === source.tokens.length + 1)) source.tokens.unshift(special("[CLS]"));
      return {
        output, ids: given, score: Math.log(chances[order[0]]), scores: [Math.log(chances[order[0]])],
        candidates: order.map((n) => ({ text: how.names[n], probability: chances[n] })),
        axes: { source, target: { tokens: [{ text: output, word: 0, special: false }] } },
        attentions: pooled(all, source.tokens.length, how.class_token, own),
      };
    },
  }),
};

/** The tokens of an output read one by one: log-probabilities, the five likeliest at each step, and all attention. */
function watched(model, read, told) {
  const trace = new Trace(), scores = [], next = [];
  let state = null, grid = null;
  trace.during(() => {
    const memory = model.encoder.forward(read);
    grid = memory.grid ?? null;
    state = model.decoder.start(memory);
    for (const [t, token] of told.entries()) {
      const [features, after] = model.step([t ? told[t - 1] : START], state), [logits] = model.logits(features), all = logSumExp(logits);
      state = after;
      scores.push(logits[token] - all);
      next.push(largest(logits, 5).map((id) => ({ id, probability: Math.exp(logits[id] - all) })));
    }
  });
  return { scores, next, grid, attentions: tables(trace, told.length) };
}

const likely = (logits, all, tokenizer) =>
  largest(logits, 5).map((id) => ({ id, text: tokenizer.labels([id])[0].text, probability: Math.exp(logits[id] - all) }));

/** One of the tokens by chance, p ∝ exp(logits / temperature). */
function drawn(logits, temperature, random) {
  const chances = softmax(logits.map((value) => value / temperature));
  let left = random();
  return Math.max(0, chances.findIndex((chance) => (left -= chance) < 0));
}

/** Heads × rows × columns of every attention that was traced; rows that saw less are filled with zeros. */
function tables(trace) {
  const axes = { encoder: ["source", "source"], decoder: ["target", "read"], cross: ["target", "source"], pooling: ["target", "source"] };
  return [...trace.seen].filter(([module]) => module.role).map(([{ role }, rows]) => {
    const heads = rows[0].length, columns = Math.max(...rows.map(([head]) => head.length));
    const weights = new Float32Array(heads * rows.length * columns);
    rows.forEach((row, q) => row.forEach((head, h) => weights.set(head, (h * rows.length + q) * columns)));
    const kind = role.kind === "pooling" ? "cross" : role.kind, [across, down] = axes[role.kind];
    return { name: `${role.kind} ${role.layer}`, kind, role: role.kind, layer: role.layer, rows: across, columns: down, shape: [heads, rows.length, columns], weights };
  });
}

/** What a label saw of the input, see look/pooled_attention.py. */
function pooled(all, length, classToken, own) {
  const seen = [], inside = [];
  for (const one of all) {
    const [heads, rows, columns] = one.shape, before = columns - length;
    if (before !== 0 && before !== 1) continue;
    const at = (h, q, k) => one.weights[(h * rows + q) * columns + k];
    const table = (count, f) => {
      const weights = new Float32Array(heads * count * length);
      for (let h = 0; h < heads; h++) for (let q = 0; q < count; q++) for (let k = 0; k < length; k++) weights[(h * count + q) * length + k] = f(h, q, k);
      return { shape: [heads, count, length], weights };
    };
    if (one.role === "pooling") {
      seen.push({ ...one, ...table(1, (h, _, k) => at(h, 0, k + before)) });
      continue;
    }
    inside.push({ ...one, ...table(length, (h, q, k) => at(h, q + before, k + before)) });
    const average = (h, _, k) => {
      let sum = 0;
      for (let q = before; q < rows; q++) sum += at(h, q, k + before);
      return sum / (rows - before);
    };
    const row = classToken ? (h, _, k) => at(h, 0, k + before) : average;
    if (!own) seen.push({ ...one, kind: "cross", rows: "target", ...table(1, row) });
  }
  return [...seen, ...inside];
}

/** A model of a page, ready to be asked. */
export class Exported {
  constructor({ model, input, output }) {
    this.model = loadModel(model);
    this.input = INPUTS[input.kind](input);
    this.output = OUTPUTS[output.kind](output, this.model, this.input);
  }

  answer(given, options = {}) {
    return this.output.answer(this.input.read(given), options);
  }
}
