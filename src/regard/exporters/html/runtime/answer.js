// From what is given to an answer, with a record of where the model looked: what regard.look makes in Python.
import { loadModel } from "./load.js";
import { Trace } from "./module.js";
import { pooled, tables } from "./record.js";
import { END, START, beamSearch } from "./search.js";
import { Tokenizer, special } from "./tokenizer.js";
import { largest, logSumExp, sigmoid, softmax } from "./vectors.js";
import { weightOf } from "./weight.js";

const MOST = 5; // tokens that are told of as probable at a step
const MOST_WINDOWS = 32; // as in regard.tasks.result

const axis = (tokens, text = "", more = {}) => ({ tokens, text, grid: null, times: null, after: 0, ...more });

/** What comes in: `read` makes what the model takes, and `axis` what stands beside a picture of attention. */
const INPUTS = {
  text(how) {
    const tokenizer = new Tokenizer(how.tokenizer), { vocabulary } = tokenizer;
    const framed = (ids) => [...how.first, ...ids, how.end];
    return {
      read: (text) => framed(tokenizer.encode(text).slice(0, how.max_length ?? undefined)),
      windows: (text) => windows(tokenizer.encode(text), how.max_length ?? Infinity, how.windows ? MOST_WINDOWS : 1).map(framed),
      axis: (ids) => {
        const inner = ids.slice(how.first.length, -1);
        return axis([...how.first.map((id) => special(vocabulary[id])), ...tokenizer.tokens(inner), special(vocabulary[how.end])], tokenizer.decode(inner));
      },
    };
  },
  image: (how) => ({
    read: ({ pixels, image }) => ({ channels: how.channels, rows: how.height, columns: how.width, data: pixels, image }),
    axis: ({ image, rows, columns }, grid) => axis(Array.from({ length: grid[0] * grid[1] }, (_, k) => ({
      ...special(`row ${Math.floor(k / grid[1]) + 1}, column ${(k % grid[1]) + 1}`), special: false,
    })), "", { grid, image, size: [rows, columns] }),
  }),
  prompt(how) {
    const tokenizer = new Tokenizer(how.tokenizer);
    return { read: (text) => [...how.first, ...tokenizer.encode(text)] };
  },
};

/**
 * What comes out. `answer(read, options)` gives {output, score, scores, next_tokens, said, axes, attentions}; `logits(read, ids)`
 * what is told before each of the ids (of labels: once), for those who check a page.
 */
const OUTPUTS = {
  text(how, model, input) {
    const tokenizer = new Tokenizer(how.tokenizer);
    const told = (memory, ids) => steps(model, model.decoder.start(memory), [START, ...ids.slice(0, -1)]);
    return {
      logits: (read, ids) => told(model.encoder.forward(read), ids),
      answer(read, { prefix = "" }) {
        const { tokens, score } = beamSearch(model, model.start(read), how, tokenizer.encode(prefix))[0];
        const trace = new Trace(), ids = [...tokens, END], output = tokenizer.decode(tokens), written = tokenizer.tokens(tokens);
        const [grid, rows] = trace.during(() => {
          const memory = model.encoder.forward(read);
          return [memory.grid, told(memory, ids)];
        });
        return {
          output, score, said: null, attentions: tables(trace),
          scores: rows.map((row, t) => row[ids[t]]),
          next_tokens: rows.map((row, t) => probable(row, ids.slice(0, t), tokenizer)),
          axes: {
            source: input.axis(read, grid),
            target: axis([...written, special("</s>")], output),
            read: axis([special("<s>"), ...written], output),
          },
        };
      },
    };
  },

  continuation(how, model) {
    const tokenizer = new Tokenizer(how.tokenizer), text = (ids) => tokenizer.decode(ids.slice(how.first));
    return {
      logits: (read, ids) => steps(model, model.start(), [...read, ...ids].slice(0, -1)),
      answer(read, { temperature = 0, most = how.max_length, random = Math.random }) {
        const ids = [...read], trace = new Trace(), scores = [], next_tokens = [];
        const last = Math.min(how.context, read.length + most - 1);
        let state = model.start(), row, score = 0;
        for (let at = 0; at < last && at < ids.length && ids[at] !== how.end; at++) {
          [row, state] = trace.during(() => next(model, ids[at], state));
          next_tokens.push(probable(row, ids.slice(0, at + 1), tokenizer));
          if (at === ids.length - 1) {
            for (const token of how.forbidden) row[token] = -Infinity;
            ids.push(temperature > 0 ? drawn(row, temperature, random) : largest(row, 1)[0]);
            score += row[ids[at + 1]];
          }
          scores.push(row[ids[at + 1]]);
        }
        const told = ids.slice(1, scores.length + 1), before = ids.slice(0, scores.length);
        return {
          output: text(ids).slice(text(read).length), score, scores, next_tokens, said: null, attentions: tables(trace),
          axes: { target: axis(tokenizer.tokens(told), tokenizer.decode(told)), read: axis(tokenizer.tokens(before), tokenizer.decode(before)) },
        };
      },
    };
  },

  labels: (how, model, input) => ({
    logits: (read) => [model.logits(read)],
    answer(read, { windows = [read] }) {
      const trace = new Trace(), first = trace.during(() => model.logits(read));
      const rows = [first, ...windows.slice(1).map((window) => model.logits(window))];
      const logits = first.map((_, n) => rows.reduce((sum, row) => sum + row[n], 0) / rows.length);
      const chances = how.several ? logits.map(sigmoid) : softmax(logits), order = largest(chances, chances.length);
      const given = how.several ? order.filter((n) => chances[n] >= how.threshold) : order.slice(0, 1);
      const output = given.map((n) => how.names[n]).join(how.separator ?? ""), score = Math.log(chances[order[0]]);
      const source = input.axis(read, how.grid), all = tables(trace), own = all.some(({ role }) => role === "pooling");
      if (!own && all.some(({ shape }) => shape[2] === source.tokens.length + 1)) source.tokens.unshift(special("[CLS]"));
      return {
        output, score, scores: [score], next_tokens: [],
        said: { kind: "labels", names: order.map((n) => how.names[n]), values: order.map((n) => chances[n]) },
        attentions: pooled(all, source.tokens.length, how.class_token, own),
        axes: { source, target: axis([{ text: output, span: [0, [...output].length], word: 0, special: false, unknown: false }], output) },
      };
    },
  }),
};

