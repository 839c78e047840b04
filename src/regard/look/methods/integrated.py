"""What each part of the input adds to the output: integrated gradients.

    IG_i(t) = x_i · ∫₀¹ ∂ s_t(αx) / ∂x_i dα        Σ_i IG_i(t) = s_t(x) − s_t(0)

Sundararajan et al. 2017, section 3 (arXiv:1703.01365). s_t is what the model thinks of step t (log p), x the vectors of
the input: embeddings without positions, patches, frames. The integral is a sum over the middles of `STEPS` equal
pieces; `error` says how far the two sides of the second equation are apart, of the right one. Unlike input × gradient,
nothing is lost where the output has stopped to feel its input; like it, the answer depends on what counts as nothing,
here zeros.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import CallError
from regard.look.asking import at_steps, some_steps, step_scores
from regard.look.case import WHOLE, Case

STEPS = 32


class Integrated(NamedTuple):
    """`parts`: T P; `rest`: what is of no part of the input that could be left out, special tokens above all."""

    parts: Float[np.ndarray, "T P"]
    rest: Float[np.ndarray, " T"]
    error: float


def integrated_gradients(case: Case, pieces: int = STEPS) -> Integrated:
    if case.vectors is None or case.gather is None or not case.parts:
        raise CallError("explain='inputs' needs vectors that the model was given, and this input has none")
    parts, whole = [], []
    for steps in some_steps(case):
        products: list[np.ndarray] = []
        for piece in range(pieces):
            with _scaled(case.vectors, (piece + 0.5) / pieces) as calls:
                felt = torch.autograd.grad(at_steps(case, steps), [scaled for _, scaled in calls])
            found = [_numbers(x * gradient) / pieces for (x, _), gradient in zip(calls, felt, strict=True)]
            products = found if not products else [a + b for a, b in zip(products, found, strict=True)]
        parts.append(case.gather(products))
        whole.append(sum(_by_row(product, case, len(steps)) for product in products))
    with torch.no_grad(), _scaled(case.vectors, 0.0):
        nothing = _numbers(case.ask([WHOLE])[0])
    added, total = np.concatenate(parts), np.concatenate(whole)
    apart = np.array(step_scores(case)) - nothing
    error = float(np.abs(apart - total).sum() / max(np.abs(apart).sum(), 1e-12))
    return Integrated(added, total - added.sum(axis=1), error)


@contextmanager
def _scaled(vectors: nn.Module, share: float) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """As if the vectors were so much of what they are; each call's vectors, and what was given on instead."""
    calls: list[tuple[Tensor, Tensor]] = []

    def scale(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        x = output.detach()
        calls.append((x, (share * x).requires_grad_(torch.is_grad_enabled())))
        return calls[-1][1]

    hook = vectors.register_forward_hook(scale)
    try:
        yield calls
    finally:
        hook.remove()


def _by_row(product: np.ndarray, case: Case, steps: int) -> np.ndarray:
    """The sum of all that belongs to each row that was asked about."""
    rows = product.reshape(len(product), -1).sum(axis=1)
    return rows.reshape(steps, -1)[:, case.row if len(rows) == steps * case.each else 0]


def _numbers(x: Tensor) -> np.ndarray:
    return x.detach().double().cpu().numpy()
