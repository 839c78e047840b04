"""From texts to spans: documents in windows, windows through a reader, the best spans of all windows.

    score(i, j) = s_i + e_j,   i ≤ j < i + max_length           over tokens i, j of one window
    p(i, j)     = exp(score(i, j)) / Σ exp(score)               over all such spans of all windows, and *no answer*

Devlin et al. 2018, section 4.3 (arXiv:1810.04805): scores of different windows are comparable, since in training a
window without the answer had to prefer *no answer*. So the least of all windows' scores of it is that of the whole
document: one window that holds the answer speaks against it. A span that stands in two windows keeps its better score.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.inputs.question.input import QuestionInput
from regard.inputs.question.store import Encoded
from regard.models.reader import Pointers, Reader
from regard.outputs.batched import device_of, in_groups
from regard.outputs.result import Candidate, Prediction
from regard.outputs.span.settings import AnswerDecodingSettings

LOWEST = -1e30  # below is what cannot be chosen


@dataclass(frozen=True)
class Answer(Candidate):
    """Characters start ≤ i < end of the document. No answer is the empty text, without a place."""

    start: int | None = None
    end: int | None = None

    @property
    def span(self) -> tuple[int, int] | None:
        return None if self.start is None or self.end is None else (self.start, self.end)


@dataclass(frozen=True)
class Answers(Prediction):
    """The answers to one question, best first; their log-probability is that among all spans of the document."""

    n_best: list[Answer]  # pyright: ignore[reportIncompatibleVariableOverride] (each of them is a candidate)
    document: str = ""

    @property
    def start(self) -> int | None:
        return self.n_best[0].start

    @property
    def end(self) -> int | None:
        return self.n_best[0].end

    def as_dict(self) -> dict[str, Any]:
        """Without the document, which whoever asked has."""
        return {name: value for name, value in super().as_dict().items() if name != "document"}


class Span(NamedTuple):
    """Tokens first ≤ t ≤ last of the document, and the score of that."""

    first: int
    last: int
    score: float


@dataclass(frozen=True)
class Found:
    """What a reader found in one document: the best spans, best first, and all that their probabilities need."""

    document: Encoded
    spans: list[Span]
    none: float  # score of *no answer*
    total: float  # log Σ exp over all spans

    @property
    def odds(self) -> float:
        """By how much *no answer* beats the best span."""
        return self.none - self.spans[0].score if self.spans else -LOWEST

    def text(self, chars: tuple[int, int]) -> str:
        return self.document.text[slice(*chars)]

    def chars(self, span: Span) -> tuple[int, int]:
        return int(self.document.chars[span.first, 0]), int(self.document.chars[span.last, 1])


@torch.inference_mode()
def find(model: Reader, input: QuestionInput, inputs: Sequence[Any], how: AnswerDecodingSettings) -> list[Found]:
    """The spans of each, in the order asked. What has no tokens has no spans."""
    device = device_of(model)
    pieces = [(number, item) for number, one in enumerate(inputs) for item in input.in_windows(one)]
    lengths = [input.length(item) for _, item in pieces]

    def read(group: list[int]) -> list["_Window"]:
        pair = input.collate([pieces[place][1] for place in group]).to(device)
        return _best(model.point(pair.question, pair.document), how.max_length, how.n_best)

    found: list[list[_Window]] = [[] for _ in inputs]
    filled = [place for place, length in enumerate(lengths) if length]
    for place, window in in_groups(filled, lengths, how.batch_tokens, read):
        number, item = pieces[place]
        moved = [Span(span.first + item.start, span.last + item.start, span.score) for span in window.spans]
        found[number].append(window._replace(spans=moved))
    return [_merged(input.document(one), several, how.n_best) for one, several in zip(inputs, found, strict=True)]


class _Window(NamedTuple):
    spans: list[Span]
    none: float
    total: float


def _best(pointers: Pointers, longest: int, count: int) -> list[_Window]:
    """The best spans of each window. Padding has the lowest number as its score, and is never among them."""
    start, end = pointers.start.float(), pointers.end.float()
    none = (start[:, 0] + end[:, 0]).tolist()
    table = span_scores(start[:, 1:], end[:, 1:], longest)
    B, K, W = table.shape
    total = table.flatten(1).logsumexp(1).tolist()
    scores, places = table.flatten(1).topk(min(count, K * W))
    results = []
    for row in range(B):
        pairs = zip(scores[row].tolist(), places[row].tolist(), strict=True)
        spans = [Span(at // W, at // W + at % W, score) for score, at in pairs if score > LOWEST]
        results.append(_Window(spans, none[row], total[row]))
    return results


def span_scores(start: Float[Tensor, "B K"], end: Float[Tensor, "B K"], longest: int) -> Float[Tensor, "B K W"]:
    """s_i + e_{i+w} for w < W, the most tokens of an answer; −∞ where a span would leave the window."""
    K = start.shape[1]
    longest = min(longest, K)
    beyond = end.new_full((len(end), longest - 1), -torch.inf)
    start, end = (x.masked_fill(x < LOWEST, -torch.inf) for x in (start, end))
    return start.unsqueeze(2) + torch.cat([end, beyond], dim=1).unfold(1, longest, 1)


def _merged(document: Encoded, several: Sequence[_Window], count: int) -> Found:
    best: dict[tuple[int, int], Span] = {}
    for span in (span for window in several for span in window.spans):
        key = (span.first, span.last)
        if key not in best or best[key].score < span.score:
            best[key] = span
    spans = sorted(best.values(), key=lambda span: -span.score)[:count]
    none = min((window.none for window in several), default=0.0)
    total = float(np.logaddexp.reduce([window.total for window in several])) if several else float("-inf")
    return Found(document, spans, none, total)
