"""Embedded corpora of pictures: `shapes` and `one-shape`, drawn from a seed, and `digits`, real ones of scikit-learn.

In a recipe, `data.train: corpus:shapes` stands for `load_pictures("shapes", "train")`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8

from regard.errors import CallError, nearest

PREFIX = "corpus:"
SPLITS = ("train", "valid", "test")

Box = tuple[float, float, float, float]  # top, left, bottom, right, in pixels


@dataclass(frozen=True)
class Noun:
    """A word of a caption (counted from 0 over what spaces separate), and where the thing it names stands."""

    word: int
    box: Box


@dataclass(frozen=True)
class Pictured:
    """A picture, the texts that describe it (a caption each, or one label), and where the nouns of each text stand."""

    image: UInt8[np.ndarray, "H W C"]
    texts: tuple[str, ...]
    nouns: tuple[tuple[Noun, ...], ...] = ()  # one tuple a text; empty where nobody knows


def _shapes(split: str) -> Iterator[Pictured]:
    from regard.corpora.shapes import shapes

    return shapes(split)


def _one_shape(split: str) -> Iterator[Pictured]:
    from regard.corpora.one_shape import one_shape

    return one_shape(split)


def _digits(split: str) -> Iterator[Pictured]:
    from regard.corpora.digits import digits

    return digits(split)


_LOADERS: dict[str, Callable[[str], Iterator[Pictured]]] = {
    "shapes": _shapes,
    "one-shape": _one_shape,
    "digits": _digits,
}
NAMES = tuple(_LOADERS)


def load_pictures(name: str, split: str) -> Iterator[Pictured]:
    """The pictures of one split (train, valid or test) of an embedded corpus, named with or without `corpus:`."""
    name = name.removeprefix(PREFIX)
    if name not in _LOADERS:
        raise CallError(f"there is no corpus of pictures {name!r}{nearest(name, NAMES)}")
    if split not in SPLITS:
        raise CallError(f"{name} has no split {split!r}{nearest(split, SPLITS)}")
    return _LOADERS[name](split)
