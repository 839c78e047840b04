"""Embedded corpora of two inputs at once: something, a text about it, and what is to come out of both.

In a recipe, `data.train: corpus:shapes-questions` stands for `load_asked("shapes-questions", "train")`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from regard.corpora.loading import Corpora


class Asked(NamedTuple):
    """Rows of one `name` have the same `first`; `gold` is what else the corpus knows, such as boxes in a picture."""

    name: str
    first: Any
    second: str
    target: str
    gold: Any = None


_ASKED: Corpora[Iterator[Asked]] = Corpora(
    "corpus of two inputs", {"shapes-questions": "regard.corpora.shapes_questions:shapes_questions"}
)
load_asked = _ASKED.load
