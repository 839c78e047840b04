"""Stored recordings as examples, augmented for training.

    row → samples → (joined with others) → (faster or slower) → (noise) → log-mel → (SpecAugment) → padded with zeros

Random numbers of a row depend on (seed, epoch, row) alone, so a resumed run gets identical batches.
"""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.corpora.tones import Segment
from regard.data.batches import Padded, random_generator
from regard.data.examples import Example
from regard.data.pairs import SkippedLine, excerpt
from regard.data.store import Array
from regard.data.vocabulary import Vocabulary, target_ids
from regard.inputs.media import Loaded, MediaColumn, MediaExamples, MediaStore, write_media
from regard.inputs.media_files import Entry
from regard.inputs.sound.features import frame_count, log_mel, spec_augment
from regard.inputs.sound.recording import Sound, SoundError, is_clipped, is_silent, read_sound, resample
from regard.inputs.sound.settings import AugmentSettings, JoinSettings, SoundSettings

FULL = 32767


class SoundStore(MediaStore):
    """Store of recordings: their sound at the model's rate.

    Samples are stored rather than features. Joining and speed perturbation change the sound in every epoch, and the
    features of a batch take little time compared with training on it. Samples are int16, each recording scaled to
    its peak.
    """

    def gold(self, written: list[Any]) -> tuple[Segment, ...]:
        return tuple(Segment(*one) for one in written)

    def samples(self, number: int, start: int = 0, end: int | None = None) -> Float[np.ndarray, " N"]:
        """Read all of a recording, or only a part of it."""
        return self.row("values", number)[start:end].astype(np.float32) * (self["scale"][number] / FULL)


def write_sounds(folder: Path, items: Iterable[Entry | SkippedLine], rate: int, *, name: str) -> None:
    """Read all recordings into `folder`, which must exist, one at a time in memory."""
    write_media(folder, name, (_load_recording(item, rate) for item in items), Array("int16", ragged=True))


def _load_recording(entry: Entry | SkippedLine, rate: int) -> Loaded | SkippedLine:
    """Return a recording with its samples, or a `SkippedLine` with the reason if it has none."""
    if isinstance(entry, SkippedLine):
        return entry
    try:
        sound = entry.place if isinstance(entry.place, Sound) else read_sound(entry.place)
    except SoundError as problem:
        reason = f"{entry.name} {problem}"
        return SkippedLine(entry.file, entry.line, "unreadable", reason, excerpt(entry.texts[0]), len(entry.texts))
    if is_silent(sound.samples):
        reason = f"{entry.name} is silent, but has a text"
        return SkippedLine(entry.file, entry.line, "empty", reason, excerpt(entry.texts[0]), len(entry.texts))
    samples = resample(sound.samples, sound.rate, rate)
    peak = float(np.abs(samples).max())
    notes = ("clipped: recorded too loud",) if is_clipped(sound.samples) else ()
    return Loaded(entry, np.round(samples * (FULL / peak)).astype(np.int16), notes, peak)


JOIN, CHANGE, WINDOW = 1, 2, 3  # keys of random numbers for different purposes


class Utterance(NamedTuple):
    """Recording of a store, or several joined; `load` reads its samples, at the model's rate."""

    name: str
    load: Callable[[], Float[np.ndarray, " N"]]


@dataclass(frozen=True)
class Sequences:
    """Sequences of short recordings: a few, sampled at random, joined with pauses.

    The choice and the pauses depend on `seed` and `epoch` alone.
    """

    rows: list[NDArray[np.int64]]
    gaps: list[NDArray[np.int64]]  # in samples

    @classmethod
    def drawn(
        cls, entries: NDArray[np.int64], how: JoinSettings, count: int, rate: int, seed: int, epoch: int
    ) -> "Sequences":
        chance = random_generator(seed, epoch, JOIN)
        sizes = chance.integers(how.fewest, how.most + 1, size=count)
        rows = [entries[chance.integers(0, len(entries), size=size)] for size in sizes]
        gaps = [np.round(chance.uniform(*how.gap, size=size) * rate).astype(np.int64) for size in sizes]
        return cls(rows, gaps)


