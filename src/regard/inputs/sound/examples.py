"""Stored recordings as examples, augmented for training.

    row → samples → (joined with others) → (faster or slower) → (noise) → log-mel → (SpecAugment) → padded with zeros

What is drawn for a row comes from (seed, epoch, row) alone, so a stopped run goes on with the very same batches.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.corpora.tones import Segment
from regard.data.batches import seeded
from regard.data.check import Listing
from regard.data.examples import Example
from regard.data.vocabulary import Vocabulary, target_ids
from regard.inputs.media_store import MediaExamples
from regard.inputs.padded import Padded
from regard.inputs.sound.features import frame_count, log_mel, spec_augment
from regard.inputs.sound.resample import resample
from regard.inputs.sound.settings import AugmentSettings, JoinSettings, SoundSettings
from regard.inputs.sound.source import SoundStore

JOIN, CHANGE = 1, 2  # what random numbers are for: two purposes never share them


class Utterance(NamedTuple):
    """A recording of a store, or several joined; `load` reads its samples, at the model's rate."""

    name: str
    load: Callable[[], Float[np.ndarray, " N"]]


@dataclass(frozen=True)
class Sequences:
    """Longer recordings of short ones: a few, drawn at random, one after the other with pauses between.

    Which ones and with what pauses follows from `seed` and `epoch` alone.
    """

    rows: list[NDArray[np.int64]]
    gaps: list[NDArray[np.int64]]  # in samples

    @classmethod
    def drawn(
        cls, entries: NDArray[np.int64], how: JoinSettings, count: int, rate: int, seed: int, epoch: int
    ) -> "Sequences":
        chance = seeded(seed, epoch, JOIN)
        sizes = chance.integers(how.fewest, how.most + 1, size=count)
        rows = [entries[chance.integers(0, len(entries), size=size)] for size in sizes]
        gaps = [np.round(chance.uniform(*how.gap, size=size) * rate).astype(np.int64) for size in sizes]
        return cls(rows, gaps)


