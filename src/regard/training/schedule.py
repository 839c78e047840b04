"""Learning rates as pure functions of the step (the first step is 1), so that resuming needs no state.

    warm-up        η(s) = η s/w                                      for s < w, in all of them
    inverse_sqrt   η(s) = η √(w/s)                                   Vaswani et al. 2017, section 5.3 (arXiv:1706.03762)
    cosine         η(s) = η (f + (1−f) (1 + cos(π (s−w)/(n−w)))/2)   Loshchilov & Hutter 2016, eq. 5 (arXiv:1608.03983)
    linear         η(s) = η (f + (1−f) (n−s)/(n−w))                  Bergsma et al. 2025 (arXiv:2502.15938): to zero
    constant       η(s) = η

The Transformer's formula fixes the peak by its width (d^−½ w^−½); here the peak η is said outright. Cosine and
linear make one descent, without restarts, from the warm-up's end w to the last step n, where they reach the share f of
η. They end with a number of steps and never by time: a rate that depended on the clock could not be resumed exactly.
"""

import math
from collections.abc import Callable
from typing import assert_never

from regard.settings.training import TrainingSettings

Schedule = Callable[[int], float]


def inverse_sqrt(step: int, peak: float, warmup: int) -> float:
    warmup = max(1, warmup)
    return peak * min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, peak: float, warmup: int, last: int, final: float = 0.0) -> float:
    if step < warmup:
        return peak * step / warmup
    done = min(1.0, (step - warmup) / max(1, last - warmup))
    return peak * (final + (1 - final) * (1 + math.cos(math.pi * done)) / 2)


def linear(step: int, peak: float, warmup: int, last: int, final: float = 0.0) -> float:
    if step < warmup:
        return peak * step / warmup
    done = min(1.0, (step - warmup) / max(1, last - warmup))
    return peak * (final + (1 - final) * (1 - done))


def constant(step: int, peak: float, warmup: int) -> float:
    return peak * min(1.0, step / max(1, warmup))


def schedule(settings: TrainingSettings, last: Callable[[], int]) -> Schedule:
    """The schedule of the settings. `last` tells the number of the last step; only those that fall until then ask."""
    peak, warmup = settings.learning_rate, settings.warmup
    match settings.schedule:
        case "inverse_sqrt":
            return lambda step: inverse_sqrt(step, peak, warmup)
        case "constant":
            return lambda step: constant(step, peak, warmup)
        case "cosine":
            end = last()
            return lambda step: cosine(step, peak, warmup, end, settings.final)
        case "linear":
            end = last()
            return lambda step: linear(step, peak, warmup, end, settings.final)
        case other:
            assert_never(other)
