"""A recording from one's own hand as a model is given it: found, cut into windows, and made into features. No torch."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.errors import CallError
from regard.inputs.sound.features import log_mel, silence
from regard.inputs.sound.recording import Sound, SoundError, is_clipped, is_silent, open_sound, read_sound
from regard.inputs.sound.resample import resample
from regard.inputs.sound.wav import as_wav
from regard.inputs.sound.windows import Window, windows


class SoundItem(NamedTuple):
    """A recording or a window of one. What is silent has no more than a frame, and nobody has to listen to it."""

    name: str
    features: Float[np.ndarray, "S F"]
    start: float  # in the recording, in seconds
    seconds: float
    silent: bool
    clipped: bool


class SoundReader:
    """What inputs of sound have in common, with torch and without. `find`: what a word stands for."""

    recipe: Any
    find: Callable[[str], Any]

    def read(self, one: Any) -> SoundItem:
        """A path, `Sound(samples, rate)`, or one of the examples; as a whole."""
        (item,) = self.pieces(one, float("inf"))
        return item

    @property
    def window(self) -> float:
        """Seconds that the model hears at once: longer recordings are heard in windows."""
        return getattr(self.recipe.decoding, "window", self.recipe.data.max_seconds)

    def windows(self, one: Any) -> Iterator[SoundItem]:
        return self.pieces(one, self.window)

    def is_overlong(self, one: Any) -> bool:
        return self.seconds(one) > self.window

    def seconds(self, one: Any) -> float:
        """How long a recording is; of a file, by its header."""
        if isinstance(one, SoundItem):
            return one.seconds
        try:
            place = self.place(one)
            if isinstance(place, Sound):
                return place.seconds
            with open_sound(place) as file:
                return file.seconds
        except SoundError as problem:
            raise CallError(f"{self.name(one)}: {problem}") from None

    def pieces(self, one: Any, longest: float) -> Iterator[SoundItem]:
        """Cut where it is quiet into windows of at most `longest` seconds, which are read one after the other."""
        if isinstance(one, SoundItem):
            yield one
            return
        name = self.name(one)
        try:
            place = self.place(one)
            if isinstance(place, Sound):
                yield from (self._item(name, window) for window in windows(place, longest))
                return
            with open_sound(place) as file:
                yield from (self._item(name, window) for window in windows(file, longest))
        except SoundError as problem:
            raise CallError(f"{name}: {problem}") from None

    def place(self, one: Any) -> Any:
        """A recording in memory, or where one is."""
        if isinstance(one, Mapping) and {"array", "sampling_rate"} <= one.keys():  # as the `datasets` library has them
            return Sound(one["array"], one["sampling_rate"])
        if not isinstance(one, Sound | str | Path | bytes):
            raise CallError(
                f"an input is the path or the bytes of a recording, or regard.Sound(samples, rate), not "
                f"{type(one).__name__}: without its rate, nobody knows how fast an array is to be played"
            )
        return self.find(str(one)) if isinstance(one, str | Path) else one

    def _item(self, name: str, window: Window) -> SoundItem:
        sound, how = window.sound, self.recipe.data.sound
        silent = is_silent(sound.samples)
        heard = silence(how) if silent else log_mel(resample(sound.samples, sound.rate, how.rate), how)
        return SoundItem(name, heard, window.start, sound.seconds, silent, is_clipped(sound.samples))

    def name(self, one: Any) -> str:
        if isinstance(one, Sound | SoundItem):
            return one.name
        return str(one) if isinstance(one, str | Path) else f"a recording ({type(one).__name__})"

    def heard(self, one: Any) -> bytes:
        place = self.place(one)
        return as_wav(place if isinstance(place, Sound) else read_sound(place))

    def length(self, item: SoundItem) -> int:
        """In frames: it is they that cost."""
        return 0 if item.silent else len(item.features)