class SoundColumn(MediaColumn):
    """Reader of samples and features. `augment`: augmentation, different for every row and epoch. `window`: seconds of
    a longer recording that are read at once: the first ones, or in training different ones in every epoch.
    """

    def __init__(
        self,
        store: SoundStore,
        sound: SoundSettings,
        augment: AugmentSettings | None,
        seed: int,
        window: float = float("inf"),
    ) -> None:
        super().__init__(store)
        self.store, self.sound, self.augment, self.seed = store, sound, augment, seed
        self.samples = store.row_lengths("values")
        most = int(min(window * sound.rate, self.samples.max(initial=1)))
        #: Samples of each recording that are read at once.
        self.heard = np.minimum(self.samples, max(1, most))

    def length(self, number: int) -> int:
        return frame_count(int(self.heard[number]), self.sound)

    def source(self, numbers: NDArray[np.int64], rows: NDArray[np.int64], epoch: int) -> Padded:
        pairs = zip(numbers.tolist(), rows.tolist(), strict=True)
        return Padded.of([self.features(self._window(number, row, epoch), row, epoch) for number, row in pairs])

    def _window(self, number: int, row: int, epoch: int) -> Float[np.ndarray, " N"]:
        spare, heard, start = int(self.samples[number] - self.heard[number]), int(self.heard[number]), 0
        if spare and self.augment is not None:
            start = int(random_generator(self.seed, epoch, row, WINDOW).integers(0, spare + 1))
        return self.store.samples(number, start, start + heard)

    def one(self, number: int) -> Utterance:
        return Utterance(f"recording {number + 1} of {self.store.name}", lambda: self.store.samples(number))

    def chance(self, row: int, epoch: int) -> np.random.Generator:
        return random_generator(self.seed, epoch, row, CHANGE)

    def speed(self, row: int, epoch: int) -> float:
        """Sample the speed of a row; it is sampled first."""
        return 1.0 if self.augment is None else float(self.chance(row, epoch).choice(self.augment.speeds))

    def features(self, samples: Float[np.ndarray, " N"], row: int, epoch: int) -> Float[Tensor, "S F"]:
        how, sound = self.augment, self.sound
        if how is None:
            return torch.from_numpy(log_mel(samples, sound))
        chance = self.chance(row, epoch)
        samples = resample(samples, float(chance.choice(how.speeds)), 1.0)
        if how.noise is not None:
            below = how.noise + chance.exponential(10.0)  # dB
            level = np.sqrt(np.mean(samples**2)) * 10 ** (-below / 20)
            samples = samples + level * chance.standard_normal(len(samples), np.float32)
        return torch.from_numpy(spec_augment(log_mel(samples, sound), how, sound.hop, chance))


