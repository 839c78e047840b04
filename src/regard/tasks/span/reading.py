"""Answers from texts: documents are cut into windows, a reader scores spans, the best spans of all windows are
returned.

    p(i, j) = exp(score(i, j)) / Σ exp(score)               over all spans of all windows, and *no answer*

`generation/spans.py` computes the scores. Needs no torch: a reader returns two pointers for a window.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from regard.errors import CallError
from regard.generation.spans import LOWEST, Span, Spans, best_spans, merge_windows
from regard.inputs.question.windows import Encoded, QuestionReader, WindowItem
from regard.look.axis import Axis, whole
from regard.look.placing import AxisPair, PlacedTable
from regard.look.records import Attention, OutputView
from regard.tasks.result import Candidate, Prediction, in_groups
from regard.tasks.span.settings import AnswerDecodingSettings, AnswerRecipe

ALL = 10**9  # spans of a window: all of them


@dataclass(frozen=True)
class SpanAnswer(Candidate):
    """The characters start ≤ i < end of the document. No answer is the empty text, without a position."""

    start: int | None = None
    end: int | None = None

    @property
    def span(self) -> tuple[int, int] | None:
        return None if self.start is None or self.end is None else (self.start, self.end)

    def marked(self, document: str) -> OutputView:
        return OutputView("marks", text=document, marks=() if self.span is None else ((*self.span, "answer"),))


@dataclass(frozen=True)
class Answers(Prediction):
    """The answers to one question, best first; log-probabilities are over all spans of the document."""

    n_best: list[SpanAnswer]  # pyright: ignore[reportIncompatibleVariableOverride] (each of them is a candidate)
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
class SpanCandidate:
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

    def answers(self, threshold: float | None) -> list[SpanAnswer]:
        """Return the answers. With a threshold, the empty answer is among them: first, if its odds exceed the
        threshold.
        """
        if not self.spans:
            return [SpanAnswer("", 0.0)]
        answers = [self._answer(span, threshold is not None) for span in self.spans]
        if threshold is not None:
            place = 0 if self.odds > threshold else max(1, sum(span.score >= self.none for span in self.spans))
            answers.insert(place, self._answer(None, True))
        return answers

    def given(self, text: str, number: int, no_answer: bool) -> SpanAnswer:
        """Return the given answer, output `number`, at its best position; needs the scores of all spans."""
        if not text and no_answer:
            return self._answer(None, no_answer)
        places = [place.start() for place in re.finditer(re.escape(text), self.document.text)] if text else []
        wanted = {self.document.tokens_of(start, start + len(text)) for start in places}
        best = next((span for span in self.spans if (span.first, span.last) in wanted), None)
        if best is None:
            reason = f"has more than decoding.max_length={self.most} tokens" if places else "is not in the document"
            raise CallError(f"output {number}: {text!r} {reason}")
        return self._answer(best, no_answer)

    def _answer(self, span: Span | None, no_answer: bool) -> SpanAnswer:
        """Return an answer with its log-probability among all spans, and *no answer* if that is allowed."""
        total = np.logaddexp(self.total, self.none) if no_answer else self.total
        if span is None:
            return SpanAnswer("", float(self.none - total))
        chars = self.chars(span)
        return SpanAnswer(self.text(chars), float(span.score - total), None, *chars)

    def text(self, chars: tuple[int, int]) -> str:
        return self.document.text[slice(*chars)]

    def chars(self, span: Span) -> tuple[int, int]:
        return int(self.document.chars[span.first, 0]), int(self.document.chars[span.last, 1])


Point = Callable[[Sequence[WindowItem]], tuple[np.ndarray, np.ndarray]]  # the two pointers for each window of a batch


def find(
    point: Point, input: QuestionReader, inputs: Sequence[Any], how: AnswerDecodingSettings
) -> list[SpanCandidate]:
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
    return [
        SpanCandidate(input.document(one), *merge_windows(several, how.n_best), how.max_length)
        for one, several in pairs
    ]


@dataclass(frozen=True)
class WindowReader:
    """Question answering with a reader, with or without torch."""

    point: Point
    input: QuestionReader
    recipe: AnswerRecipe

    def answers(self, inputs: Sequence[Any]) -> list[list[SpanAnswer]]:
        """Return the best answers for each input."""
        return self.best(self.found(inputs))

    def best(self, found: Sequence[SpanCandidate]) -> list[list[SpanAnswer]]:
        how = self.recipe.decoding
        threshold = how.threshold if self.recipe.data.no_answer else None
        return [one.answers(threshold)[: how.n_best] for one in found]

    def given(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[SpanAnswer]:
        """Return log p of given answers: each at its best position in the document."""
        found, no_answer = self.found(inputs, n_best=ALL), self.recipe.data.no_answer
        numbered = enumerate(zip(outputs, found, strict=True), start=1)
        return [spans.given(said, number, no_answer) for number, (said, spans) in numbered]

    def looked_at(self, one: Any, output: str | None) -> list[SpanAnswer]:
        """Return the best answers, or the given one."""
        return self.answers([one])[0] if output is None else self.given([one], [output])

    def found(self, inputs: Sequence[Any], **how: Any) -> list[SpanCandidate]:
        return find(self.point, self.input, inputs, self.recipe.decoding.model_copy(update=how))

    def prediction(self, one: Any, answers: list[SpanAnswer]) -> Answers:
        question, document = self.input.asked(one)
        return Answers(question, answers, document=document)


# What `look` shows of a reader: a window of the document, the answer in brackets, tables between both texts. Needs no
# torch.


class ShownWindow(NamedTuple):
    """A window, and the positions of the answer's tokens in it, from 1; 0: no answer."""

    item: WindowItem
    first: int
    last: int


