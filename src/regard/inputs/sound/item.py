"""A recording of the user in the form that models read: found, cut into windows and converted to
features. No torch.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.corpora.tones import ToneCall, one_key, tones
from regard.errors import CallError, nearest
from regard.inputs.media_files import Entry, MediaSource
from regard.inputs.sound.features import log_mel, silence
from regard.inputs.sound.recording import (
    ENDINGS,
    Sound,
    SoundError,
    SoundWindow,
    as_wav,
    is_clipped,
    is_silent,
    open_sound,
    read_sound,
    resample,
    windows,
)


class SoundItem(NamedTuple):
    """Recording, or a window of one. A silent one has at most one frame and is not passed to the model."""

    name: str
    features: Float[np.ndarray, "S F"]
    start: float  # in the recording, in seconds
    seconds: float
    silent: bool
    clipped: bool


class SoundReader:
    """Base class of sound readers, with torch and without. `find` resolves a word to a recording."""

    recipe: Any
    find: Callable[[str], Any]

    def read(self, one: Any) -> SoundItem:
        """Read a path, `Sound(samples, rate)`, or an example, as one item."""
        (item,) = self.pieces(one, float("inf"))
        return item

    @property
    def window(self) -> float:
        """Maximum seconds that the model reads at once; longer recordings are read in windows."""
        return getattr(self.recipe.decoding, "window", self.recipe.data.max_seconds)

    def windows(self, one: Any) -> Iterator[SoundItem]:
        return self.pieces(one, self.window)

    def is_overlong(self, one: Any) -> bool:
        return self.seconds(one) > self.window

    def seconds(self, one: Any) -> float:
        """Return the duration of a recording; for a file, from its header."""
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
        """Cut a recording at quiet places into windows of at most `longest` seconds, in order."""
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
        """Open a recording in memory or in a file."""
        if isinstance(one, Mapping) and {"array", "sampling_rate"} <= one.keys():  # as in the `datasets` library
            return Sound(one["array"], one["sampling_rate"])
        if not isinstance(one, Sound | str | Path | bytes):
            raise CallError(
                f"an input is the path or the bytes of a recording, or regard.Sound(samples, rate), not "
                f"{type(one).__name__}; an array needs its sampling rate"
            )
        return self.find(str(one)) if isinstance(one, str | Path) else one

    def _item(self, name: str, window: SoundWindow) -> SoundItem:
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
        """Number of frames, which determine the cost."""
        return 0 if item.silent else len(item.features)


CORPORA: dict[str, Callable[[str], Iterator[ToneCall]]] = {"tones": tones, "one-key": one_key}


@dataclass(frozen=True)
class SoundSource(MediaSource):
    """Source of the user's recordings (`media_source.py`). No torch."""

    what: ClassVar[str] = "recording"

    @classmethod
    def is_one(cls, name: str) -> bool:
        return PurePosixPath(name).suffix.lower() in ENDINGS

    def corpus(self) -> Iterator[Entry]:
        name = self.where.removeprefix("corpus:")
        if name not in CORPORA:
            raise CallError(f"there is no corpus of recordings {name!r}{nearest(name, CORPORA)}")
        for row, call in enumerate(CORPORA[name](self.role)):
            sound = Sound(call.samples, call.rate)
            yield Entry(f"{self.where}#{row}", (call.text,), self.where, row + 1, call.segments, sound)
