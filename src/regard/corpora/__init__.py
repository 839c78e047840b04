"""Embedded corpora: data that is generated or part of Python packages, so that recipes on it run offline.

In a recipe, `data.train: corpus:pocket` means `load("pocket", "train")`.
"""

from regard.corpora.loading import PREFIX, Corpora, SentencePair, words

__all__ = ["NAMES", "PREFIX", "SentencePair", "load", "words"]

_PAIRS: Corpora[list[SentencePair]] = Corpora(
    "corpus",
    {
        "follows": "regard.corpora.texts:follows",
        "languages": "regard.corpora.texts:languages",
        "pocket": "regard.corpora.pocket:pocket",
        "pocket-phrases": "regard.corpora.pocket:phrases",
        "repeats": "regard.corpora.texts:repeats",
        "spelling": "regard.corpora.spelling:pairs",
    },
)
NAMES, load = tuple(_PAIRS.makers), _PAIRS.load
