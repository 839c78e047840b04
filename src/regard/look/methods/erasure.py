"""Score the output again with parts of the input masked.

    leave-one-out       (log p(y_t | x) − log p(y_t | x without x_i))⁺          Li et al. 2016 (arXiv:1612.08220)

    comprehensiveness   log p(y_t | x) − log p(y_t | x without the k parts of most weight)        high: they were needed
    sufficiency         log p(y_t | x) − log p(y_t | those k parts alone)                         low: they were enough

The last two: DeYoung et al. 2020, section 4 (arXiv:1911.03429), means over several k and over the steps t. Where we
differ: log-probabilities in place of the probability of a class, since what is explained are the tokens of a sentence;
k is a tenth, a fifth and a half of the parts, at least one; of a long output 16 steps are taken, evenly spread, 8
where the table is large (50 steps of 50 parts), and 4 where the input is long (128 parts), so that asking costs no more
than twice what looking does.
The input type defines parts and masking: words are deleted, as in the paper, regions of a picture are covered, sound
is silenced. If a step is a number and not a probability, any change counts.

Random weights are the baseline (*uniform* has no order to take parts in: a few seeded random ones stand for it), and
the picture's own rows in a wrong order (*shuffled*). Rows in a wrong order take away the same parts as in the right
one, so a model is asked about 6 sets of parts for each step, and about 24 in all for the random ones (12 or 6 where
there are fewer steps: of many parts, one random choice is much like the next).
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from regard.look.card import Figure, normalized, wrong_order

Ask = Callable[[Sequence[frozenset[int]]], Float[np.ndarray, "N T"]]  # each step of one output, without some parts
AskAt = Callable[[Sequence[frozenset[int]], Sequence[int]], Float[np.ndarray, " N"]]  # one step, without some parts
SHARES = (0.1, 0.2, 0.5)
MOST_STEPS = 16  # of a long output so many are asked about,
RANDOM_ORDERS = 4  # with so many random orders that the steps share;
LARGE = 2500  # from so many weights on, half as many of both,
LONG = 128  # and from so many parts on, a quarter


def leave_one_out(parts: int, ask: Ask, *, both_ways: bool = False) -> Float[np.ndarray, "T P"]:
    """Return one column per input part. `both_ways`: any change counts, not only a loss."""
    whole, *without = ask([frozenset(), *(frozenset([part]) for part in range(parts))])
    lost = whole[:, None] - np.stack(without, axis=1)
    return normalized(np.abs(lost) if both_ways else np.maximum(lost, 0.0))


def faithfulness(
    weights: Float[np.ndarray, "T P"],
    whole: Float[np.ndarray, " T"],
    ask_at: AskAt,
    about: str = "",
    *,
    both_ways: bool = False,
) -> list[Figure]:
    """Comprehensiveness and sufficiency of one table, a column a part of the input, with both baselines. `whole`: what
    the model thinks of each step when nothing is left out."""
    less = 4 if weights.shape[1] > LONG else 2 if weights.size > LARGE else 1
    steps = np.linspace(0, len(weights) - 1, min(len(weights), MOST_STEPS // less)).round().astype(int)
    own, orders = weights[steps], RANDOM_ORDERS // less
    random = np.random.default_rng(0).random((orders, weights.shape[1]))
    tables = (own, random[np.arange(len(steps)) % orders], own[wrong_order(len(steps))])
    asked = [one for table in tables for one in _erased(table)]
    # For each table and each share: first without the parts, then the parts alone, for each step.
    found = ask_at(asked, steps.tolist() * (len(asked) // len(steps)))
    lost = whole[steps] - found.reshape(len(tables), len(SHARES), 2, len(steps))
    unit = "" if both_ways else "nats"
    lost = (np.abs(lost) if both_ways else lost).mean(axis=(1, 3))
    return [
        Figure("comprehensiveness", *map(float, lost[:, 0]), better="high", about=about, unit=unit),
        Figure("sufficiency", *map(float, lost[:, 1]), better="low", about=about, unit=unit),
    ]


def _erased(table: Float[np.ndarray, "T P"]) -> list[frozenset[int]]:
    every, found = frozenset(range(table.shape[1])), []
    for share in SHARES:
        most = max(1, round(share * table.shape[1]))
        chosen = [frozenset(np.argsort(-row, kind="stable")[:most].tolist()) for row in table]
        found += [*chosen, *(every - some for some in chosen)]
    return found