class SoundExamples(MediaExamples):
    def __init__(
        self,
        store: SoundStore,
        sound: SoundSettings,
        vocabulary: Vocabulary | None,
        *,
        max_length: int | None = None,
        max_seconds: float = float("inf"),
        window: float = float("inf"),
        augment: AugmentSettings | None = None,
        join: JoinSettings | None = None,
        sequences: int = 0,
        seed: int = 0,
    ) -> None:
        """Create examples.

        max_length   longer targets are left out, and recordings longer than `max_seconds`
        window       seconds of a longer recording that are read at once
        augment      augmentation for training; None: every epoch equals the first
        join         make this number of `sequences` of the recordings
        """
        self.column = SoundColumn(store, sound, augment, seed, window)
        longest = frame_count(int(max_seconds * sound.rate), sound) if max_seconds < float("inf") else max_seconds
        super().__init__(store, self.column, vocabulary, max_length=max_length, longest=longest)
        self._join, self._sequences, self._epoch = join, sequences, 0
        self._other: SoundExamples | None = None  # another epoch, cached: the last one requested

    def in_epoch(self, number: int) -> "SoundExamples":
        if self.column.augment is None or number == self._epoch:
            return self
        if self._other is None or self._other._epoch != number:
            self._other = copy(self)
            self._other._epoch, self._other._other = number, None
            vars(self._other).pop("_joined", None)
        return self._other

    @cached_property
    def _joined(self) -> Sequences | None:
        if self._join is None:
            return None
        entries = np.arange(len(self.store)) if self._vocabulary is None else np.unique(self.numbers)
        rate, seed = self.column.sound.rate, self.column.seed
        return Sequences.drawn(entries, self._join, self._sequences, rate, seed, self._epoch)

    def __len__(self) -> int:
        return super().__len__() if self._joined is None else len(self._joined.rows)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return frames, at the sampled speed, and tokens."""
        _, tokens = super().lengths()
        samples = self.column.heard[self.numbers[:, 0]]
        if self._joined is not None:
            # Count a space as one token, as for characters; other vocabularies have a few fewer.
            first = np.zeros(len(self.store), np.int32)
            first[self.numbers[::-1, 0]] = tokens[::-1]
            tokens = np.array([first[rows].sum() for rows in self._joined.rows], np.int32)
            drawn = zip(self._joined.rows, self._joined.gaps, strict=True)
            samples = np.array([self.column.samples[rows].sum() + gaps.sum() for rows, gaps in drawn])
        speeds = np.array([self.column.speed(row, self._epoch) for row in range(len(self))])
        frames = [frame_count(int(count), self.column.sound) for count in np.ceil(samples / speeds)]
        return np.array(frames, np.int32), tokens

    def source(self, rows: NDArray[np.int64], epoch: int) -> Padded:
        here = self.in_epoch(epoch)
        if here._joined is None:
            return super().source(rows, here._epoch)
        heard = [here.column.features(here.joined(row).input.load(), row, here._epoch) for row in rows.tolist()]
        return Padded.of(heard)

    def target(self, row: int) -> NDArray[Any]:
        if self._joined is None or self._vocabulary is None:
            return super().target(row)
        return target_ids(self._vocabulary, [self.joined(row).texts[0]])[0]

    def examples(self, most: int) -> list[Example]:
        """Return the first sequences, if recordings are joined."""
        if self._joined is None:
            return super().examples(most)
        return [self.joined(row) for row in range(min(most, len(self)))]

    def overlong(self) -> list[tuple[int, Any]]:
        if self._joined is not None:
            return []
        numbers = self.numbers[:, 0]
        rows = np.flatnonzero(self.column.samples[numbers] > self.column.heard[numbers])
        return [(int(row), self.column.one(int(numbers[row]))) for row in rows]

    def every(self) -> list[Example]:
        return self.examples(max(len(self.said), len(self)))

    def joined(self, row: int) -> Example:
        """Return a sequence: its texts joined by spaces, and the time span of each."""
        assert self._joined is not None
        rows, gaps = self._joined.rows[row].tolist(), self._joined.gaps[row].tolist()
        rate, segments, place = self.column.sound.rate, [], 0
        for number, gap in zip(rows, gaps, strict=True):
            end = place + int(self.column.samples[number])
            segments.append(Segment(self.store.entries[number].texts[0], place / rate, end / rate))
            place = end + gap

        def load() -> Float[np.ndarray, " N"]:
            heard = zip(map(self.column.store.samples, rows), gaps, strict=True)
            return np.concatenate([part for one, gap in heard for part in (one, np.zeros(gap, np.float32))])

        text = " ".join(segment.text for segment in segments)
        return Example(Utterance(f"sequence {row + 1} of {self.store.name}", load), (text,), tuple(segments))

    def read_recordings(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return samples and tokens of single recordings, as stored."""
        return self.column.samples[self.numbers[:, 0]], super().lengths()[1]
