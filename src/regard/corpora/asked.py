"""Embedded corpora of two inputs: an object, a text about it, and the target.

In a recipe, `data.train: corpus:shapes-questions` means `load_asked("shapes-questions", "train")`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from regard.corpora.loading import Corpora


class Asked(NamedTuple):
    """An example of two inputs. Rows of one `name` have the same `first`; `gold` is additional knowledge of the corpus,
    such as boxes in a picture."""

    name: str
    first: Any
    second: str
    target: str
    gold: Any = None


_ASKED: Corpora[Iterator[Asked]] = Corpora(
    "corpus of two inputs", {"shapes-questions": "regard.corpora.shapes_questions:shapes_questions"}
)
load_asked = _ASKED.load
