"""When the vectors of a memory are: each stands for `reduction` frames of sound."""

import numpy as np
from jaxtyping import Float

from regard.inputs.sound.settings import SoundSettings


class Clock:
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
