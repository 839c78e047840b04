// Beam search, token by token; see generation/beam.py. Beam 1 is greedy search.
import { largest, logSumExp } from "./vectors.js";

export const [PAD, UNK, START, END] = [0, 1, 2, 3];

/**
 * The hypotheses of one input, best first: {tokens, score, log_probability}. `how`: beam, max_length, min_length, alpha,
 * gnmt, forbidden; `prefix`: tokens that the output begins with.
 */
export function beamSearch(model, state, how, prefix = []) {
  const penalty = (length) => (how.gnmt ? (5 + length) / 6 : length) ** how.alpha;
  const finished = [];
  let open = [{ tokens: [], total: 0 }];
  for (let step = 0; step <= how.max_length; step++) {
    const [features, after] = model.step(open.map(({ tokens }) => tokens.at(-1) ?? START), state);
    const candidates = model.logits(features).flatMap((logits, row) => {
      const offset = open[row].total - logSumExp(logits);
      allow(logits, step, how, prefix);
      return largest(logits, 2 * how.beam).map((token) => ({ row, token, total: offset + logits[token] }));
    });
    candidates.sort((a, b) => b.total - a.total);
    const best = candidates.filter(({ total }) => total > -Infinity).slice(0, 2 * how.beam);
    for (const { row, token, total } of best.slice(0, how.beam)) {
      if (token === END) finished.push({ tokens: open[row].tokens, score: total / penalty(step + 1), log_probability: total });
    }
    finished.sort((a, b) => b.score - a.score);
    const going = best.filter(({ token }) => token !== END).slice(0, how.beam);
    const hope = going.length ? going[0].total / penalty(how.max_length + 1) : -Infinity;
    if (!going.length || finished.length >= how.beam || (finished.length >= how.n_best && finished[how.n_best - 1].score >= hope)) break;
    state = model.select(after, going.map(({ row }) => row));
    open = going.map(({ row, token, total }) => ({ tokens: [...open[row].tokens, token], total }));
  }
  return finished;
}

/** −∞ over whatever may not be said at this step. */
export function allow(logits, step, { max_length, min_length, forbidden }, prefix) {
  for (const token of forbidden) logits[token] = -Infinity;
  if (step < min_length) logits[END] = -Infinity;
  const only = step >= max_length ? END : step < prefix.length ? prefix[step] : null;
  if (only === null) return;
  const kept = logits[only];
  logits.fill(-Infinity);
  logits[only] = kept;
}
