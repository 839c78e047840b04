"""Embedded corpora: data that is generated or part of Python packages, so that recipes on it run offline.

In a recipe, `data.train: corpus:pocket` means `load("pocket", "train")`.
"""

from regard.corpora.loading import PREFIX, Corpora
from regard.corpora.pair import Pair, words

__all__ = ["NAMES", "PREFIX", "Pair", "load", "words"]

_PAIRS: Corpora[list[Pair]] = Corpora(
    "corpus",
    {
        "follows": "regard.corpora.follows:follows",
        "languages": "regard.corpora.languages:languages",
        "pocket": "regard.corpora.pocket:pocket",
        "pocket-phrases": "regard.corpora.pocket:phrases",
        "repeats": "regard.corpora.repeats:repeats",
        "spelling": "regard.corpora.spelling:pairs",
    },
)
NAMES, load = tuple(_PAIRS.makers), _PAIRS.load
