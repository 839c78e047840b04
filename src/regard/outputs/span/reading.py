"""Answers from texts: documents are cut into windows, a reader scores spans, the best spans of all windows are
returned.

    p(i, j) = exp(score(i, j)) / Σ exp(score)               over all spans of all windows, and *no answer*

`decoding/spans.py` computes the scores. Needs no torch: a reader returns two pointers for a window.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.decoding.spans import LOWEST, Span, Spans, best_spans, merged
from regard.errors import CallError
from regard.inputs.question.windows import Encoded, QuestionReader, WindowItem
from regard.look.said import Said
from regard.outputs.groups import in_groups
from regard.outputs.result import Candidate, Prediction
from regard.outputs.span.settings import AnswerDecodingSettings, AnswerRecipe

ALL = 10**9  # spans of a window: all of them


@dataclass(frozen=True)
class Answer(Candidate):
    """The characters start ≤ i < end of the document. No answer is the empty text, without a position."""

    start: int | None = None
    end: int | None = None

    @property
    def span(self) -> tuple[int, int] | None:
        return None if self.start is None or self.end is None else (self.start, self.end)

    def marked(self, document: str) -> Said:
        return Said("marks", text=document, marks=() if self.span is None else ((*self.span, "answer"),))


@dataclass(frozen=True)
class Answers(Prediction):
    """The answers to one question, best first; log-probabilities are over all spans of the document."""

    n_best: list[Answer]  # pyright: ignore[reportIncompatibleVariableOverride] (each of them is a candidate)
    document: str = ""

    @property
    def start(self) -> int | None:
        return self.n_best[0].start

    @property
    def end(self) -> int | None:
        return self.n_best[0].end

    def as_dict(self) -> dict[str, Any]:
        """Return a dict without the document, which the caller already has."""
        return {name: value for name, value in super().as_dict().items() if name != "document"}


@dataclass(frozen=True)
class Found:
    """The best spans of one document, best first, and the sums that their probabilities need."""

    document: Encoded
    spans: list[Span]
    none: float  # score of *no answer*
    total: float  # log Σ exp over all spans
    most: int  # tokens of a span

    @property
    def odds(self) -> float:
        """Return the log-odds of *no answer* against the best span."""
        return self.none - self.spans[0].score if self.spans else -LOWEST

    def answers(self, threshold: float | None) -> list[Answer]:
        """Return the answers. With a threshold, the empty answer is among them: first, if its odds exceed the
        threshold.
        """
        if not self.spans:
            return [Answer("", 0.0)]
        answers = [self._answer(span, threshold is not None) for span in self.spans]
        if threshold is not None:
            place = 0 if self.odds > threshold else max(1, sum(span.score >= self.none for span in self.spans))
            answers.insert(place, self._answer(None, True))
        return answers

    def given(self, said: str, number: int, no_answer: bool) -> Answer:
        """Return the given answer, output `number`, at its best position; needs the scores of all spans."""
        if not said and no_answer:
            return self._answer(None, no_answer)
        places = [place.start() for place in re.finditer(re.escape(said), self.document.text)] if said else []
        wanted = {self.document.tokens_of(start, start + len(said)) for start in places}
        best = next((span for span in self.spans if (span.first, span.last) in wanted), None)
        if best is None:
            reason = f"has more than decoding.max_length={self.most} tokens" if places else "is not in the document"
            raise CallError(f"output {number}: {said!r} {reason}")
        return self._answer(best, no_answer)

    def _answer(self, span: Span | None, no_answer: bool) -> Answer:
        """Return an answer with its log-probability among all spans, and *no answer* if that is allowed."""
        total = np.logaddexp(self.total, self.none) if no_answer else self.total
        if span is None:
            return Answer("", float(self.none - total))
        chars = self.chars(span)
        return Answer(self.text(chars), float(span.score - total), None, *chars)

    def text(self, chars: tuple[int, int]) -> str:
        return self.document.text[slice(*chars)]

    def chars(self, span: Span) -> tuple[int, int]:
        return int(self.document.chars[span.first, 0]), int(self.document.chars[span.last, 1])


Point = Callable[[Sequence[WindowItem]], tuple[np.ndarray, np.ndarray]]  # the two pointers for each window of a batch


def find(point: Point, input: QuestionReader, inputs: Sequence[Any], how: AnswerDecodingSettings) -> list[Found]:
    """Return the spans of each input, in order. An input without tokens has no spans."""
    pieces = [(number, item) for number, one in enumerate(inputs) for item in input.in_windows(one)]
    lengths = [input.length(item) for _, item in pieces]

    def read(group: list[int]) -> list[Spans]:
        return best_spans(*point([pieces[place][1] for place in group]), how.max_length, how.n_best)

    windows: list[list[tuple[int, Spans]]] = [[] for _ in inputs]
    filled = [place for place, length in enumerate(lengths) if length]
    for place, spans in in_groups(filled, lengths, how.batch_tokens, read):
        number, item = pieces[place]
        windows[number].append((item.start, spans))
    pairs = zip(inputs, windows, strict=True)
    return [Found(input.document(one), *merged(several, how.n_best), how.max_length) for one, several in pairs]


@dataclass(frozen=True)
class Asking:
    """Question answering with a reader, with or without torch."""

    point: Point
    input: QuestionReader
    recipe: AnswerRecipe

    def answers(self, inputs: Sequence[Any]) -> list[list[Answer]]:
        """Return the best answers for each input."""
        return self.best(self.found(inputs))

    def best(self, found: Sequence[Found]) -> list[list[Answer]]:
        how = self.recipe.decoding
        threshold = how.threshold if self.recipe.data.no_answer else None
        return [one.answers(threshold)[: how.n_best] for one in found]

    def given(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Answer]:
        """Return log p of given answers: each at its best position in the document."""
        found, no_answer = self.found(inputs, n_best=ALL), self.recipe.data.no_answer
        numbered = enumerate(zip(outputs, found, strict=True), start=1)
        return [spans.given(said, number, no_answer) for number, (said, spans) in numbered]

    def looked_at(self, one: Any, output: str | None) -> list[Answer]:
        """Return the best answers, or the given one."""
        return self.answers([one])[0] if output is None else self.given([one], [output])

    def found(self, inputs: Sequence[Any], **how: Any) -> list[Found]:
        return find(self.point, self.input, inputs, self.recipe.decoding.model_copy(update=how))

    def prediction(self, one: Any, answers: list[Answer]) -> Answers:
        question, document = self.input.asked(one)
        return Answers(question, answers, document=document)