class SoundExamples(MediaExamples):
    def __init__(
        self,
        store: SoundStore,
        sound: SoundSettings,
        vocabulary: Vocabulary | None,
        *,
        max_length: int | None = None,
        max_seconds: float = float("inf"),
        augment: AugmentSettings | None = None,
        join: JoinSettings | None = None,
        sequences: int = 0,
        seed: int = 0,
        epoch: int = 0,
    ) -> None:
        """
        max_length   longer targets are left out, and recordings longer than `max_seconds`
        augment      changes for training, others in every epoch; None: every epoch is as the first
        join         make so many `sequences` of the recordings
        """
        self._samples = store.row_lengths("values")
        wanted = np.flatnonzero(self._samples <= max_seconds * sound.rate).tolist()
        super().__init__(store, vocabulary, max_length=max_length, wanted=wanted)
        self.store, self.sound, self._augment, self._seed, self._epoch = store, sound, augment, seed, epoch
        self._join, self._sequences = join, sequences
        self._other: SoundExamples | None = None  # the last epoch that was asked for, beside this one

    def in_epoch(self, number: int) -> "SoundExamples":
        if self._augment is None or number == self._epoch:
            return self
        if self._other is None or self._other._epoch != number:
            self._other = copy(self)
            self._other._epoch, self._other._other = number, None
            for drawn in ("_joined", "_speeds"):
                vars(self._other).pop(drawn, None)
        return self._other

    @cached_property
    def _joined(self) -> Sequences | None:
        if self._join is None:
            return None
        entries = np.arange(len(self.store)) if self._vocabulary is None else np.unique(self.entry_of)
        return Sequences.drawn(entries, self._join, self._sequences, self.sound.rate, self._seed, self._epoch)

    def __len__(self) -> int:
        return super().__len__() if self._joined is None else len(self._joined.rows)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Frames, at the speed that was drawn, and tokens."""
        if self._joined is None:
            samples, tokens = self._samples[self.entry_of], self.target_lengths
        else:
            drawn = zip(self._joined.rows, self._joined.gaps, strict=True)
            samples = np.array([self._samples[rows].sum() + gaps.sum() for rows, gaps in drawn])
            # As if a space were a token, which it is for characters; other kinds have a few fewer.
            first = np.zeros(len(self.store), np.int32)
            first[self.entry_of[::-1]] = self.target_lengths[::-1]
            tokens = np.array([first[rows].sum() for rows in self._joined.rows], np.int32)
        frames = [frame_count(int(count), self.sound) for count in np.ceil(samples / self._speeds)]
        return np.array(frames, np.int32), tokens

    def source(self, rows: NDArray[np.int64], epoch: int) -> Padded:
        here = self.in_epoch(epoch)
        return Padded.of([here._features(int(row)) for row in rows])

    def target(self, row: int) -> NDArray[Any]:
        if self._joined is None or self._vocabulary is None:
            return super().target(row)
        return target_ids(self._vocabulary, [self.joined(row).texts[0]])[0]

    def examples(self, most: int) -> list[Example]:
        """The first ones."""
        if self._joined is None:
            return [self.example(number) for number in range(min(most, len(self.store)))]
        return [self.joined(row) for row in range(min(most, len(self)))]

    def every(self) -> list[Example]:
        return self.examples(max(len(self.store), len(self)))

    def example(self, number: int) -> Example:
        entry, name = self.store.entries[number], f"recording {number + 1} of {self.store.name}"
        return Example(Utterance(name, lambda: self.store.samples(number)), entry.texts, entry.gold or None)

    def joined(self, row: int) -> Example:
        """A sequence: its texts with spaces between, and when each of them is heard."""
        assert self._joined is not None
        rows, gaps = self._joined.rows[row].tolist(), self._joined.gaps[row].tolist()
        rate, segments, place = self.sound.rate, [], 0
        for number, gap in zip(rows, gaps, strict=True):
            end = place + int(self._samples[number])
            segments.append(Segment(self.store.entries[number].texts[0], place / rate, end / rate))
            place = end + gap

        def load() -> Float[np.ndarray, " N"]:
            parts = ((self.store.samples(n), np.zeros(gap, np.float32)) for n, gap in zip(rows, gaps, strict=True))
            return np.concatenate([one for part in parts for one in part])

        text = " ".join(segment.text for segment in segments)
        return Example(Utterance(f"sequence {row + 1} of {self.store.name}", load), (text,), tuple(segments))

    def recorded(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Samples and tokens of single recordings, as they were read."""
        return self._samples[self.entry_of], self.target_lengths

    def listing(self) -> Listing:
        return self.listed(frame_count(int(count), self.sound) for count in self._samples)

    # --------------------------------------------------------------------------------------------------- augmentation
    @cached_property
    def _speeds(self) -> NDArray[np.float64]:
        if (how := self._augment) is None:
            return np.ones(len(self))
        return np.array([self._chance(row).choice(how.speeds) for row in range(len(self))])

    def _features(self, row: int) -> Float[Tensor, "S F"]:
        samples = self.store.samples(int(self.entry_of[row])) if self._joined is None else self.joined(row).input.load()
        how, sound = self._augment, self.sound
        if how is None:
            return log_mel(samples, sound)
        chance = self._chance(row)
        chance.choice(how.speeds)  # the speed, which was drawn when the epoch was planned
        samples = resample(samples, self._speeds[row], 1.0)
        if how.noise is not None:
            below = how.noise + chance.exponential(10.0)  # dB
            level = np.sqrt(np.mean(samples**2)) * 10 ** (-below / 20)
            samples = samples + level * chance.standard_normal(len(samples), np.float32)
        return spec_augment(log_mel(samples, sound), how, sound.hop, chance)

    def _chance(self, row: int) -> np.random.Generator:
        return seeded(self._seed, self._epoch, row, CHANGE)
