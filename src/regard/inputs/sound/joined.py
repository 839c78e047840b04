"""Longer recordings of short ones: a few of a store, drawn at random, one after the other with pauses between."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from regard.corpora.tones import Segment
from regard.inputs.base import Vocabulary
from regard.inputs.sound.settings import JoinSettings
from regard.inputs.sound.store import SpeechStore, Utterance, target_ids

JOIN = 1  # what random numbers are for: two purposes never share them


class Joined:
    """Sequences of a store's recordings: which ones and with what pauses follows from `seed` and `epoch` alone."""

    def __init__(
        self,
        store: SpeechStore,
        vocabulary: Vocabulary | None,
        how: JoinSettings,
        count: int,
        seed: int,
        epoch: int = 0,
    ) -> None:
        self._store, self._vocabulary = store, vocabulary
        chance = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch, JOIN])))
        sizes = chance.integers(how.fewest, how.most + 1, size=count)
        self._rows = [chance.integers(0, len(store), size=size) for size in sizes]
        self._gaps = [np.round(chance.uniform(*how.gap, size=size) * store.sound.rate).astype(int) for size in sizes]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> Utterance:
        rate, lengths = self._store.sound.rate, self._store.lengths()[0]
        segments, place = [], 0
        loads: list[tuple[Callable[[], Float[np.ndarray, " N"]], int]] = []
        for clip, gap in zip(self._rows[row].tolist(), self._gaps[row].tolist(), strict=True):
            one, length = self._store[clip], int(lengths[clip])
            segments.append(Segment(one.text, place / rate, (place + length) / rate))
            loads.append((one.load, gap))
            place += length + gap
        name = f"sequence {row + 1} of {self._store.name}"
        return Utterance(name, self._text(row), tuple(segments), partial(_together, loads))

    def ids(self, row: int) -> NDArray[Any]:
        if self._vocabulary is None:
            return np.empty(0, np.int64)
        return np.array(target_ids(self._vocabulary, self._text(row)))

    def _text(self, row: int) -> str:
        return " ".join(self._store[clip].text for clip in self._rows[row].tolist())

    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        samples, tokens = self._store.lengths()
        sound = [samples[rows].sum() + gaps.sum() for rows, gaps in zip(self._rows, self._gaps, strict=True)]
        # As if a space were a token, which it is for characters; other kinds have a few fewer.
        text = [tokens[rows].sum() for rows in self._rows]
        return np.array(sound, np.int64), np.array(text, np.int64)


def _together(loads: list[tuple[Callable[[], Float[np.ndarray, " N"]], int]]) -> Float[np.ndarray, " N"]:
    return np.concatenate([part for load, gap in loads for part in (load(), np.zeros(gap, np.float32))])
