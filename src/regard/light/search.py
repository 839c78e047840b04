"""Beam search over arrays: same equations and stopping rule as `regard.generation.beam`.

score(y) = log p(y | x) / |y|^α + coverage(y)      |y| counts the end symbol
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from regard.errors import CallError
from regard.generation.alignment import BLANK, NEVER
from regard.light.session import Arrays, OnnxSession, seen_in
from regard.special_tokens import END, PAD, START
from regard.work import before_step


@dataclass(frozen=True)
class LightPrefixes:
    """Prefix probabilities by CTC over arrays, with the equations of `regard.generation.ctc`.

    In N prefixes, the beams of a recording are adjacent, and each recording has the same number.
    """

    scores: np.ndarray  # B K V: log p[t, c]; beyond a recording's end, blank has probability 1
    likely: np.ndarray  # the same as probabilities
    row: np.ndarray  # N: the recording of each prefix
    in_token: np.ndarray  # N K: r_n
    in_blank: np.ndarray  # N K: r_b
    last: np.ndarray  # N
    psi: np.ndarray  # N

    @classmethod
    def start(cls, scores: np.ndarray) -> "LightPrefixes":
        """Return the empty prefix: blanks only."""
        in_blank = scores[:, :, BLANK].cumsum(1)
        row = np.arange(len(scores))
        never = np.full_like(in_blank, NEVER)
        return cls(
            scores, np.exp(scores), row, never, in_blank, np.full_like(row, START), np.zeros_like(in_blank[:, 0])
        )

    def select(self, rows: np.ndarray) -> "LightPrefixes":
        own = ("row", "in_token", "in_blank", "last", "psi")
        return replace(self, **{name: getattr(self, name)[rows] for name in own})

    def gains(self) -> np.ndarray:
        """log p(g c … | g …) for every next token c: N V."""
        either, rows = np.logaddexp(self.in_token, self.in_blank), np.arange(len(self.row))
        psi = self._sum(either)
        psi[rows, self.last] = self._sum(self.in_blank)[rows, self.last]
        psi[:, END] = either[:, -1]
        return psi - self.psi[:, None]

    def _sum(self, before: np.ndarray) -> np.ndarray:
        """log Σ_t e^{before[t−1]} p[t, c]"""
        before = self._late(before)
        highest = before.max(1, keepdims=True)
        rows = np.unique(self.row)
        size = np.exp(before - highest).reshape(len(rows), -1, before.shape[1])
        likely = self.likely if len(rows) == len(self.likely) else self.likely[rows]
        with np.errstate(divide="ignore"):
            total = np.log(np.matmul(size, likely)).reshape(len(self.row), -1)
        return np.maximum(total + highest, NEVER)

    def _late(self, phi: np.ndarray) -> np.ndarray:
        """φ[t − 1]: before the first frame, only the empty prefix has probability 1."""
        first = np.where(self.last == START, 0.0, NEVER).astype(phi.dtype)
        return np.concatenate([first[:, None], phi[:, :-1]], axis=1)

    def step(self, tokens: np.ndarray) -> "LightPrefixes":
        """Extend each prefix by one token."""
        either = np.logaddexp(self.in_token, self.in_blank)
        phi = self._late(np.where((tokens == self.last)[:, None], self.in_blank, either))
        said, blank = self.scores[self.row, :, tokens], self.scores[self.row, :, BLANK]
        in_token = in_blank = np.full_like(self.psi, NEVER)
        both = np.empty((2, *phi.shape), phi.dtype)
        for t in range(phi.shape[1]):
            in_token, in_blank = (
                np.logaddexp(in_token, phi[:, t]) + said[:, t],
                np.logaddexp(in_token, in_blank) + blank[:, t],
            )
            both[:, :, t] = in_token, in_blank
        in_token, in_blank = np.maximum(both, NEVER)
        psi = np.logaddexp.reduce(phi + said, axis=1)
        return replace(self, in_token=in_token, in_blank=in_blank, last=tokens, psi=psi)


# Constraints on the next token, and hypotheses: `regard.generation.engine` over arrays.


class LightHypothesis(NamedTuple):
    """One output. `log_probability` is the model's, including the end symbol; n-best lists are ordered by `score`."""

    tokens: list[int]  # without <s> and </s>
    score: float
    log_probability: float


