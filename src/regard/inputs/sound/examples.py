"""Stored recordings as examples, augmented for training.

    row → samples → (joined with others) → (faster or slower) → (noise) → log-mel → (SpecAugment) → padded with zeros

What is drawn for a row comes from (seed, epoch, row) alone, so a stopped run goes on with the very same batches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.data.examples import Example, Examples
from regard.inputs.base import Vocabulary
from regard.inputs.sound.features import frame_count, log_mel, spec_augment
from regard.inputs.sound.joined import Joined
from regard.inputs.sound.resample import resample
from regard.inputs.sound.settings import AugmentSettings, JoinSettings
from regard.inputs.sound.store import SpeechStore, Utterance

CHANGE = 2  # what random numbers are for; see JOIN


@dataclass(frozen=True)
class Frames:
    """Features of B recordings, padded with zeros at the end, and how many frames each has."""

    values: Float[Tensor, "B S F"]
    lengths: Int[Tensor, " B"]

    def to(self, device: torch.device | str) -> "Frames":
        return Frames(self.values.to(device, non_blocking=True), self.lengths.to(device, non_blocking=True))


def collate(features: Sequence[Float[Tensor, "..."]]) -> Frames:
    return Frames(pad_sequence(list(features), batch_first=True), torch.tensor([len(one) for one in features]))


@runtime_checkable
class Utterances(Protocol):
    """Rows of sound and text; a store is one, and so are sequences joined of the recordings in a store."""

    def __len__(self) -> int: ...
    def __getitem__(self, row: int) -> Utterance: ...
    def ids(self, row: int) -> NDArray[Any]: ...
    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...


class SpeechExamples(Examples):
    def __init__(
        self,
        store: SpeechStore,
        vocabulary: Vocabulary | None,
        *,
        augment: AugmentSettings | None = None,
        join: JoinSettings | None = None,
        sequences: int = 0,
        seed: int = 0,
        epoch: int = 0,
    ) -> None:
        """
        vocabulary   of the targets; None for what is only measured on
        augment      changes for training, others in every epoch; None: every epoch is as the first
        join         make so many `sequences` of the recordings
        """
        self.store, self.name, self.counts = store, store.name, store.counted.counts.read
        self._vocabulary, self._augment, self._join, self._sequences = vocabulary, augment, join, sequences
        self._seed, self._epoch = seed, epoch
        self._other: SpeechExamples | None = None  # the last epoch that was asked for, beside this one
        self._rows: Utterances = store
        if join is not None:
            self._rows = Joined(store, vocabulary, join, sequences, seed, epoch)

    def in_epoch(self, number: int) -> "SpeechExamples":
        if self._augment is None or number == self._epoch:
            return self
        if self._other is None or self._other._epoch != number:
            self._other = SpeechExamples(
                self.store, self._vocabulary,
                augment=self._augment, join=self._join, sequences=self._sequences, seed=self._seed, epoch=number,
            )  # fmt: skip
        return self._other

    def __len__(self) -> int:
        return len(self._rows)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Frames, at the speed that was drawn, and tokens."""
        samples, tokens = self._rows.lengths()
        frames = [frame_count(int(count), self.store.sound) for count in np.ceil(samples / self._speeds)]
        return np.array(frames, np.int32), tokens.astype(np.int32)

    def source(self, rows: NDArray[np.int64], epoch: int) -> Frames:
        here = self.in_epoch(epoch)
        return collate([here._features(int(row)) for row in rows])

    def target(self, row: int) -> NDArray[Any]:
        return self._rows.ids(row)

    def digest(self) -> str:
        return self.store.digest()

    def targets_read(self) -> Iterator[tuple[str, int]]:
        for row in range(len(self.store)):
            yield self.store[row].text, int(self.store.lines[row])

    def examples(self, most: int) -> list[Example]:
        some = (self._rows[row] for row in range(min(most, len(self))))
        return [Example(one, (one.text,), one.segments or None) for one in some]

    # --------------------------------------------------------------------------------------------------- augmentation
    @cached_property
    def _speeds(self) -> NDArray[np.float64]:
        if (how := self._augment) is None:
            return np.ones(len(self))
        return np.array([self._chance(row).choice(how.speeds) for row in range(len(self))])

    def _features(self, row: int) -> Float[Tensor, "S F"]:
        samples, how, sound = self._rows[row].load(), self._augment, self.store.sound
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
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, self._epoch, row, CHANGE])))
