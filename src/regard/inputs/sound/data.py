"""Recordings from files: stored on disk and checked. `item.py` reads single recordings of the user."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.data.check import DataCheck
from regard.data.pairs import Bad
from regard.data.tables import Role
from regard.data.vocabulary import Vocabulary
from regard.inputs.media_input import MediaInput
from regard.inputs.media_source import Entry, MediaSource
from regard.inputs.media_store import MediaStore
from regard.inputs.sound import defaults
from regard.inputs.sound.examples import SoundExamples, Utterance
from regard.inputs.sound.features import MemoryTimes, frame_count
from regard.inputs.sound.item import SoundReader
from regard.inputs.sound.recording import Sound, SoundError, read_sound
from regard.inputs.sound.source import SoundSource
from regard.inputs.sound.store import SoundStore, write_sounds
from regard.settings.decisions import Decision

ODD_RATE = 4.0  # a text is suspicious if its tokens per second differ from the usual by this factor ...

ODD_TOKENS = 8  # ... and is not very short

SEEDS: dict[Role, int] = {"valid": 1, "test": 2}  # of joined sequences in validation and test


class SoundData(SoundReader, MediaInput):
    kind: ClassVar[str] = "sound"
    array_dims: ClassVar[int] = 2
    source: ClassVar[type[MediaSource]] = SoundSource
    opened: ClassVar[type[MediaStore]] = SoundStore

    @property
    def form(self) -> list[Any]:
        return [self.data.sound.rate]

    def decided(self) -> list[Decision]:
        facts = []
        for entry in self.some():
            with suppress(SoundError):
                sound = entry.place if isinstance(entry.place, Sound) else read_sound(entry.place)
                facts.append((sound.rate, len(sound.samples) / sound.rate))
        most = defaults.AT_ONCE if self._has_labels else float("inf")
        return defaults.hearing(facts, most=most) if facts else []

    def write(self, folder: Path, name: str, items: Iterable[Entry | Bad]) -> None:
        write_sounds(folder, items, self.data.sound.rate, name=name)

    def texts(self, train: MediaStore) -> Iterable[str]:
        """Add a space, which joined recordings have between their texts, to a vocabulary of characters."""
        texts = super().texts(train)
        return texts if self.data.joined is None else (f"{text} {text}" for text in texts)

    def examples(
        self, stores: dict[Role, SoundStore], vocabulary: Vocabulary | None, cache: Path | None
    ) -> Mapping[Role, SoundExamples]:
        """Maximum length in training. Validation and test data are never left out for their length: a score covers all
        data. Recordings with labels are never left out: each window of a long one has its label.
        """
        data, join = self.data, self.data.joined
        how: dict[str, dict[str, Any]] = {role: {"seed": seed} for role, seed in SEEDS.items()}
        how["train"] = {
            "max_length": self.max_length, "max_seconds": data.max_seconds, "augment": data.augment,
            "seed": self.recipe.training.seed,
        }  # fmt: skip
        if self._has_labels:
            del how["train"]["max_seconds"]
            how = {role: {**how.get(role, {}), "window": data.max_seconds} for role in stores}
        sequences = {role: 0 if join is None else getattr(join, role) for role in stores}
        return {
            role: SoundExamples(store, data.sound, vocabulary, join=join, sequences=sequences[role], **how[role])
            for role, store in stores.items()
        }

    def look_over(self, check: DataCheck, splits: dict[Role, SoundExamples]) -> dict[str, str]:
        advice, durations = "check whether the text belongs to the sound", {}
        for role, one in splits.items():
            samples, tokens = one.recorded()
            vectors = np.array([frame_count(int(count), self.data.sound) for count in samples])
            crowded = tokens - 1 > np.maximum(vectors // self.times.reduction, 1)
            what = "with more tokens of text than the model has vectors of sound"
            more = f"{advice}; or lower model.pyramid, or use sub-words"
            check.at("warning", role, np.unique(one.numbers[crowded]), what, more)
            pace, usual = tokens / np.maximum(samples, 1), np.median(tokens / np.maximum(samples, 1))
            odd = (np.abs(np.log(pace / usual)) > np.log(ODD_RATE)) & (tokens >= ODD_TOKENS) & ~crowded
            what = f"with {ODD_RATE:g} times more or less text a second than usual"
            check.at("warning", role, np.unique(one.numbers[odd]), what, advice)
            long = np.array([one.numbers[row, 0] for row, _ in one.overlong()], np.int64)
            check.at("note", role, long, f"longer than {self.limits}", "they are read in windows")
            seconds = samples.sum() / self.data.sound.rate
            told = f"{seconds / 3600:.1f} hours" if seconds >= 7200 else f"{seconds / 60:.1f} minutes"
            durations[f"sound in {role}"] = told
        return durations

    @property
    def _has_labels(self) -> bool:
        """Whether each window of a recording has the target of the recording."""
        return self.max_length is None

    @property
    def limit(self) -> str:
        return f"{self.window:g} seconds: they are read in windows"

    @property
    def limits(self) -> str:
        seconds = f"data.max_seconds={self.data.max_seconds:g}"
        return seconds if self.max_length is None else f"{seconds} or {super().limits}"

    def place(self, one: Any) -> Any:
        return Sound(one.load(), self.data.sound.rate) if isinstance(one, Utterance) else super().place(one)

    def name(self, one: Any) -> str:
        return one.name if isinstance(one, Utterance) else super().name(one)

    @property
    def times(self) -> MemoryTimes:
        return MemoryTimes(self.data.sound, self.settings.reduction)
