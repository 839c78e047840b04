"""SpecAugment (Park et al. 2019, section 2, arXiv:1904.08779) blots out bands and stretches of time in training:

    f ~ U[0, F],  bands f₀ … f₀ + f        t ~ U[0, min(T, p · frames)],  frames t₀ … t₀ + t        set to the mean, 0

Time warping is left out: the paper finds that it adds least, and speed perturbation does more of the kind.
"""

import numpy as np
from jaxtyping import Float

from regard.inputs.sound.settings import AugmentSettings


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
