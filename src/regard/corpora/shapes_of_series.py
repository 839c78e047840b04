"""Noisy series that contain one of five shapes, with its name as the label: attention over time must find it.

    x_t = a · shape((t − start) / width) + 0.3 noise     inside of the shape, noise alone outside of it; 2 ≤ a ≤ 3

    rise u        fall 1 − u        bump sin πu        step 1        wave sin 4πu            0 ≤ u < 1

Series are 48 to 96 steps long, shapes 12 to 20 steps. Steps outside the shape are independent of its name. Every series
depends only on its split and number.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from regard.errors import CallError, nearest

SIZES = {"train": 1000, "valid": 100, "test": 200}
SHAPES = {
    "rise": lambda u: u,
    "fall": lambda u: 1 - u,
    "bump": lambda u: np.sin(np.pi * u),
    "step": np.ones_like,
    "wave": lambda u: np.sin(4 * np.pi * u),
}
NOISE = 0.3


class ShapeInSeries(NamedTuple):
    """A labeled series. `place`: the steps of the shape."""

    values: Float[np.ndarray, "T 1"]
    label: str
    place: range


def shapes_of_series(split: str) -> list[ShapeInSeries]:
    if split not in SIZES:
        raise CallError(f"shapes-of-series has no split {split!r}{nearest(split, SIZES)}")
    return [shape_in_series(split, number) for number in range(SIZES[split])]


def shape_in_series(split: str, number: int) -> ShapeInSeries:
    chance = np.random.Generator(np.random.Philox(np.random.SeedSequence([list(SIZES).index(split), number])))
    label = list(SHAPES)[number % len(SHAPES)]
    length, width = int(chance.integers(48, 97)), int(chance.integers(12, 21))
    start = int(chance.integers(0, length - width + 1))
    values = NOISE * chance.standard_normal(length)
    values[start : start + width] += chance.uniform(2, 3) * SHAPES[label](np.arange(width) / width)
    return ShapeInSeries(values[:, None], label, range(start, start + width))
