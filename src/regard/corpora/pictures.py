"""Embedded corpora of pictures: `shapes` and `one-shape`, generated from a seed, and `digits`, real ones of
scikit-learn.

In a recipe, `data.train: corpus:shapes` means `load_pictures("shapes", "train")`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8

from regard.corpora.loading import Corpora

Box = tuple[float, float, float, float]  # top, left, bottom, right, in pixels


@dataclass(frozen=True)
class Noun:
    """A word of a caption (counted from 0 over space-separated words), and the box of the thing it names."""

    word: int
    box: Box


@dataclass(frozen=True)
class Pictured:
    """A picture, its texts (captions, or one label), and the boxes of the nouns of each text."""

    image: UInt8[np.ndarray, "H W C"]
    texts: tuple[str, ...]
    nouns: tuple[tuple[Noun, ...], ...] = ()  # one tuple a text; empty if unknown


_PICTURES: Corpora[Iterator[Pictured]] = Corpora(
    "corpus of pictures",
    {
        "shapes": "regard.corpora.shapes:shapes",
        "one-shape": "regard.corpora.one_shape:one_shape",
        "digits": "regard.corpora.digits:digits",
    },
)
load_pictures = _PICTURES.load
