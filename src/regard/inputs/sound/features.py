"""Sound as a picture: the energy in each of a few bands of frequency, every hundredth of a second.

    power[t, f] = |Σ_n w[n] x[t · hop + n] e^{−2πi f n / N}|²            a short-time Fourier transform, w a Hann window
    mel(f)      = 2595 log₁₀(1 + f / 700)                                 bands are equally wide on this scale
    feature     = log₁₀ Σ_f triangle_b[f] power[t, f],  at least 8 below the loudest; less the band's mean, over σ

Davis and Mermelstein 1980; the scale is O'Shaughnessy's. The floor 80 dB below the loudest frame is Whisper's (Radford
et al. 2022, arXiv:2212.04356): digital silence would be −∞. The mean of each band and one deviation σ are those of the
recording itself, so that level and microphone make no difference.

SpecAugment (Park et al. 2019, section 2, arXiv:1904.08779) blots out bands and stretches of time in training:

    f ~ U[0, F],  bands f₀ … f₀ + f        t ~ U[0, min(T, p · frames)],  frames t₀ … t₀ + t        set to the mean, 0

Time warping is left out: the paper finds that it adds least, and speed perturbation does more of the kind.
"""

import math
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.inputs.sound.settings import AugmentSettings, SoundSettings

RANGE = 8.0  # in powers of ten: 80 dB
LEAST_POINTS = 512  # of a Fourier transform: fewer would leave the lowest bands without a frequency


def frame_count(samples: int, sound: SoundSettings) -> int:
    """Every sample is in some frame; the last frame may reach beyond the end."""
    window, hop = frame_samples(sound)
    return 1 + max(0, math.ceil((samples - window) / hop))


def frame_samples(sound: SoundSettings) -> tuple[int, int]:
    """Samples of a window, and from one window to the next."""
    return round(sound.window * sound.rate), round(sound.hop * sound.rate)


class MemoryTimes:
    """When the vectors of a memory are, in seconds: each stands for `reduction` frames of sound."""

    def __init__(self, sound: SoundSettings, reduction: int) -> None:
        self.reduction, self.step = reduction, reduction * sound.hop
        # The middle of the first group of frames, less half a step.
        self.first = ((reduction - 1) * sound.hop + sound.window - self.step) / 2

    def vectors(self, frames: int) -> int:
        return -(-frames // self.reduction)

    def edges(self, vectors: int) -> Float[np.ndarray, " K1"]:
        """When each vector begins, and when the last one ends."""
        return self.first + self.step * np.arange(vectors + 1)

    def middles(self, vectors: int) -> Float[np.ndarray, " K"]:
        return self.edges(vectors)[:-1] + self.step / 2


def log_mel(samples: Float[np.ndarray, " N"], sound: SoundSettings) -> Float[Tensor, "S F"]:
    """Features of samples that are at `sound.rate`."""
    window, hop = frame_samples(sound)
    frames = frame_count(len(samples), sound)
    padded = torch.zeros((frames - 1) * hop + window)
    padded[: len(samples)] = torch.from_numpy(np.ascontiguousarray(samples, np.float32))
    points = max(LEAST_POINTS, 1 << (window - 1).bit_length())
    spectrum = torch.fft.rfft(padded.unfold(0, window, hop) * torch.hann_window(window), points)
    energy = (spectrum.real**2 + spectrum.imag**2) @ mel_filters(sound.rate, points, sound.bands)
    feature = energy.clamp(min=1e-20).log10()
    feature = feature.clamp(min=float(feature.max()) - RANGE)
    feature = feature - feature.mean(0)
    return feature / feature.std(correction=0).clamp(min=1e-3)


@lru_cache(maxsize=8)
def mel_filters(rate: int, points: int, bands: int) -> Float[Tensor, "R F"]:
    """Triangles: each band rises from the center of the one below to its own, and falls to that of the one above."""
    highest = 2595 * math.log10(1 + rate / 2 / 700)
    centers = 700 * (10 ** (torch.linspace(0, highest, bands + 2, dtype=torch.float64) / 2595) - 1)
    frequency = torch.arange(points // 2 + 1, dtype=torch.float64) * rate / points
    below, center, above = centers[:-2], centers[1:-1], centers[2:]
    rise = (frequency.unsqueeze(1) - below) / (center - below)
    fall = (above - frequency.unsqueeze(1)) / (above - center)
    return torch.minimum(rise, fall).clamp(min=0).float()


def spec_augment(
    features: Float[Tensor, "S F"], how: AugmentSettings, hop: float, chance: np.random.Generator
) -> Float[Tensor, "S F"]:
    """A copy with bands and stretches of time blotted out; `hop` is the time of a frame, in seconds."""
    features = features.clone()
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