/** Windows of a long text, as `regard.data.windows` cuts them: a quarter overlaps; at most `most`, evenly spread. */
function windows(ids, size, most) {
  const step = Math.max(1, size - Math.floor(size / 4)), found = [];
  for (let start = 0; !found.length || start - step + size < ids.length; start += step) found.push(ids.slice(start, start + size));
  let every = 1;
  while (Math.ceil(found.length / every) > most) every *= 2;
  return found.filter((_, number) => number % every === 0);
}

/** log p of every next token, after each of these. */
function steps(model, state, tokens) {
  return tokens.map((token) => {
    const [row, after] = next(model, token, state);
    state = after;
    return row;
  });
}

/** One step of one text: log-probabilities of the next token, and the state after it. */
function next(model, token, state) {
  const [features, after] = model.step([token], state), [logits] = model.logits(features), all = logSumExp(logits);
  return [logits.map((value) => value - all), after];
}

/** The likeliest tokens, and what each would add to the text. */
function probable(logits, before, tokenizer) {
  const begin = tokenizer.decode(before).length;
  return largest(logits, MOST).map((id) => ({
    text: tokenizer.tokens([id])[0].text, piece: tokenizer.decode([...before, id]).slice(begin), log_probability: logits[id],
  }));
}

/** One of the tokens by chance, p ∝ exp(logits / temperature). */
function drawn(logits, temperature, random) {
  let left = random();
  const place = softmax(logits.map((value) => value / temperature)).findIndex((chance) => (left -= chance) < 0);
  return place < 0 ? largest(logits, 1)[0] : place;
}

/** A model of a page, ready to be asked. */
export class Exported {
  constructor({ model, input, output }) {
    this.input = INPUTS[input.kind](input);
    this.output = OUTPUTS[output.kind](output, loadModel(model), this.input);
  }

  answer(given, options = {}) {
    return this.output.answer(this.input.read(given), { windows: this.input.windows?.(given), ...options });
  }

  /** How a weight of an answer came about; `kinds`: what each kind of attention is called. */
  weight(answer, kinds, cell) {
    return weightOf(answer, kinds, cell);
  }

  /** The largest difference to logits that Python found, and where it is. */
  difference(given, ids, expected) {
    let most = 0, place = "logits";
    this.output.logits(this.input.read(given), ids).forEach((row, t) => row.forEach((value, v) => {
      const apart = Math.abs(value - expected[t * row.length + v]);
      if (apart > most || Number.isNaN(apart)) [most, place] = [apart, `logits[${t}, ${v}]`];
    }));
    return { difference: most, place };
  }
}
