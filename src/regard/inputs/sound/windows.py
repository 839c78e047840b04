"""A long recording in windows, cut where it is quiet.

    energy[i] = mean of x² over 10 ms, smoothed over 200 ms        cut = argmin energy in the second half of the window

One window is in memory at a time, whatever the length of the recording. Each window is at least half full, so there
are at most twice as many as necessary.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from regard.inputs.sound.recording import Sound, SoundError, SoundFile

STEP, SMOOTH = 0.01, 0.2  # seconds


class Window(NamedTuple):
    start: float  # seconds
    sound: Sound


def windows(recording: SoundFile | Sound, longest: float) -> Iterator[Window]:
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
        yield Window(start / rate, Sound(samples, rate))
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