@dataclass(frozen=True)
class LightRules:
    """Constraints of outputs. Lengths exclude the end symbol; `prefix` is forced."""

    max_length: int
    min_length: int = 0
    prefix: Sequence[int] = ()
    forbidden: Sequence[int] = (PAD, START)

    def __post_init__(self) -> None:
        if not 0 <= self.min_length <= self.max_length:
            raise CallError(f"min_length={self.min_length} must be between 0 and max_length={self.max_length}")
        if len(self.prefix) > self.max_length:
            raise CallError(f"the prefix has {len(self.prefix)} tokens: max_length={self.max_length} is too small")
        if any(token in (PAD, START, END, *self.forbidden) for token in self.prefix):
            raise CallError(f"the prefix contains a token that cannot be generated: {list(self.prefix)}")

    def apply(self, logits: np.ndarray, step: int) -> None:
        """Set forbidden tokens of this step to −∞, in place."""
        logits[:, list(self.forbidden)] = -np.inf
        if step < self.min_length:
            logits[:, END] = -np.inf
        forced = END if step >= self.max_length else self.prefix[step] if step < len(self.prefix) else None
        if forced is not None:
            kept = logits[:, forced].copy()
            logits[:] = -np.inf
            logits[:, forced] = kept


def normalizer(logits: np.ndarray) -> np.ndarray:
    """log Σ_v exp(logits_v)"""
    top = logits.max(axis=-1, keepdims=True)
    return np.log(np.exp(logits - top).sum(axis=-1)) + top[..., 0]


def beam(
    steps: Any, state: Any, rules: LightRules, *, size: int, n_best: int, alpha: float, coverage: float = 0.0,
    normalize: bool = True,
) -> list[list[LightHypothesis]]:  # fmt: skip
    """Return the `n_best` best hypotheses of each sentence (fewer if fewer exist), best first.

    steps       `Steps`, or a wrapper (`light/continuation.py`), with its state
    coverage    β; above 0, states are `CoveredState`
    normalize   False treats logits as scores of at most 0, which are added without normalization
    """
    width = 1
    finished: list[list[LightHypothesis]] = [[] for _ in range(state.rows)]
    sentences = np.arange(state.rows)
    open_score = np.zeros((state.rows, 1), np.float32)  # log-probabilities, sentences × width
    history = np.full((state.rows, 1, 1), START, np.int64)
    longest = (rules.max_length + 1) ** alpha
    for step in range(rules.max_length + 1):
        before_step(len(sentences) * width)
        logits, state = steps.step(history[:, :, -1].reshape(-1), state)
        offset = open_score - normalizer(logits).reshape(-1, width) if normalize else open_score
        rules.apply(logits, step)
        # 2 · size candidates a sentence: even if the `size` best of them end, `size` remain open
        total, origin, token = _top(logits.reshape(len(sentences), width, -1) + offset[:, :, None], 2 * size)

        ends = token == END
        for number, rank in zip(*np.nonzero(ends[:, :size] & (total[:, :size] > -np.inf)), strict=True):
            log_probability = float(total[number, rank])
            tokens = history[number, origin[number, rank], 1:].tolist()
            found, score = finished[sentences[number]], log_probability / (step + 1) ** alpha
            if coverage > 0.0:
                score += coverage * state.coverage(number * width + origin[number, rank])
            found.append(LightHypothesis(tokens, score, log_probability))
            found.sort(key=lambda one: -one.score)

        total = np.where(ends, -np.inf, total)
        kept = np.argsort(-total, axis=1, kind="stable")[:, :size]
        open_score, origin, token = (np.take_along_axis(one, kept, axis=1) for one in (total, origin, token))
        going = np.array([
            not _is_done(finished[sentence], size, n_best, float(best) / longest)
            for sentence, best in zip(sentences, open_score[:, 0], strict=True)
        ])  # fmt: skip
        if not going.any():
            break
        staying = np.flatnonzero(going)
        sentences, open_score, origin, token = sentences[going], open_score[going], origin[going], token[going]
        rows = (staying[:, None] * width + origin).reshape(-1)
        history = history.reshape(-1, history.shape[-1])[rows].reshape(*origin.shape, -1)
        history = np.concatenate([history, token[:, :, None]], axis=2)
        state, width = state.select(rows), origin.shape[1]
    return [found[:n_best] for found in finished]


