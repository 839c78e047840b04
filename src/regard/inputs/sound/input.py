"""Sound input: features of short windows, an encoder, and a time axis in seconds."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from regard.attention import Sinusoidal
from regard.data.batches import Padded
from regard.data.check import DataCheck
from regard.data.pairs import SkippedLine
from regard.data.tables import Role
from regard.data.vocabulary import Vocabulary
from regard.encoders.audio import ConvolutionEncoder, PyramidEncoder
from regard.inputs.base import summary_of
from regard.inputs.media import MediaInput, MediaStore
from regard.inputs.media_files import Entry, MediaSource
from regard.inputs.sound import settings
from regard.inputs.sound.examples import SoundExamples, SoundStore, Utterance, write_sounds
from regard.inputs.sound.features import MemoryTimes, frame_count
from regard.inputs.sound.item import SoundItem, SoundReader, SoundSource
from regard.inputs.sound.recording import Sound, SoundError, read_sound
from regard.inputs.sound.settings import ConvolutionSettings, SoundTransformerSettings
from regard.layers.transformer import Block
from regard.look.axis import Axis
from regard.models.build import added_positions, build_pooling, final_norm, transformer_blocks
from regard.settings.recipe import Decision

ODD_RATE = 4.0  # a text is suspicious if its tokens per second differ from the usual by this factor ...

ODD_TOKENS = 8  # ... and is not very short

SEEDS: dict[Role, int] = {"valid": 1, "test": 2}  # of joined sequences in validation and test


class SoundData(SoundReader, MediaInput):
    """Recordings from files: stored on disk and checked. `item.py` reads single recordings of the user."""

    kind: ClassVar[str] = "sound"
    array_dims: ClassVar[int] = 2
    source: ClassVar[type[MediaSource]] = SoundSource
    opened: ClassVar[type[MediaStore]] = SoundStore

    @property
    def form(self) -> list[Any]:
        return [self.data.sound.rate]

    def auto_settings(self) -> list[Decision]:
        facts = []
        for entry in self.sample_examples():
            with suppress(SoundError):
                sound = entry.place if isinstance(entry.place, Sound) else read_sound(entry.place)
                facts.append((sound.rate, len(sound.samples) / sound.rate))
        most = settings.AT_ONCE if self._has_labels else float("inf")
        return settings.hearing(facts, most=most) if facts else []

    def write(self, folder: Path, name: str, items: Iterable[Entry | SkippedLine]) -> None:
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
            samples, tokens = one.read_recordings()
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


class SoundInput(SoundData):
    def collate(self, items: Sequence[SoundItem]) -> Padded:
        return Padded.of([torch.from_numpy(item.features) for item in items])

    def plain(self, one: Any) -> Float[np.ndarray, " D"]:
        """Return the course of each band and its variation."""
        return summary_of(self.read(one).features)

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        s, bands = self.settings, self.data.sound.bands
        if isinstance(s, ConvolutionSettings):
            return ConvolutionEncoder(
                bands, s.channels, transformer_blocks(s, s.encoder_layers, decoder=False),
                positions=added_positions(s), dropout=s.dropout, final_norm=final_norm(s),
            )  # fmt: skip
        if isinstance(s, SoundTransformerSettings):
            blocks = [Block(s.width, s.heads, s.feed_forward, dropout=s.dropout) for _ in range(s.encoder_layers)]
            return ConvolutionEncoder(bands, s.channels, blocks, positions=Sinusoidal(s.width), dropout=s.dropout)
        return PyramidEncoder(
            bands, s.width,
            cell=s.cell, depth=s.encoder_layers, pyramid=s.pyramid, stack=s.stack,
            positions=s.positions, dropout=s.dropout,
        )  # fmt: skip

    def pooling(self, width: int) -> nn.Module:
        return build_pooling(self.settings.pooling, self.settings.score, width)

    # ---------------------------------------------------------------------------------------------------- explanations
    def axis(self, item: SoundItem) -> Axis:
        return self.times.axis(item.features)

    def without(self, item: SoundItem, parts: Collection[int]) -> SoundItem:
        """Return the item with these frames silent: every band at its minimum in the recording."""
        quiet = np.isin(np.arange(len(item.features)) // self.times.reduction, sorted(parts))
        return item._replace(features=np.where(quiet[:, None], item.features.min(axis=0), item.features))

    def vectors(self, encoder: nn.Module) -> nn.Module:
        assert isinstance(encoder, ConvolutionEncoder | PyramidEncoder)
        return encoder.frames

    def gather(self, item: SoundItem, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        table = products[0].sum(-1)  # N S
        return np.add.reduceat(table, np.arange(0, table.shape[1], self.times.reduction), axis=1)
