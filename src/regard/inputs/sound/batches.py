"""Batches of sound: recordings of like length, augmented, as features.

    row → samples → (joined with others) → (faster or slower) → (noise) → log-mel → (SpecAugment) → padded with zeros

What is drawn for a row comes from (seed, epoch, row) alone, so a stopped run goes on with the very same batches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.corpora.tones import Segment
from regard.data.batches import PlannedBatches, padded
from regard.data.tokenizer import Tokenizer
from regard.inputs.sound.features import frame_count, log_mel, spec_augment
from regard.inputs.sound.resample import resample
from regard.inputs.sound.store import SpeechStore, Utterance
from regard.outputs.text.transcribe_settings import AugmentSettings, JoinSettings, SoundSettings
from regard.special_tokens import END, PAD

_JOIN, _CHANGE = 1, 2  # what random numbers are for: two purposes never share them


@dataclass(frozen=True)
class Frames:
    """Features of B recordings, padded with zeros at the end, and how many frames each has."""

    values: Float[Tensor, "B S F"]
    lengths: Int[Tensor, " B"]

    def to(self, device: torch.device | str) -> "Frames":
        return Frames(self.values.to(device, non_blocking=True), self.lengths.to(device, non_blocking=True))

    @property
    def device(self) -> torch.device:
        return self.values.device


@dataclass(frozen=True)
class SpeechBatch:
    """`target` ends with `</s>` and is padded with 0; all of it is padding where a process has no share of a batch."""

    source: Frames
    target: Int[Tensor, "B T"]

    def to(self, device: torch.device | str) -> "SpeechBatch":
        return SpeechBatch(self.source.to(device), self.target.to(device, non_blocking=True))


@runtime_checkable
class Utterances(Protocol):
    """Rows of sound and text; a store is one, and so are sequences joined of the recordings in a store."""

    def __len__(self) -> int: ...
    def __getitem__(self, row: int) -> Utterance: ...
    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...


class Joined:
    """Sequences of a store's recordings: which ones and with what pauses follows from `seed` and `epoch` alone."""

    def __init__(
        self, store: SpeechStore, tokenizer: Tokenizer, how: JoinSettings, count: int, seed: int, epoch: int = 0
    ) -> None:
        self._store, self._tokenizer = store, tokenizer
        rate = store.sound.rate
        chance = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch, _JOIN])))
        sizes = chance.integers(how.fewest, how.most + 1, size=count)
        self._rows = [chance.integers(0, len(store), size=size) for size in sizes]
        self._gaps = [np.round(chance.uniform(*how.gap, size=size) * rate).astype(int) for size in sizes]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> Utterance:
        rate = self._store.sound.rate
        parts: list[NDArray[np.float32]] = []
        segments, texts, place = [], [], 0
        for clip, gap in zip(self._rows[row], self._gaps[row], strict=True):
            one = self._store[int(clip)]
            segments.append(Segment(one.text, place / rate, (place + len(one.samples)) / rate))
            texts.append(one.text)
            parts += [one.samples, np.zeros(gap, np.float32)]
            place += len(one.samples) + int(gap)
        text = " ".join(texts)
        ids = np.array([*self._tokenizer.encode(text), END])
        return Utterance(np.concatenate(parts), ids, text, tuple(segments))

    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        samples, tokens = self._store.lengths()
        sound = [samples[rows].sum() + gaps.sum() for rows, gaps in zip(self._rows, self._gaps, strict=True)]
        # As if a space were a token, which it is for characters; other kinds have a few fewer.
        text = [tokens[rows].sum() for rows in self._rows]
        return np.array(sound, np.int64), np.array(text, np.int64)


class _EpochBatches(PlannedBatches[SpeechBatch]):
    """The batches of one epoch."""

    def __init__(
        self,
        utterances: Utterances,
        sound: SoundSettings,
        augment: AugmentSettings | None,
        max_tokens: int,
        seed: int,
        epoch: int,
    ) -> None:
        samples, tokens = utterances.lengths()
        self._utterances, self._sound, self._augment = utterances, sound, augment
        self._chances = (seed, epoch)
        self._speeds = np.ones(len(samples))
        if augment is not None:
            self._speeds = np.array([self._chance(row).choice(augment.speeds) for row in range(len(samples))])
        frames = [frame_count(int(count), sound) for count in np.ceil(samples / self._speeds)]
        super().__init__(np.array(frames, np.int32), tokens.astype(np.int32), max_tokens, seed=seed)

    def batch(self, rows: NDArray[np.int64]) -> SpeechBatch:
        if not len(rows):
            nothing = collate([torch.zeros(1, self._sound.bands)])
            return SpeechBatch(nothing, torch.full((1, 1), PAD))
        utterances = [self._utterances[int(row)] for row in rows]
        features = [self._features(one.samples, int(row)) for one, row in zip(utterances, rows, strict=True)]
        return SpeechBatch(collate(features), padded([one.ids for one in utterances]))

    def _features(self, samples: NDArray[np.float32], row: int) -> Float[Tensor, "S F"]:
        how = self._augment
        if how is None:
            return log_mel(samples, self._sound)
        chance = self._chance(row)
        chance.choice(how.speeds)  # drawn when the epoch was planned
        samples = resample(samples, self._speeds[row], 1.0)
        if how.noise is not None:
            below = how.noise + chance.exponential(10.0)  # dB
            level = np.sqrt(np.mean(samples**2)) * 10 ** (-below / 20)
            samples = samples + level * chance.standard_normal(len(samples), np.float32)
        return spec_augment(log_mel(samples, self._sound), how, self._sound.hop, chance)

    def _chance(self, row: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([*self._chances, row, _CHANGE])))


class SpeechBatches:
    """The training data, epoch by epoch: the store's recordings, or `join.train` sequences of them."""

    def __init__(
        self,
        store: SpeechStore,
        tokenizer: Tokenizer,
        max_tokens: int,
        *,
        augment: AugmentSettings | None = None,
        join: JoinSettings | None = None,
        seed: int = 0,
    ) -> None:
        self._store, self._tokenizer, self._max_tokens = store, tokenizer, max_tokens
        self._augment, self._join, self._seed = augment, join, seed
        self._made: tuple[int, _EpochBatches] | None = None

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[SpeechBatch]:
        return self._of(number).epoch(number, start, rank, world)

    def len_epoch(self, number: int) -> int:
        return self._of(number).len_epoch(number)

    def fill(self, epoch: int = 0) -> float:
        return self._of(epoch).fill(epoch)

    def _of(self, epoch: int) -> _EpochBatches:
        """The last one asked for is remembered."""
        if self._made is None or self._made[0] != epoch:
            utterances: Utterances = self._store
            if self._join is not None:
                utterances = Joined(self._store, self._tokenizer, self._join, self._join.train, self._seed, epoch)
            made = _EpochBatches(utterances, self._store.sound, self._augment, self._max_tokens, self._seed, epoch)
            self._made = (epoch, made)
        return self._made[1]


def plain_batches(utterances: Utterances, sound: SoundSettings, max_tokens: int) -> Iterator[SpeechBatch]:
    """All rows once, as they are."""
    return _EpochBatches(utterances, sound, None, max_tokens, 0, 0).epoch(0)


def collate(features: list[Float[Tensor, "..."]]) -> Frames:
    return Frames(pad_sequence(features, batch_first=True), torch.tensor([len(one) for one in features]))
