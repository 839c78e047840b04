"""Integrated gradients: the contribution of each input part to the output.

    IG_i(t) = x_i · ∫₀¹ ∂ s_t(αx) / ∂x_i dα        Σ_i IG_i(t) = s_t(x) − s_t(0)

Sundararajan et al. 2017, section 3 (arXiv:1703.01365). s_t is what the model thinks of step t (log p), x the vectors of
the input: embeddings without positions, patches, frames. The integral is a sum over the middles of `STEPS` equal
pieces; how far the two sides of the second equation are apart is said. Unlike input × gradient, nothing is lost where
the output has stopped to feel its input; like it, the answer depends on what counts as nothing, here zeros.
"""

import numpy as np
import torch

from regard.look.asking import Added, at_steps, by_row, leaves, numbers, require_vectors, some_steps, step_scores
from regard.look.card import Figure
from regard.look.case import WHOLE, Case

STEPS = 32


def integrated_gradients(case: Case, pieces: int = STEPS) -> Added:
    vectors = require_vectors(case, "integrated-gradients")
    assert case.gather is not None
    parts, whole = [], []
    for steps in some_steps(case):
        products: list[np.ndarray] = []
        for piece in range(pieces):
            share = (piece + 0.5) / pieces
            with leaves([vectors], lambda x, share=share: share * x) as calls:
                felt = torch.autograd.grad(at_steps(case, steps), [leaf for _, leaf in calls])
            found = [numbers(x * gradient) / pieces for (x, _), gradient in zip(calls, felt, strict=True)]
            products = found if not products else [a + b for a, b in zip(products, found, strict=True)]
        parts.append(case.gather(products))
        whole.append(sum(by_row(product, case, len(steps)) for product in products))
    with torch.no_grad(), leaves([vectors], torch.zeros_like):
        nothing = numbers(case.ask([WHOLE])[0])
    added, total = np.concatenate(parts), np.concatenate(whole)
    apart = np.array(step_scores(case)) - nothing
    error = float(np.abs(apart - total).sum() / max(np.abs(apart).sum(), 1e-12))
    figures = (
        Figure("more than for an input of zeros", float(apart.sum())), Figure("of it at the input", float(total.sum())),
        Figure("share of it that is lost", error, better="low"),
    )  # fmt: skip
    about = f"{error:.1%} are lost on the way from an input of zeros."
    return Added(added, total - added.sum(axis=1), about, figures)
