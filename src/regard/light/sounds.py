"""Recordings, for graphs: the features are those of training (`inputs/sound/features.py`)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.errors import CallError
from regard.inputs.media_files import files_named, find_file
from regard.inputs.sound.features import MemoryTimes, log_mel, silence
from regard.inputs.sound.recording import ENDINGS, Sound, SoundError, is_clipped, is_silent, open_sound, read_sound
from regard.inputs.sound.resample import resample
from regard.inputs.sound.wav import as_wav
from regard.inputs.sound.windows import Window, windows
from regard.light.inputs import LightInput
from regard.light.session import Arrays
from regard.look.axis import Axis


class SoundItem(NamedTuple):
    """A recording or a window of one."""

    name: str
    features: np.ndarray  # S F
    start: float  # in the recording, in seconds
    seconds: float
    silent: bool
    clipped: bool


class LightSound(LightInput):
    kind: ClassVar[str] = "sound"
    array_dims: ClassVar[int] = 2
    takes_files: ClassVar[bool] = True

    def parse(self, words: Sequence[str]) -> list[str]:
        return files_named(words, lambda name: PurePosixPath(name).suffix.lower() in ENDINGS, "recording")

    def name(self, one: Any) -> str:
        if isinstance(one, Sound | SoundItem):
            return one.name
        return str(one) if isinstance(one, str | Path) else f"a recording ({type(one).__name__})"

    def read(self, one: Any) -> SoundItem:
        (item,) = self.pieces(one, float("inf"))
        return item

    def pieces(self, one: Any, longest: float) -> Iterator[SoundItem]:
        """Cut where it is quiet into windows of at most `longest` seconds."""
        if isinstance(one, SoundItem):
            yield one
            return
        name = self.name(one)
        try:
            place = self._place(one)
            if isinstance(place, Sound):
                yield from (self._item(name, window) for window in windows(place, longest))
                return
            with open_sound(place) as file:
                yield from (self._item(name, window) for window in windows(file, longest))
        except SoundError as problem:
            raise CallError(f"{name}: {problem}") from None

    def _place(self, one: Any) -> Any:
        if isinstance(one, Mapping) and {"array", "sampling_rate"} <= one.keys():
            return Sound(one["array"], one["sampling_rate"])
        if not isinstance(one, Sound | str | Path | bytes):
            raise CallError(f"an input is the path or the bytes of a recording, or a Sound, not {type(one).__name__}")
        return find_file(str(one), "recording") if isinstance(one, str | Path) else one

    def _item(self, name: str, window: Window) -> SoundItem:
        sound, how = window.sound, self.recipe.data.sound
        silent = is_silent(sound.samples)
        heard = silence(how) if silent else log_mel(resample(sound.samples, sound.rate, how.rate), how)
        return SoundItem(name, heard, window.start, sound.seconds, silent, is_clipped(sound.samples))

    def heard(self, one: Any) -> bytes:
        place = self._place(one)
        return as_wav(place if isinstance(place, Sound) else read_sound(place))

    def length(self, item: SoundItem) -> int:
        return 0 if item.silent else len(item.features)

    def collate(self, items: Sequence[SoundItem]) -> Arrays:
        lengths = np.array([len(item.features) for item in items], np.int64)
        values = np.zeros((len(items), int(lengths.max()), items[0].features.shape[1]), np.float32)
        for row, item in zip(values, items, strict=True):
            row[: len(item.features)] = item.features
        return {"values": values, "lengths": lengths}

    def axis(self, item: SoundItem) -> Axis:
        return MemoryTimes(self.recipe.data.sound, self.reads["reduction"]).axis(item.features)
