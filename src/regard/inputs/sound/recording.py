"""Sound files as samples: any format, rate and number of channels that `soundfile` (libsndfile) reads.

    samples  mono float32, usually within −1 … 1: the mean of the channels

A recording is opened once and read in pieces, so that a long one never has to be in memory. An unusable recording
raises `SoundError` with the reason; `flaws` reports suspicious ones.
"""

import io
import math
import struct
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

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


def _mono(value: Any) -> Samples:
    samples = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
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


# Sound at another rate: band-limited interpolation, by a bank of short filters.
#
#     y[n] = Σ_k x[k] h(n · p/q − k),      h(t) = c · sinc(c t) · w(t / W)      for rates in the proportion p : q
#
# Smith, "Digital Audio Resampling" (1984, ccrma.stanford.edu/~jos/resample): the ideal low-pass filter sinc, cut by a
# Kaiser window. Its cut-off c lies a little below the lower of the two half rates, so that nothing comes back as an
# alias. n · p/q has only q different fractions, so q filters serve all n: a convolution with stride p and q channels.
#
# Speed perturbation (Ko et al., Interspeech 2015) is the same with another meaning: sound at rate · s, read at
# `rate`, is faster and higher by s.

ZEROS = 24  # zero crossings of the sinc on each side; more make the filter steeper but longer
BETA = 10.0  # of the Kaiser window: aliases about 100 dB down
ROLL_OFF = 0.95  # the cut-off, as a share of the lower half rate
AT_ONCE = 4096  # groups of q samples that are computed together
FINEST = 1000  # the largest q; rates without a common factor are approximated to one part in a thousand at worst


def resample(samples: Float[np.ndarray, " N"], rate: float | int, wanted: float | int) -> Float[np.ndarray, " M"]:
    """Resample `samples` from `rate` to `wanted` per second; the length changes by the same factor, rounded up."""
    step = Fraction(rate / wanted).limit_denominator(FINEST)
    if step == 1 or not len(samples):
        return samples
    bank, reach = _filters(step.numerator, step.denominator)
    length = math.ceil(len(samples) / step)
    groups = math.ceil(length / step.denominator)
    padded = np.pad(samples, (reach, bank.shape[1] + groups * step.numerator))
    places = np.lib.stride_tricks.sliding_window_view(padded, bank.shape[1])[:: step.numerator][:groups]
    some = (places[start : start + AT_ONCE] @ bank.T for start in range(0, groups, AT_ONCE))
    return np.concatenate(list(some)).reshape(-1)[:length]


@lru_cache(maxsize=16)
def _filters(p: int, q: int) -> tuple[Float[np.ndarray, "q L"], int]:
    """Return the filters; filter i gives the samples at (n + i/q) · p. `reach` is the half width of the filters."""
    cut_off = ROLL_OFF * min(1.0, q / p)
    reach = math.ceil(ZEROS / cut_off)
    place = np.arange(-reach, reach + p + 1, dtype=np.float64)
    fraction = np.arange(q, dtype=np.float64)[:, None] * p / q
    t = (place - fraction) * cut_off
    inside = np.maximum(1 - (t / ZEROS) ** 2, 0.0)
    window = np.i0(BETA * np.sqrt(inside)) / np.i0(BETA)
    return (cut_off * np.sinc(t) * window * (inside > 0)).astype(np.float32), reach


def as_wav(sound: Sound) -> bytes:
    """A recording as the bytes of a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setparams((1, 2, round(sound.rate), 0, "NONE", ""))
        written.writeframes((np.clip(sound.samples, -1, 1) * 32767).astype("<i2").tobytes())
    return file.getvalue()


# A long recording in windows, cut where it is quiet.
#
#     energy[i] = mean of x² over 10 ms, smoothed over 200 ms        cut = argmin energy in the second half of the
#     window
#
# One window is in memory at a time, whatever the length of the recording. Each window is at least half full, so there
# are at most twice as many as necessary.

STEP, SMOOTH = 0.01, 0.2  # seconds


class SoundWindow(NamedTuple):
    start: float  # seconds
    sound: Sound


def windows(recording: SoundFile | Sound, longest: float) -> Iterator[SoundWindow]:
    """Yield pieces of at most `longest` seconds, which together are the whole recording."""
    rate = recording.rate
    length = len(recording.samples) if isinstance(recording, Sound) else recording.length
    if not length:
        raise SoundError("has no samples")
    size, start = length if longest >= length / rate else max(1, round(longest * rate)), 0
    while start < length:
        if isinstance(recording, Sound):
            samples = recording.samples[start : start + size]
        else:
            samples = recording.read(start, size)
        if start + size < length:
            samples = samples[: quietest(samples, rate, len(samples) // 2)]
        yield SoundWindow(start / rate, Sound(samples, rate))
        start += len(samples)


def quietest(samples: Float[np.ndarray, " N"], rate: int, earliest: int) -> int:
    """Return the sample in the middle of the quietest stretch that ends after `earliest`."""
    step = max(1, round(STEP * rate))
    energy = np.add.reduceat(samples.astype(np.float64) ** 2, np.arange(0, len(samples), step))[:-1]
    width = max(1, min(round(SMOOTH / STEP), len(energy)))
    smooth = np.convolve(energy, np.ones(width) / width, mode="same")
    first = min(earliest // step, max(0, len(smooth) - 1))
    if not len(smooth):
        return len(samples)
    return max(1, (first + int(smooth[first:].argmin())) * step + step // 2)
