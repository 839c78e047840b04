"""Sound files as samples: any format, rate and number of channels that `soundfile` (libsndfile) reads.

    samples  mono float32, usually within −1 … 1: the mean of the channels

A recording is opened once and read in pieces, so that a long one never has to be in memory. An unusable recording
raises `SoundError` with the reason; `flaws` reports suspicious ones.
"""

import io
import struct
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.errors import CallError, RegardError, pip_install
from regard.inputs.media_files import Bytes

ENDINGS = frozenset((".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64"))
SILENT = 10 ** (-70 / 20)  # a peak below −70 dB of full scale: with 16 bits, only rounding noise
MOST_SAMPLES = 2**28  # of a recording that is read as a whole, over all channels: one gigabyte
CLIPPED_SHARE = 0.01  # share of samples at full scale above which the microphone level was too high

Samples = Float[np.ndarray, " N"]


class SoundError(RegardError):
    """Unusable recording. The message contains the reason, without the name of the recording."""


@dataclass(frozen=True, init=False)
class Sound:
    """Recording, or a part of one, as samples: an array or a tensor; the channels are averaged.

    Of two dimensions, the longer one is time. Integers are scaled by the largest value of their type. Unsigned types
    have their zero in the middle (128 of uint8), as in WAV files of 8 bits.
    """

    samples: Samples
    rate: int
    name: str

    def __init__(self, samples: Any, rate: Any, name: str = "") -> None:
        if not isinstance(rate, int | np.integer) or rate < 1:
            raise CallError(f"Sound(samples, rate={rate!r}): the rate is the number of samples a second, as 16000")
        for field, value in {"samples": _mono(samples), "rate": int(rate), "name": name}.items():
            object.__setattr__(self, field, value)

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def _mono(given: Any) -> Samples:
    samples = given.detach().cpu().numpy() if hasattr(given, "detach") else np.asarray(given)
    if samples.dtype.kind not in "fiu" or samples.ndim not in (1, 2):
        raise CallError(
            f"Sound(samples, ...): an array of {samples.dtype} and shape {samples.shape} is not sound; give numbers of "
            "one dimension, or two (samples × channels)"
        )
    if samples.dtype != np.float32:
        size = 1.0 if samples.dtype.kind == "f" else float(np.iinfo(samples.dtype).max)
        zero = (size + 1) / 2 if samples.dtype.kind == "u" else 0.0
        size = zero or size
        samples = ((samples - zero) / size).astype(np.float32)
    if samples.ndim == 2:
        samples = samples.mean(axis=int(samples.shape[0] >= samples.shape[1]))
    if not np.isfinite(samples).all():
        raise CallError("Sound(samples, ...): some samples are NaN or infinite")
    return samples


class SoundFile:
    """Open recording of known length; parts of it can be read."""

    def __init__(self, source: Path | bytes) -> None:
        library = _library()
        self._bytes = source if isinstance(source, bytes) else None
        try:
            size = len(source) if isinstance(source, bytes) else source.stat().st_size
            if size == 0:
                raise SoundError("the file has no bytes")
            self._file = library.SoundFile(io.BytesIO(source) if isinstance(source, bytes) else str(source))
        except FileNotFoundError:
            raise SoundError("no such file") from None
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
            raise SoundError(f"is cut short: {missing:,} bytes less than its header gives")
        if not self.length:
            self.close()
            raise SoundError("has no samples")

    @property
    def seconds(self) -> float:
        return self.length / self.rate

    def read(self, start: int = 0, count: int | None = None) -> Samples:
        """Return samples from `start`, `count` of them or all, averaged over channels."""
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
            raise SoundError("has samples that are NaN or infinite")
        return mono

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "SoundFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_sound(place: Bytes | Path | bytes) -> SoundFile:
    """Open a file, which is read in pieces, or a member of an archive, which is held in memory."""
    if not isinstance(place, Bytes):
        return SoundFile(place)
    try:
        return SoundFile(Path(place.path) if place.size is None else place.read())
    except OSError as problem:
        raise SoundError(f"cannot be read ({problem.strerror or problem})") from None


def read_sound(place: Bytes | Path | bytes) -> Sound:
    """Read a whole recording."""
    with open_sound(place) as file:
        if file.length * file.channels > MOST_SAMPLES:
            raise SoundError(f"has {file.length * file.channels:,} samples, more than {MOST_SAMPLES:,}: cut it")
        return Sound(file.read(), file.rate)


def is_silent(samples: Samples) -> bool:
    return not len(samples) or float(np.abs(samples).max()) < SILENT


def is_clipped(samples: Samples) -> bool:
    """Whether many samples are at full scale, which is rare in a well-recorded sound."""
    size = np.abs(samples)
    peak = size.max(initial=0.0)
    return bool(peak > 0.5 and (size >= 0.999 * peak).mean() > CLIPPED_SHARE)


def _missing_bytes(head: bytes, size: int) -> int:
    """Return the number of bytes that a WAV file lacks; libsndfile reads truncated files without an error.

    RIFF: after 12 bytes, chunks of a name, a length and that number of bytes, padded to an even number. Recorders that
    do not know the length write 0 or all ones.
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
        raise CallError(f"sound needs the package soundfile: {pip_install('regard[audio]')}") from None
