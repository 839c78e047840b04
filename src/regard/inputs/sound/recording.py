"""Sound files as samples: any format, rate and number of channels that `soundfile` (libsndfile) reads.

    samples  mono float32, usually within −1 … 1: the mean of the channels

A recording is opened once and read in pieces, so that a long one never has to be in memory. What makes a recording
useless raises `SoundError` with the reason; what makes it suspicious is told by `flaws`.
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.errors import CallError, RegardError

ENDINGS = frozenset((".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64"))
SILENT = 10 ** (-70 / 20)  # a peak below −70 dB of full scale: nothing to hear in 16 bits but their rounding
MOST_SAMPLES = 2**28  # of a recording that is read whole, over all channels: a gigabyte
CLIPPED_SHARE = 0.01  # of all samples at the very top: what a microphone turned up too far leaves

Samples = Float[np.ndarray, " N"]


class SoundError(RegardError):
    """A recording that cannot be used. The message says why, without its name."""


@dataclass(frozen=True)
class Sound:
    """A recording, or a piece of one, as samples."""

    samples: Samples
    rate: int
    name: str = ""

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


class SoundFile:
    """An open recording: its length is known, and pieces of it can be read."""

    def __init__(self, source: Path | bytes) -> None:
        library = _library()
        self._bytes = source if isinstance(source, bytes) else None
        try:
            size = len(source) if isinstance(source, bytes) else source.stat().st_size
            if size == 0:
                raise SoundError("the file has no bytes")
            self._file = library.SoundFile(io.BytesIO(source) if isinstance(source, bytes) else str(source))
        except FileNotFoundError:
            raise SoundError("there is no such file") from None
        except OSError as problem:
            raise SoundError(f"cannot be read ({problem.strerror or problem})") from None
        except library.LibsndfileError as problem:
            raise SoundError(f"is not sound ({problem.error_string.rstrip('. ')})") from None
        self.rate: int = self._file.samplerate
        self.length: int = self._file.frames
        self.channels: int = self._file.channels
        with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
            missing = _missing_bytes(file.read(1 << 16), size)
        if missing:
            self.close()
            raise SoundError(f"is cut short: {missing:,} bytes that its header promises are not there")
        if not self.length:
            self.close()
            raise SoundError("has no samples")

    @property
    def seconds(self) -> float:
        return self.length / self.rate

    def read(self, start: int = 0, count: int | None = None) -> Samples:
        """Samples from `start` on, `count` of them or all; channels become their mean."""
        wanted = min(self.length - start, self.length if count is None else count)
        try:
            self._file.seek(start)
            samples = self._file.read(wanted, dtype="float32", always_2d=True)
        except _library().LibsndfileError as problem:
            raise SoundError(f"breaks off ({problem.error_string.rstrip('. ')})") from None
        if len(samples) < wanted:
            found = (start + len(samples)) / self.rate
            raise SoundError(f"is cut short: {found:.2f} of {self.seconds:.2f} seconds are there")
        mono = samples.mean(axis=1)
        if not np.isfinite(mono).all():
            raise SoundError("has samples that are no numbers (NaN or infinite)")
        return mono

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "SoundFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_sound(source: Path | bytes) -> Sound:
    """A whole recording."""
    with SoundFile(source) as file:
        if file.length * file.channels > MOST_SAMPLES:
            raise SoundError(f"has {file.length * file.channels:,} samples, more than {MOST_SAMPLES:,}: cut it")
        return Sound(file.read(), file.rate)


def is_silent(samples: Samples) -> bool:
    return not len(samples) or float(np.abs(samples).max()) < SILENT


def is_clipped(samples: Samples) -> bool:
    """Many samples at the highest level, which a sound that was recorded well touches now and then only."""
    size = np.abs(samples)
    peak = size.max(initial=0.0)
    return bool(peak > 0.5 and (size >= 0.999 * peak).mean() > CLIPPED_SHARE)


def sound_files(folder: Path) -> Iterator[Path]:
    """The recordings in a folder and the folders in it, in order of their names."""
    return (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in ENDINGS and path.is_file())


def _missing_bytes(head: bytes, size: int) -> int:
    """How many bytes a WAV file lacks; libsndfile reads what is left of one without a word.

    RIFF: after 12 bytes, chunks of a name, a length and so many bytes, padded to an even number. A length of 0 or of
    all ones is what recorders write that did not know it.
    """
    if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
        return 0
    place = 12
    while place + 8 <= len(head):
        name, length = struct.unpack_from("<4sI", head, place)
        if name == b"data":
            return 0 if length in (0, 0xFFFFFFFF) else max(0, place + 8 + length - size)
        place += 8 + length + length % 2
    return 0


def _library() -> Any:
    try:
        return import_module("soundfile")
    except ImportError:
        raise CallError("sound needs the package soundfile: pip install 'regard[audio]'") from None
