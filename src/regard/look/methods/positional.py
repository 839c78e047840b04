"""Positional heads: the share of an attention pattern that stays when the contents are shuffled.

    share = mean over rows of  Σ_j min(A_rj, A′_rj)          baseline = the same with  A_{π(r) π(j)}  instead of A′

A′ is the pattern after the vectors of tokens are permuted by π, with unchanged positions. A purely positional head
keeps its pattern: 1. The pattern of a head that follows contents is permuted, too, which is the baseline. A head with
uniform weights equals its baseline. Special tokens keep their positions.

Voita et al. 2019, section 5.1 (arXiv:1905.09418), define positional heads by where they look; Ke et al. 2020
(arXiv:2006.15595) separate, as here, the effects of positions and of words.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.look.attribution import attentions
from regard.look.case import ExplainTarget
from regard.look.hooks import After, active_hooks
from regard.look.records import Attention

Orders = dict[int, np.ndarray]  # number of vectors → the position that each comes from


def kept_patterns(
    case: ExplainTarget, before: Mapping[str, Attention]
) -> Iterator[tuple[Attention, Float[np.ndarray, " H"], Float[np.ndarray, " H"], int]]:
    """Return for the tables of a case: sums over rows of the share and of its baseline, and the number of rows."""
    with shuffled_contents(case) as orders:
        after = attentions(case)
    for one in after:
        old = before.get(one.name)
        Q, K = one.weights.shape[1:]
        if old is None or K not in orders or old.weights.shape != one.weights.shape:
            continue
        rows = orders[Q] if Q in orders else np.arange(Q)
        moved = old.weights[:, rows][:, :, orders[K]]
        if one.kind == "decoder":  # later tokens are masked in any order
            moved = np.tril(moved)
            moved = moved / np.maximum(moved.sum(-1, keepdims=True), 1e-12)
        count = np.arange(Q) > 0 if one.kind == "decoder" else np.ones(Q, bool)  # the first row has one column
        stays, baseline = (np.minimum(old.weights, other).sum(-1)[:, count].sum(-1) for other in (one.weights, moved))
        yield old, stays, baseline, int(count.sum())


def positional_heads(case: ExplainTarget, before: Sequence[Attention]) -> dict[str, float]:
    """Return for each head, such as "cross.2.3", the share of its pattern that stays, minus the baseline."""
    found = kept_patterns(case, {one.name: one for one in before})
    return {
        f"{one.kind}.{one.layer}.{head}": float(share)
        for one, stays, baseline, rows in found
        if rows
        for head, share in enumerate((stays - baseline) / rows)
    }


@contextmanager
def shuffled_contents(case: ExplainTarget) -> Iterator[Orders]:
    """Permute the vectors of tokens within their text while active, with one order for each length."""
    orders: Orders = {}
    for T in {len(axis) for axis in case.axes.values()}:
        real = [
            place for place in range(T) if all(place in axis.real() for axis in case.axes.values() if len(axis) == T)
        ]
        if len(real) > 1:
            orders[T] = _order(T, np.array(real))

    def shuffle(module: nn.Module, args: object, output: Tensor) -> Tensor | None:
        if not isinstance(output, Tensor) or output.ndim != 3:
            return None
        order = orders.get(output.shape[1])
        return None if order is None else output[:, torch.from_numpy(order).to(output.device)]

    modules = [one for one in case.model.modules() if isinstance(one, nn.Embedding) or one is case.vectors]
    with active_hooks(After(module, shuffle) for module in modules):
        yield orders


def _order(length: int, real: np.ndarray) -> np.ndarray:
    """Return the one of some random orders that separates most neighbors: with few words, many orders change little."""
    random = np.random.default_rng(length)
    found = np.arange(length)
    tried = [random.permutation(real) for _ in range(16)]
    found[real] = max(tried, key=lambda one: int((np.diff(one) != 1).sum() + (one != real).sum()))
    return found
