"""Embedded corpora: data made or found on any machine, so that recipes on it run offline.

In a recipe, `data.train: corpus:pocket` stands for `load("pocket", "train")`.
"""

from collections.abc import Callable

from regard.corpora.pair import Pair, words
from regard.errors import CallError, nearest

__all__ = ["NAMES", "PREFIX", "Pair", "load", "words"]

PREFIX = "corpus:"


def _languages(split: str) -> list[Pair]:
    from regard.corpora.languages import languages

    return languages(split)


def _pocket(split: str) -> list[Pair]:
    from regard.corpora.pocket import pocket

    return pocket(split)


def _pocket_phrases(split: str) -> list[Pair]:
    from regard.corpora.pocket import phrases

    return phrases(split)


def _repeats(split: str) -> list[Pair]:
    from regard.corpora.repeats import repeats

    return repeats(split)


def _spelling(split: str) -> list[Pair]:
    from regard.corpora.spelling import pairs

    return pairs(split)


_LOADERS: dict[str, Callable[[str], list[Pair]]] = {
    "languages": _languages,
    "pocket": _pocket,
    "pocket-phrases": _pocket_phrases,
    "repeats": _repeats,
    "spelling": _spelling,
}
NAMES = tuple(_LOADERS)


def load(name: str, split: str) -> list[Pair]:
    """The pairs of one split (train, valid or test) of an embedded corpus, named with or without `corpus:`."""
    name = name.removeprefix(PREFIX)
    if name not in _LOADERS:
        raise CallError(f"there is no corpus {name!r}{nearest(name, NAMES)}")
    return _LOADERS[name](split)
