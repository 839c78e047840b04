"""Text continuation with the graph `decoder` of a language model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.errors import CallError
from regard.inputs.text_axis import written_axis
from regard.light.outputs import LightOutput
from regard.light.record import Between, record_of
from regard.light.search import GraphState, GraphSteps, LightPrefixes, draw, generators, normalizer
from regard.light.session import Arrays, Description, OnnxSession, seen_in
from regard.look.records import AttentionRecord
from regard.tasks.result import Candidate, Prediction
from regard.tasks.text.writing import MOST, TextStreamer, next_tokens_of
from regard.work import before_step

# Token-by-token continuation of several texts at once: `regard.generation.sampling` over arrays.
#
# Texts share positions, as there: all prompts are read up to the end of the shortest, and the longer ones are fed
# their next tokens. When `context` is full, its last half is read again.


class LightText(NamedTuple):
    """The next token of text `row`, and its log-probability under the model."""

    row: int
    token: int
    log_probability: float


class LightReader:
    """A language model: tokens, and keys and values of previous ones → logits, keys and values."""

    def __init__(self, decoder: OnnxSession, shapes: Mapping[str, Any]) -> None:
        self._decoder = decoder
        self._empty = {name: about["shape"] for name, about in shapes.items() if name != "tokens"}

    def start(self, rows: int) -> Arrays:
        """Return the empty cache: keys and values of length 0."""
        sizes: dict[Any, Any] = {"rows": rows, "past": 0}
        shapes = {name: tuple(int(sizes.get(size, size)) for size in shape) for name, shape in self._empty.items()}
        return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}

    def read(self, tokens: Sequence[Sequence[int]] | np.ndarray, past: Arrays) -> tuple[np.ndarray, Arrays]:
        """Return the logits of every token: N T V."""
        before_step(sum(map(len, tokens)))
        out = self._decoder({"tokens": np.asarray(tokens, np.int64), **past})
        return out["logits"], {name: out[f"next_{name}"] for name in past}

    def look(self, tokens: Sequence[int]) -> tuple[np.ndarray, Arrays]:
        """Return logits (T V) and attention weights of one whole text."""
        before_step(len(tokens))
        out = self._decoder({"tokens": np.asarray([tokens], np.int64), **self.start(1)}, watch=True)
        return out["logits"][0], seen_in(out)


def generate(
    model: LightReader,
    prompts: Sequence[Sequence[int]],
    how: Any,
    *,
    context: int,
    max_length: int,
    end: int | None,
    forbidden: Sequence[int],
    ended: Callable[[LightText], bool],
) -> Iterator[LightText]:
    """Yield generated tokens. `how` has temperature, top_k, top_p, repetition_penalty and seed."""
    texts = [list(prompt)[-(context - 1) :] for prompt in prompts]
    chance = generators(prompts, how.seed)
    left = [max_length] * len(texts)
    rows = list(range(len(texts)))  # the text of each row
    known = length = min(map(len, texts), default=0)  # tokens of each text that were read, and that are in the cache
    if not rows:
        return
    logits, past = model.read([text[:known] for text in texts], model.start(len(rows)))
    while rows:
        chosen, told = _choose(logits[:, -1], texts, rows, known, how, chance, forbidden)
        staying = []
        for place, (row, token, log_probability) in enumerate(zip(rows, chosen, told, strict=True)):
            if known < len(texts[row]):  # still in its prompt
                staying.append(place)
                continue
            texts[row].append(token)
            left[row] -= 1
            written = LightText(row, token, log_probability)
            yield written
            if token != end and left[row] > 0 and not ended(written):
                staying.append(place)
        if not staying:
            return
        known += 1
        if len(staying) < len(rows):
            past = {name: array[staying] for name, array in past.items()}
            rows = [rows[place] for place in staying]
        if length >= context:
            length = max(1, context // 2)
            logits, past = model.read([texts[row][known - length : known] for row in rows], model.start(len(rows)))
        else:
            length += 1
            logits, past = model.read([[texts[row][known - 1]] for row in rows], past)


def _choose(
    logits: np.ndarray,
    texts: Sequence[Sequence[int]],
    rows: Sequence[int],
    known: int,
    how: Any,
    chance: Sequence[Any],
    forbidden: Sequence[int],
) -> tuple[list[int], list[float]]:
    """Return the next token of each row, and its log-probability. Rows inside their prompt use no random numbers."""
    own = logits - normalizer(logits)[:, None]
    logits = logits.copy()
    logits[:, list(forbidden)] = -np.inf
    if how.repetition_penalty != 1.0:
        for place, row in enumerate(rows):
            said = sorted(set(texts[row][:known]))
            old = logits[place, said]
            logits[place, said] = np.where(old > 0, old / how.repetition_penalty, old * how.repetition_penalty)
    if how.temperature == 0.0:
        tokens = logits.argmax(axis=1)
    else:
        uniform = np.array([chance[row](1)[0] if known >= len(texts[row]) else 0.0 for row in rows], np.float32)
        tokens = draw(logits / np.float32(how.temperature), uniform, top_k=how.top_k, top_p=how.top_p)
    return tokens.tolist(), own[np.arange(len(tokens)), tokens].tolist()


LOOKED_AT = 20  # maximum tokens that `look` generates
GREEDY = SimpleNamespace(temperature=0.0, top_k=0, top_p=1.0, repetition_penalty=1.0, seed=0)


class LightContinuation(LightOutput):
    takes_prefix: ClassVar[bool] = True
    writes_text: ClassVar[bool] = True
    takes_prompt: ClassVar[bool] = True

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self.tokenizer = input.tokenizer
        self.reader = LightReader(OnnxSession(about.folder / "decoder.onnx"), about.graphs["decoder"]["inputs"])

    @property
    def context(self) -> int:
        return self.recipe.model.context

    def predict(self, inputs: Sequence[str], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        """Return continuations, best first, without the prompt."""
        how = self.recipe.decoding
        prompts = [text for text in inputs for _ in range(how.n_best)]
        texts = self._write_texts(prompts, how, how.max_length, prefix)
        found = [Candidate(prefix + text.text, text.log_probability) for text in texts]
        groups = (found[place : place + how.n_best] for place in range(0, len(found), how.n_best))
        return [
            Prediction(text, sorted(group, key=lambda one: -(one.score or 0.0)))
            for text, group in zip(inputs, groups, strict=True)
        ]

    def stream(self, one: str, on_text: Callable[[str, str], None], *, prefix: str = "") -> Prediction:
        """Stream pieces that are final: whole characters, and no part of a stop text."""
        said, text = "", self._start(one, prefix)

        def news(piece: str) -> None:
            nonlocal said
            said += piece
            if piece:
                on_text(piece, said)

        news(prefix)
        for _ in self._writing([text], self.recipe.decoding, self.recipe.decoding.max_length):
            news(text.new_text())
        news(text.new_text(last=True))
        return Prediction(one, [Candidate(said, text.log_probability)])

    def score_outputs(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[Candidate]:
        """Return log p(output | input), without an end token: the output may continue."""
        found = []
        for text, said in zip(inputs, outputs, strict=True):
            new = self._after(text, said)
            tokens = [*self.input.read(text).ids, *new][-self.context - 1 :]
            known = self._known(tokens[:-1])
            told = [float(row[token]) for row, token in zip(known, tokens[1:], strict=True)]
            found.append(Candidate(said, sum(told[len(told) - len(new) :])))
        return found

    def look(self, one: str, output: str | None, prefix: str) -> list[AttentionRecord]:
        """Explain the prompt with its continuation: the given one, or a few tokens that the model
        generates greedily.
        """
        if output is not None:
            return [self._record([*self.input.read(one).ids, *self._after(one, output)], output, None)]
        how, prompt = self.recipe.decoding, self.input.read(one + prefix).ids
        longest = max(1, min(LOOKED_AT, how.max_length, self.context + 1 - len(prompt)))
        texts = self._write_texts([one] * how.n_best, GREEDY if how.n_best == 1 else how, longest, prefix)
        best = sorted(texts, key=lambda text: -text.log_probability)
        return [self._record([*prompt, *text.ids], prefix + text.text, text.log_probability) for text in best]

    def _record(self, tokens: list[int], text: str, score: float | None) -> AttentionRecord:
        read, told = tokens[:-1], tokens[1:]
        if len(read) > self.context:
            raise CallError(f"the text has {len(read)} tokens; this model reads at most {self.context}: shorten it")
        if not told:
            said = self.tokenizer.decode(tokens)
            raise CallError(
                f"{said!r} has no predicted token; a language model predicts every token but the first: give more text"
            )
        logits, seen = self.reader.look(read)
        known = logits - normalizer(logits)[:, None]
        best = np.argsort(-known, axis=1, kind="stable")[:, :MOST]
        following = tuple(
            next_tokens_of(told[:step], ids.tolist(), known[step, ids].tolist(), self.tokenizer)
            for step, ids in enumerate(best)
        )
        sides = {"target": told, "read": read}
        axes = {name: written_axis(self.tokenizer, ids, self.tokenizer.specials.names) for name, ids in sides.items()}
        return record_of(
            {name: weights[0] for name, weights in seen.items()}, self.roles, Between(axes, columns="read"),
            output=text, score=score, scores=tuple(float(row[token]) for row, token in zip(known, told, strict=True)),
            next_tokens=following,
        )  # fmt: skip

    def _known(self, tokens: Sequence[int]) -> np.ndarray:
        """Return the log-probabilities after each token: T V."""
        logits, _ = self.reader.read([tokens], self.reader.start(1))
        return logits[0] - normalizer(logits[0])[:, None]

    def _after(self, text: str, said: str) -> list[int]:
        """Return the tokens of a continuation; some differ from the tokens of the same text alone."""
        return self.tokenizer.encode(text + said)[len(self.tokenizer.encode(text)) :]

    def _start(self, prompt: str, prefix: str) -> TextStreamer:
        return TextStreamer(self.tokenizer, prompt, prefix, self.recipe.decoding.stop)

    def _write_texts(self, prompts: Sequence[str], how: Any, most: int, prefix: str) -> list[TextStreamer]:
        texts = [self._start(prompt, prefix) for prompt in prompts]
        for _ in self._writing(texts, how, most):
            pass
        return texts

    def _writing(self, texts: Sequence[TextStreamer], how: Any, most: int) -> Iterator[None]:
        """Yield whenever one of the texts has its next token, of at most `most` tokens."""
        special = self.tokenizer.specials
        never = {special.pad, special.unk, special.start} - {special.end, None}
        for new in generate(
            self.reader, [self.input.read(text.begin).ids for text in texts], how, context=self.context,
            max_length=most, end=special.end, forbidden=sorted(index for index in never if index is not None),
            ended=lambda new: texts[new.row].stopped,
        ):  # fmt: skip
            texts[new.row].add(new.token, new.log_probability)
            yield


@dataclass(frozen=True)
class LightLanguageModelFusion:
    """Extra scores of a search besides the decoder: CTC, a language model, coverage.

    The equations are those of `regard.generation.ctc` and `regard.generation.coverage`.
    """

    model: LightReader
    weight: float
    tokens: np.ndarray  # V: the language model's id of each of our tokens


@dataclass(frozen=True)
class LightJointState:
    decoder: GraphState
    prefixes: LightPrefixes | None
    language: Arrays | None
    started: bool = False

    @property
    def rows(self) -> int:
        return self.decoder.rows

    @property
    def seen(self) -> Arrays:
        return self.decoder.seen

    def select(self, rows: np.ndarray) -> "LightJointState":
        prefixes = None if self.prefixes is None else self.prefixes.select(rows)
        language = None if self.language is None else {name: one[rows] for name, one in self.language.items()}
        return LightJointState(self.decoder.select(rows), prefixes, language, self.started)


@dataclass(frozen=True)
class LightJointScores:
    """A decoder that adds the other scores at every step; it returns scores, not logits."""

    steps: GraphSteps
    ctc: float = 0.0
    language: LightLanguageModelFusion | None = None

    def start(self, state: GraphState) -> LightJointState:
        prefixes = LightPrefixes.start(state.beside["ctc"]) if self.ctc else None
        return LightJointState(
            state, prefixes, None if self.language is None else self.language.model.start(state.rows)
        )

    def step(
        self, tokens: np.ndarray, state: LightJointState, *, watch: bool = False
    ) -> tuple[np.ndarray, LightJointState]:
        logits, decoder = self.steps.step(tokens, state.decoder, watch=watch)
        scores = logits - normalizer(logits)[:, None]
        started, state = state.started, replace(state, decoder=decoder, started=True)
        if state.prefixes is not None:
            # The first step reads <s>, which is not a token of the text.
            prefixes = state.prefixes.step(tokens) if started else state.prefixes
            scores = np.float32(1 - self.ctc) * scores + np.float32(self.ctc) * prefixes.gains()
            state = replace(state, prefixes=prefixes)
        if self.language is not None and state.language is not None:
            told, language = self.language.model.read(self.language.tokens[tokens][:, None], state.language)
            told = told[:, -1] - normalizer(told[:, -1])[:, None]
            scores = scores + np.float32(self.language.weight) * told[:, self.language.tokens]
            state = replace(state, language=language)
        return scores, state


@dataclass(frozen=True)
class LightCoveredState:
    decoder: Any
    covered: np.ndarray | float = 0.0  # N K

    @property
    def rows(self) -> int:
        return self.decoder.rows

    def select(self, rows: np.ndarray) -> "LightCoveredState":
        return LightCoveredState(self.decoder.select(rows), np.asarray(self.covered)[rows])

    def coverage(self, row: int) -> float:
        """Return the coverage score. A masked vector (padding) has weight exactly 0 and is excluded."""
        covered = np.asarray(self.covered)[row]
        return float(np.log(np.minimum(covered[covered > 0], 1.0)).sum())


@dataclass(frozen=True)
class LightCovering:
    """A decoder whose state sums the weights of `attention`, its last one over the memory."""

    steps: Any
    attention: str | None

    def step(self, tokens: np.ndarray, state: LightCoveredState) -> tuple[np.ndarray, LightCoveredState]:
        logits, decoder = self.steps.step(tokens, state.decoder, watch=True)
        if self.attention not in decoder.seen:
            raise CallError(
                "decoding.coverage_penalty needs attention weights, which this export lacks: export "
                "the run again, without --no-attention (or the model has no attention)"
            )
        weights = decoder.seen[self.attention].mean(axis=1)[:, 0]  # N H 1 K
        return logits, LightCoveredState(decoder, state.covered + weights)
