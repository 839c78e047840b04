"""Sound as a picture: the energy in each of a few bands of frequency, every hundredth of a second.

    power[t, f] = |Σ_n w[n] x[t · hop + n] e^{−2πi f n / N}|²            a short-time Fourier transform, w a Hann window
    mel(f)      = 2595 log₁₀(1 + f / 700)                                 bands are equally wide on this scale
    feature     = log₁₀ Σ_f triangle_b[f] power[t, f],  at least 8 below the loudest; less the band's mean, over σ

Davis and Mermelstein 1980; the scale is O'Shaughnessy's. The floor 80 dB below the loudest frame is Whisper's (Radford
et al. 2022, arXiv:2212.04356): digital silence would be −∞. The mean of each band and one deviation σ are those of the
recording itself, so that level and microphone make no difference.
"""

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from regard.inputs.sound.settings import AugmentSettings, SoundSettings
from regard.look.axis import Axis, axis

RANGE = 8.0  # powers of ten: 80 dB
LEAST_POINTS = 512  # of a Fourier transform: with fewer, the lowest bands would contain no frequency


def frame_count(samples: int, sound: SoundSettings) -> int:
    """Number of frames. Every sample is in a frame; the last frame may reach beyond the end."""
    window, hop = frame_samples(sound)
    return 1 + max(0, math.ceil((samples - window) / hop))


def frame_samples(sound: SoundSettings) -> tuple[int, int]:
    """Samples of a window, and samples between the starts of two windows."""
    return round(sound.window * sound.rate), round(sound.hop * sound.rate)


class MemoryTimes:
    """Times of the memory's vectors in seconds; each vector covers `reduction` frames."""

    def __init__(self, sound: SoundSettings, reduction: int) -> None:
        self.sound, self.reduction, self.step = sound, reduction, reduction * sound.hop
        # The middle of the first group of frames, less half a step.
        self.first = ((reduction - 1) * sound.hop + sound.window - self.step) / 2

    def vectors(self, frames: int) -> int:
        return -(-frames // self.reduction)

    def edges(self, vectors: int) -> Float[np.ndarray, " K1"]:
        """Return the start of each vector and the end of the last one."""
        return self.first + self.step * np.arange(vectors + 1)

    def middles(self, vectors: int) -> Float[np.ndarray, " K"]:
        return self.edges(vectors)[:-1] + self.step / 2

    def axis(self, features: Float[np.ndarray, "S F"]) -> Axis:
        """Return the time axis of a recording or window, in seconds; the signal is the spectrogram."""
        frames, vectors = len(features), self.vectors(len(features))
        until = (frames - 1) * self.sound.hop + self.sound.window
        labels = [f"{time:.2f}" for time in self.middles(vectors)]
        times = np.clip(self.edges(vectors)[:-1], 0.0, until).tolist()
        return axis(labels, times=times, until=until, signal=features.T)


def log_mel(samples: Float[np.ndarray, " N"], sound: SoundSettings) -> Float[np.ndarray, "S F"]:
    """Return the features of samples at `sound.rate`."""
    window, hop = frame_samples(sound)
    frames = frame_count(len(samples), sound)
    padded = np.zeros((frames - 1) * hop + window, np.float32)
    padded[: len(samples)] = samples
    points = max(LEAST_POINTS, 1 << (window - 1).bit_length())
    spectrum = np.fft.rfft(np.lib.stride_tricks.sliding_window_view(padded, window)[::hop] * _hann(window), points)
    energy = (spectrum.real**2 + spectrum.imag**2).astype(np.float32) @ mel_filters(sound.rate, points, sound.bands)
    feature = np.log10(np.maximum(energy, np.float32(1e-20)))
    feature = np.maximum(feature, feature.max() - np.float32(RANGE))
    feature = feature - feature.mean(0)
    return feature / np.maximum(feature.std(), np.float32(1e-3))


def silence(sound: SoundSettings) -> Float[np.ndarray, "1 F"]:
    """Return the features of an empty recording."""
    return np.zeros((1, sound.bands), np.float32)


@lru_cache(maxsize=8)
def _hann(window: int) -> Float[np.ndarray, " W"]:
    """Return the periodic Hann window sin²(π n / W)."""
    return (np.sin(np.pi * np.arange(window) / window) ** 2).astype(np.float32)


@lru_cache(maxsize=8)
def mel_filters(rate: int, points: int, bands: int) -> Float[np.ndarray, "R F"]:
    """Return triangular filters: each band rises from the center of the band below to its center, and falls to that of
    the band above.
    """
    highest = 2595 * math.log10(1 + rate / 2 / 700)
    centers = 700 * (10 ** (np.linspace(0, highest, bands + 2) / 2595) - 1)
    frequency = np.arange(points // 2 + 1)[:, None] * rate / points
    below, center, above = centers[:-2], centers[1:-1], centers[2:]
    rise = (frequency - below) / (center - below)
    fall = (above - frequency) / (above - center)
    return np.maximum(np.minimum(rise, fall), 0).astype(np.float32)


# SpecAugment (Park et al. 2019, section 2, arXiv:1904.08779) blots out bands and stretches of time in training:
#
#     f ~ U[0, F],  bands f₀ … f₀ + f        t ~ U[0, min(T, p · frames)],  frames t₀ … t₀ + t        set to the mean,
#     0
#
# Time warping is left out: the paper finds that it adds least, and speed perturbation does more of the kind.


def spec_augment(
    features: Float[np.ndarray, "S F"], how: AugmentSettings, hop: float, chance: np.random.Generator
) -> Float[np.ndarray, "S F"]:
    """Return a copy with masked bands and stretches of time; `hop` is the time of a frame, in seconds."""
    features = features.copy()
    frames, bands = features.shape
    for _ in range(how.band_masks):
        size = int(chance.integers(0, min(how.band_width, bands) + 1))
        start = int(chance.integers(0, bands - size + 1))
        features[:, start : start + size] = 0.0
    longest = min(round(how.time_width / hop), int(how.time_share * frames))
    for _ in range(how.time_masks):
        size = int(chance.integers(0, longest + 1))
        start = int(chance.integers(0, frames - size + 1))
        features[start : start + size] = 0.0
    return features