def shown_window(input: QuestionReader, one: Any, chars: tuple[int, int] | None) -> ShownWindow:
    """Return the window in which the answer has the most context on its shorter side; the first window if there is no
    answer.
    """
    items = list(input.in_windows(one))
    if not input.length(items[0]):
        raise CallError("the question or the document has no token: look needs both")
    tokens = None if chars is None else input.document(one).tokens_of(*chars)
    if tokens is None:
        return ShownWindow(items[0], 0, 0)
    first, last = tokens
    item = max(items, key=lambda item: min(first - item.start, item.start + len(item.document) - 1 - last))
    return ShownWindow(item, first - item.start + 1, last - item.start + 1)


def axes_of(input: QuestionReader, shown: ShownWindow, answer: str) -> dict[str, Axis]:
    """Return the axes of the answer, of both texts together, and of each."""
    question, document = input.sides(shown.item)
    both = _bracket_answer(input.axis(shown.item), document.start, shown.first, shown.last)
    places = range(len(both))
    return {
        "target": whole(answer or "(no answer)"), "source": both,
        "question": both.taken(places[question]), "document": both.taken(places[document]),
    }  # fmt: skip


def text_boundary(question: slice, document: slice) -> Callable[[AxisPair, Sequence[PlacedTable]], list[Attention]]:
    """Return a function for `ExplainTarget.place`: from self-attention over both texts, also the rows of the question
    and
    columns of the document.
    """

    def place(case: AxisPair, tables: Sequence[PlacedTable]) -> list[Attention]:
        found = []
        for name, role, weights in tables:
            shown = weights[:, question, document]
            if role.kind == "encoder":
                found.append(Attention(name, "encoder", role.layer, weights, "source", "source"))
            else:
                shown = weights.swapaxes(1, 2) if role.layer == 0 else weights
            found.append(Attention(name, "cross", role.layer, shown, "question", "document"))
        return found

    return place


def _bracket_answer(axis: Axis, document: int, first: int, last: int) -> Axis:
    """Put the answer's tokens (from 1; 0: none) in brackets."""
    tokens = list(axis.tokens)
    if first:
        for place, (before, after) in ((first, ("⟦", "")), (last, ("", "⟧"))):
            token = tokens[document + place - 1]
            tokens[document + place - 1] = replace(token, text=before + token.text + after)
    return replace(axis, tokens=tuple(tokens))
