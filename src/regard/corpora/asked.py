"""Embedded corpora of two inputs at once: something, a text about it, and what is to come out of both.

In a recipe, `data.train: corpus:shapes-questions` stands for `load_asked("shapes-questions", "train")`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from regard.corpora.pictures import PREFIX, SPLITS
from regard.errors import CallError, nearest


class Asked(NamedTuple):
    """Rows of one `name` have the same `first`; `gold` is what else the corpus knows, such as boxes in a picture."""

    name: str
    first: Any
    second: str
    target: str
    gold: Any = None


def _shapes_questions(split: str) -> Iterator[Asked]:
    from regard.corpora.shapes_questions import shapes_questions

    return shapes_questions(split)


_LOADERS: dict[str, Callable[[str], Iterator[Asked]]] = {"shapes-questions": _shapes_questions}
NAMES = tuple(_LOADERS)


def load_asked(name: str, split: str) -> Iterator[Asked]:
    """The rows of one split (train, valid or test) of an embedded corpus, named with or without `corpus:`."""
    name = name.removeprefix(PREFIX)
    if name not in _LOADERS:
        raise CallError(f"there is no corpus of two inputs {name!r}{nearest(name, NAMES)}")
    if split not in SPLITS:
        raise CallError(f"{name} has no split {split!r}{nearest(split, SPLITS)}")
    return _LOADERS[name](split)
