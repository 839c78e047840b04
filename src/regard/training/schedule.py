"""Learning rates as pure functions of the position x between 0 and the end n of a run (`budget`).

    warm-up        η(x) = η x/w                                      for x < w, in all of them
    inverse_sqrt   η(x) = η √(w/x)                                   Vaswani et al. 2017, section 5.3 (arXiv:1706.03762)
    cosine         η(x) = η (f + (1−f) (1 + cos(π (x−w)/(n−w)))/2)   Loshchilov & Hutter 2016, eq. 5 (arXiv:1608.03983)
    linear         η(x) = η (f + (1−f) (n−x)/(n−w))                  Bergsma et al. 2025 (arXiv:2502.15938): to zero
    constant       η(x) = η

The Transformer's formula derives the peak from its width (d^−½ w^−½); here the peak η is a setting. Cosine and linear
fall once, without restarts, from the end w of the warm-up to n, where they reach the share f of η.

x is the number of the step (the first is 1), or with a time limit the position that `budget` plans. w is the setting
`warmup`, but at most a fifth of n, where n is known, for short runs. inverse_sqrt and constant do not depend on n, so
such a run can be extended.
"""

import math
from collections.abc import Callable
from typing import assert_never

from regard.settings.training import TrainingSettings

Number = int | float
Schedule = Callable[[Number], float]
WARMUP_SHARE = 0.2  # of a run, at most


def inverse_sqrt(position: Number, peak: float, warmup: Number) -> float:
    warmup = max(1, warmup)
    return peak * min(position / warmup, math.sqrt(warmup / position))


def cosine(position: Number, peak: float, warmup: Number, last: Number, final: float = 0.0) -> float:
    if position < warmup:
        return peak * position / warmup
    done = min(1.0, (position - warmup) / max(1, last - warmup))
    return peak * (final + (1 - final) * (1 + math.cos(math.pi * done)) / 2)


def linear(position: Number, peak: float, warmup: Number, last: Number, final: float = 0.0) -> float:
    if position < warmup:
        return peak * position / warmup
    done = min(1.0, (position - warmup) / max(1, last - warmup))
    return peak * (final + (1 - final) * (1 - done))


def constant(position: Number, peak: float, warmup: Number) -> float:
    return peak * min(1.0, position / max(1, warmup))


def schedule(settings: TrainingSettings, last: Number = math.inf) -> Schedule:
    """Return the schedule of the settings, position → learning rate. `last`: the end of the run, if known."""
    peak, final = settings.learning_rate, settings.final
    warmup = min(settings.warmup, WARMUP_SHARE * last)
    match settings.schedule:
        case "inverse_sqrt":
            return lambda position: inverse_sqrt(position, peak, warmup)
        case "constant":
            return lambda position: constant(position, peak, warmup)
        case "cosine":
            return lambda position: cosine(position, peak, warmup, last, final)
        case "linear":
            return lambda position: linear(position, peak, warmup, last, final)
        case other:
            assert_never(other)
