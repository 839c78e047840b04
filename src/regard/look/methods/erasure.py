"""What happens without a token: ask the model again, with parts of the input taken away.

    leave-one-out       (log p(y_t | x) − log p(y_t | x without x_i))⁺          Li et al. 2016 (arXiv:1612.08220)

    comprehensiveness   log p(y_t | x) − log p(y_t | x without the k tokens of most weight)       high: they were needed
    sufficiency         log p(y_t | x) − log p(y_t | those k tokens alone)                        low: they were enough

The last two: DeYoung et al. 2020, section 4 (arXiv:1911.03429), means over several k and over the steps t. Where we
differ: log-probabilities in place of the probability of a class, since what is explained are the tokens of a sentence;
k is a tenth, a fifth and a half of the tokens, at least one; of a long output 32 steps are taken. Tokens are deleted,
as in the paper; the end symbol stays.

Random weights are the baseline (*uniform* has no order to take tokens in: a seeded random one stands for it), and the
picture's own rows in a wrong order (*shuffled*).
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from regard.look.card import Figure, normalized, wrong_order

Ids = Sequence[int]
LogProbabilities = Callable[[list[list[int]]], Float[np.ndarray, "N T"]]  # of one output, given each of N inputs
SHARES = (0.1, 0.2, 0.5)
MOST_STEPS = 32  # of a long output so many are asked about, evenly spread


def leave_one_out(source: Ids, log_probabilities: LogProbabilities) -> Float[np.ndarray, "T S"]:
    """One column a token of the source."""
    kept = [[token for j, token in enumerate(source) if j != i] for i in range(len(source))]
    whole, *without = log_probabilities([list(source), *kept])
    return normalized(np.maximum(whole[:, None] - np.stack(without, axis=1), 0.0))


def faithfulness(
    weights: Float[np.ndarray, "T S"], source: Ids, log_probabilities: LogProbabilities, about: str = ""
) -> list[Figure]:
    """Comprehensiveness and sufficiency of one table, a column a token of the source, with both baselines."""
    random = np.random.default_rng(0).random(weights.shape)
    tables = (weights, random, weights[wrong_order(len(weights))])
    steps = np.linspace(0, len(weights) - 1, min(len(weights), MOST_STEPS)).round().astype(int)
    asked = [one for table in tables for one in _erased(table[steps], source)]
    whole, *rest = log_probabilities([list(source), *asked])
    # For each table and each share: first without the tokens, then the tokens alone, for each step.
    found = np.array(rest).reshape(len(tables), len(SHARES), 2, len(steps), -1)
    lost = (whole[steps] - found[..., np.arange(len(steps)), steps]).mean(axis=(1, 3))
    return [
        Figure("comprehensiveness", *map(float, lost[:, 0]), better="high", about=about),
        Figure("sufficiency", *map(float, lost[:, 1]), better="low", about=about),
    ]


def _erased(table: Float[np.ndarray, "T S"], source: Ids) -> list[list[int]]:
    inputs = []
    for share in SHARES:
        most = max(1, round(share * len(source)))
        chosen = [set(np.argsort(-row, kind="stable")[:most].tolist()) for row in table]
        for alone in (False, True):
            inputs += [[token for i, token in enumerate(source) if (i in some) == alone] for some in chosen]
    return inputs
