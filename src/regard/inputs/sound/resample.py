"""Sound at another rate: band-limited interpolation, by a bank of short filters.

    y[n] = Σ_k x[k] h(n · p/q − k),      h(t) = c · sinc(c t) · w(t / W)      for rates in the proportion p : q

Smith, "Digital Audio Resampling" (1984, ccrma.stanford.edu/~jos/resample): the ideal low-pass filter sinc, cut by a
Kaiser window. Its cut-off c lies a little below the lower of the two half rates, so that nothing comes back as
an alias. n · p/q has only q different fractions, so q filters serve all n: a convolution with stride p and q channels.

Speed perturbation (Ko et al., Interspeech 2015) is the same with another meaning: sound at rate · s, read at `rate`, is
faster and higher by s.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from jaxtyping import Float

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
