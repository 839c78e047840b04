"""Predictions of a tagger from the log-probabilities of tags. Needs no model and no torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.data.labels import Labels
from regard.errors import CallError
from regard.inputs.text.word_pieces import WordsItem, WordsReader
from regard.look.axis import Axis, Token
from regard.look.records import OutputView
from regard.metrics.classes import marks_spans, spans
from regard.tasks.result import Candidate, Prediction


@dataclass(frozen=True, kw_only=True)
class Tagged(Prediction):
    """The words of a text and their tags; `text` has them as word/TAG. With spans, also the tagged spans."""

    words: list[str]
    tags: list[str]
    spans: list[dict[str, Any]]


Table = Float[np.ndarray, "W N"]


class Chosen(NamedTuple):
    """The class of each word, and the log-probabilities of all of them."""

    classes: list[int]
    total: float


def in_windows(
    input: WordsReader, items: Sequence[WordsItem], ask: Callable[[list[WordsItem]], Sequence[Table]]
) -> list[Table]:
    """Return a table with a row for each word of texts of any length. `ask` takes windows and returns a table for
    each.
    """
    windows = [input.words_windows(item) for item in items]
    found = iter(ask([one.item for some in windows for one in some]))
    return [np.concatenate([next(found)[one.first : one.end] for one in some]) for some in windows]


def predict_tags(name: str, words: Sequence[str], table: Float[np.ndarray, "W N"], names: Sequence[str]) -> Tagged:
    """Return the most probable tag of each word."""
    tags = [names[int(number)] for number in table.argmax(1)]
    total = float(table.max(1).sum()) if len(table) else 0.0
    said = Candidate(" ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True)), total)
    found = spans(tags) if marks_spans(names) else []
    told = [{**span._asdict(), "text": " ".join(words[span.start : span.end])} for span in found]
    return Tagged(name, [said], words=list(words), tags=tags, spans=told)


def chosen_tags(words: Sequence[str], table: Float[np.ndarray, "W N"], labels: Labels, output: str | None) -> Chosen:
    """Return the given tags, separated by spaces, or the most probable ones."""
    names = None if output is None else output.split()
    if names is not None and len(names) != len(words):
        raise CallError(f"{len(names)} tags do not fit the {len(words)} words {' '.join(words)[:60]!r}")
    classes = table.argmax(1).tolist() if names is None else [labels.require(name) for name in names]
    return Chosen(classes, float(table[np.arange(len(classes)), classes].sum()))


def tags_axis(names: Sequence[str]) -> Axis:
    return Axis(tuple(Token(name, word=number) for number, name in enumerate(names)), " ".join(names))


def mark_spans(words: Sequence[str], tags: Sequence[str], names: Sequence[str]) -> OutputView:
    """Return spans if `names` (all tags) mark them with B- and I-; else every word with its tag."""
    found = [(one.start, one.end, one.label) for one in spans(tags)] if marks_spans(names) else [
        (place, place + 1, tag) for place, tag in enumerate(tags)
    ]  # fmt: skip
    begins = [0, *accumulate(len(word) + 1 for word in words)]
    marks = tuple((begins[start], begins[end] - 1, label) for start, end, label in found)
    return OutputView("marks", text=" ".join(words), marks=marks)