def _is_done(finished: list[LightHypothesis], size: int, wanted: int, best_open: float) -> bool:
    """Whether the list is final: no open prefix can score above `best_open`."""
    if best_open == -math.inf or len(finished) >= size:
        return True
    return len(finished) >= wanted and finished[wanted - 1].score >= best_open


def _top(scores: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the `count` best of each R, best first: scores, indices in W, indices in V (R W V input)."""
    flat = scores.reshape(len(scores), -1)
    count = min(count, flat.shape[1])
    place = np.argpartition(-flat, count - 1, axis=1)[:, :count]
    best = np.take_along_axis(flat, place, axis=1)
    order = np.argsort(-best, axis=1, kind="stable")
    place, best = np.take_along_axis(place, order, axis=1), np.take_along_axis(best, order, axis=1)
    return best, place // scores.shape[2], place % scores.shape[2]


# Sampling of tokens: `regard.generation.sampling` over arrays, with the same random numbers as torch's generator.
#
# x ~ Mersenne Twister, 32 bits;    u = (x mod 2²⁴) / 2²⁴

APART = 1_000_003  # as in `regard.generation.sampling`


class Uniform:
    """Random numbers in [0, 1), in the order of `torch.Generator().manual_seed(seed)`."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.MT19937()
        self._bits._legacy_seeding(seed & 0xFFFFFFFF)

    def __call__(self, count: int) -> np.ndarray:
        raw = np.asarray(self._bits.random_raw(count), np.uint64)
        return ((raw & ((1 << 24) - 1)) / (1 << 24)).astype(np.float32)


def of_sentence(seed: int, number: int) -> Uniform:
    """Return the random numbers of a sampled output, as `regard.generation.sampling` has them."""
    return Uniform((seed * APART + number) % 2**63)


def generators(prompts: Sequence[Sequence[int]], seed: int) -> list[Uniform]:
    """Return one generator for each prompt, seeded by the seed and the prompt; equal prompts get different numbers."""
    seen: Counter[tuple[int, ...]] = Counter()
    made = []
    for prompt in map(tuple, prompts):
        digest = blake2b(f"{seed} {seen[prompt]} {prompt}".encode(), digest_size=8).digest()
        made.append(Uniform(int.from_bytes(digest, "little") >> 1))
        seen[prompt] += 1
    return made


def draw(logits: np.ndarray, uniform: np.ndarray, *, top_k: int = 0, top_p: float = 1.0) -> np.ndarray:
    """Return the token at which the cumulative probability, after top_k and top_p, exceeds `uniform`: N V, N → N."""
    names = None  # the token of each sorted column
    if top_k or top_p < 1.0:
        names = np.argsort(-logits, axis=1, kind="stable")[:, : top_k or None]
        logits = np.take_along_axis(logits, names, axis=1)
    mass = np.exp(logits - logits.max(axis=1, keepdims=True), dtype=np.float32)
    mass /= mass.sum(axis=1, keepdims=True)
    cumulative = mass.cumsum(axis=1)
    if top_p < 1.0:
        mass = np.where(cumulative - mass < top_p, mass, np.float32(0))  # the first token always stays
        cumulative = mass.cumsum(axis=1)
    target = uniform.astype(np.float32) * cumulative[:, -1]
    last = (mass > 0).cumsum(axis=1).argmax(axis=1)  # rounding at the end
    column = np.minimum((cumulative <= target[:, None]).sum(axis=1), last)
    return column if names is None else names[np.arange(len(names)), column]


# A step-by-step decoder of two graphs, with explicit state as in `regard.generation`.
#
# start(source) → State;    step(tokens, State) → logits, State;    log_probabilities(State, targets): of given
# outputs

NEXT = "next_"


@dataclass(frozen=True)
class GraphState:
    """N rows. `memory`: arrays of the sentence of each row (`owner`); `past`: arrays that a step changes. `beside`:
    other outputs of the encoder, a row for each source.
    """

    memory: Arrays
    past: Arrays
    owner: np.ndarray  # N
    row_axis: Mapping[str, int]  # the dimension of rows in each array
    seen: Arrays  # attention of the last step (at first, of the encoder), if watched
    beside: Arrays

    @property
    def rows(self) -> int:
        return len(self.owner)

    def select(self, rows: np.ndarray) -> "GraphState":
        """Keep, drop, repeat or reorder rows. Beams of a sentence share its memory, which is copied only if the
        owners change.
        """
        owner = self.owner[rows]
        same = len(owner) == len(self.owner) and bool((owner == self.owner).all())
        return replace(
            self, owner=owner, memory=self.memory if same else self._take_rows(self.memory, rows),
            past=self._take_rows(self.past, rows),
        )  # fmt: skip

    def _take_rows(self, arrays: Arrays, rows: np.ndarray) -> Arrays:
        return {name: array.take(rows, axis=self.row_axis.get(name, 0)) for name, array in arrays.items()}


class GraphSteps:
    def __init__(self, encoder: OnnxSession, decoder: OnnxSession, shapes: Mapping[str, Any]) -> None:
        """Create the decoder. `shapes`: shapes of the decoder's inputs, from graphs.json."""
        self._encoder, self._decoder = encoder, decoder
        self._row_axis = {name: about["shape"].index("rows") for name, about in shapes.items()}
        self._changing = [name.removeprefix(NEXT) for name in decoder.plain if name.startswith(NEXT)]

    def start(self, source: Arrays, *, watch: bool = False) -> GraphState:
        found = self._encoder(source, watch=watch)
        rows = np.arange(len(next(iter(source.values()))))
        state = {name: found[name] for name in self._encoder.plain}
        past = {name: state.pop(name) for name in self._changing}
        beside = {name: state.pop(name) for name in self._encoder.plain if name in state and name not in self._row_axis}
        return GraphState(state, past, rows, self._row_axis, seen_in(found), beside)

    def step(self, tokens: np.ndarray, state: GraphState, *, watch: bool = False) -> tuple[np.ndarray, GraphState]:
        out = self._decoder({"tokens": tokens, **state.memory, **state.past}, watch=watch)
        past = {name: out[NEXT + name] for name in self._changing}
        return out["logits"], replace(state, past=past, seen=seen_in(out))

    def log_probabilities(self, state: GraphState, targets: Sequence[Sequence[int]]) -> np.ndarray:
        """Return log p of a given output for each row, including the end."""
        rows, longest = np.arange(state.rows), max(map(len, targets))
        told = np.array([[*ids, END, *[PAD] * (longest - len(ids))] for ids in targets], np.int64)
        tokens, totals = np.full(state.rows, START, np.int64), np.zeros(state.rows)
        for step in told.T:
            before_step(state.rows)
            logits, state = self.step(tokens, state)
            totals += np.where(step == PAD, 0.0, logits[rows, step] - normalizer(logits))
            tokens = step
        return totals


# Decoding of one output a sentence, token by token: the most probable next token, or the one of `choose`.

Choose = Callable[[np.ndarray, int, np.ndarray], np.ndarray]  # logits N V, step, the sentence of each row → N


def most_probable(logits: np.ndarray, _step: int, _sentences: np.ndarray) -> np.ndarray:
    return logits.argmax(axis=1)


def token_by_token(
    steps: GraphSteps,
    state: GraphState,
    rules: LightRules,
    choose: Choose = most_probable,
    on_step: Callable[[int], None] = lambda token: None,
) -> list[LightHypothesis]:
    """Decode y_t = argmax p(y | y_<t, x) until the end symbol. Finished rows leave the batch; `on_step` is called with
    every token of one row.
    """
    outputs: list[list[int]] = [[] for _ in range(state.rows)]
    totals = np.zeros(state.rows)
    sentences = np.arange(state.rows)  # the sentence of each row still in the batch
    tokens = np.full(state.rows, START, np.int64)
    for step in range(rules.max_length + 1):
        before_step(len(tokens))
        on_step(int(tokens[0]))
        logits, state = steps.step(tokens, state)
        scale = normalizer(logits)
        rules.apply(logits, step)
        tokens = choose(logits, step, sentences)
        totals[sentences] += logits[np.arange(len(tokens)), tokens] - scale
        going = np.flatnonzero(tokens != END)
        for row in going:
            outputs[sentences[row]].append(int(tokens[row]))
        if not len(going):
            break
        if len(going) < len(tokens):
            state, tokens, sentences = state.select(going), tokens[going], sentences[going]
    return [LightHypothesis(output, total, total) for output, total in zip(outputs, totals.tolist(), strict=True)]
