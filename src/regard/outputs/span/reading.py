"""From texts to spans: documents in windows, windows through a reader, the best spans of all windows.

    score(i, j) = s_i + e_j,   i ≤ j < i + max_length           over tokens i, j of one window
    p(i, j)     = exp(score(i, j)) / Σ exp(score)               over all such spans of all windows, and *no answer*

Devlin et al. 2018, section 4.3 (arXiv:1810.04805): scores of different windows are comparable, since in training a
window without the answer had to prefer *no answer*. So the least of all windows' scores of it is that of the whole
document: one window that holds the answer speaks against it. A span that stands in two windows keeps its better score.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.batches import padded
from regard.data.tokenizer import Tokenizer
from regard.inputs.question.store import Encoded, encode_document
from regard.inputs.question.windows import windows
from regard.models.reader import Pointers, Reader
from regard.outputs.span.settings import FRAME, AnswerDecodingSettings, QuestionDataSettings
from regard.outputs.text.search import in_groups

LOWEST = -1e30  # below is what cannot be chosen


class Ask(NamedTuple):
    """What a reader is asked."""

    question: str
    document: str


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

    def text(self, span: Span) -> str:
        start, end = self.chars(span)
        return self.document.text[start:end]

    def chars(self, span: Span) -> tuple[int, int]:
        return int(self.document.chars[span.first, 0]), int(self.document.chars[span.last, 1])


class Texts:
    """Texts as tokens, by one tokenizer; the same document is cut only once."""

    def __init__(self, tokenizer: Tokenizer, data: QuestionDataSettings) -> None:
        self.tokenizer, self.data = tokenizer, data
        self.document = lru_cache(maxsize=256)(lambda text: encode_document(tokenizer, text))

    def question(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)[: self.data.max_question]

    @property
    def pad(self) -> int:
        pad = self.tokenizer.specials.pad
        return 0 if pad is None else pad

    def windows(self, question: Sequence[int], document: Encoded) -> list[tuple[int, int]]:
        return windows(len(document), self.data.max_length - FRAME - len(question), self.data.overlap)


@torch.inference_mode()
def find(model: Reader, texts: Texts, asks: Sequence[Ask], how: AnswerDecodingSettings) -> list[Found]:
    """The spans of each, in the order asked. What has no tokens has no spans."""
    device = next(model.parameters()).device
    pieces: list[tuple[int, list[int], int, int]] = []  # which one, its question's ids, the window
    documents = [texts.document(ask.document) for ask in asks]
    for number, (ask, document) in enumerate(zip(asks, documents, strict=True)):
        question = texts.question(ask.question)
        if question and len(document):
            pieces += [(number, question, *window) for window in texts.windows(question, document)]

    def read(group: list[int]) -> list["_Window"]:
        some = [pieces[place] for place in group]
        question = padded([np.array(ids) for _, ids, _, _ in some], texts.pad).to(device)
        document = padded([documents[n].ids[start:stop] for n, _, start, stop in some], texts.pad).to(device)
        return _best(model.point(question, document), how.max_length, how.n_best)

    lengths = [len(question) + stop - start + FRAME for _, question, start, stop in pieces]
    found: list[list[_Window]] = [[] for _ in asks]
    for place, window in in_groups(range(len(pieces)), lengths, how.batch_tokens, read):
        number, _, start, _ = pieces[place]
        moved = [Span(span.first + start, span.last + start, span.score) for span in window.spans]
        found[number].append(window._replace(spans=moved))
    return [_merged(document, several, how.n_best) for document, several in zip(documents, found, strict=True)]


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
