"""95% confidence intervals of scores on n examples.

    share     (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n),  z = 1.96          Wilson 1927
    others    the score of n examples that are sampled with replacement, many times; its 2.5% and 97.5% quantiles
              (bootstrap: Efron 1979; of two systems on the same draws: Koehn 2004, aclanthology.org/W04-3250)

A score is computed from a table with a row for each example (its hits, its n-grams, its errors), so that a sample
is an index of rows.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Table = Float[np.ndarray, "N K"]
Value = Callable[[Table], float]

Z = 1.959964  # of the normal distribution: 95% lie within
DRAWS, FEWEST_DRAWS = 1000, 100
SECONDS = 2.0  # after so long, the draws made so far are enough


class Interval(NamedTuple):
    low: float
    high: float


def wilson(hits: float, count: int) -> Interval:
    """Return the interval of a share, 0 to 1."""
    if not count:
        return Interval(0.0, 1.0)
    share, square = hits / count, Z * Z / count
    middle = (share + square / 2) / (1 + square)
    half = Z * math.sqrt(share * (1 - share) / count + square / (4 * count)) / (1 + square)
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def bootstrap(tables: Sequence[Table], value: Value, *, seconds: float = SECONDS) -> Float[np.ndarray, "D S"]:
    """Return scores of several systems on the same samples: a row a sample, a column a system; deterministic."""
    chance, size = np.random.default_rng(0), len(tables[0])
    found: list[list[float]] = []
    end = time.monotonic() + seconds
    while len(found) < DRAWS and (len(found) < FEWEST_DRAWS or time.monotonic() < end):
        rows = chance.integers(size, size=size)
        found.append([value(table[rows]) for table in tables])
    return np.array(found)


def middle(values: Float[np.ndarray, " D"]) -> Interval:
    """Return the middle 95% of some values."""
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(float(low), float(high))
