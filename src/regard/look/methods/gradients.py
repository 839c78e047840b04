"""Gradients of log p(y_t | y_<t, x) with respect to the weights or the input.

    gradient × attention    (α_ti · ∂ log p(y_t) / ∂α_ti)⁺      Chefer et al. 2021, section 3.1 (arXiv:2103.15679), who
                                                                take the mean over heads and follow it through layers
    input × gradient        |x_i · ∂ log p(y_t) / ∂x_i|         Denil et al. 2014 (arXiv:1412.6815), Shrikumar et al.
                                                                2016 (arXiv:1605.01713); x_i: the token's embedding

Where we differ: every layer and head keeps a table of its own, nothing is followed through layers, and rows are scaled
to sum to one. The first is a first-order guess of what is lost with a weight; the positive part speaks for the output.
The size in the second loses the sign, and with it whether a token speaks for or against.
"""

import numpy as np
import torch
from jaxtyping import Float

from regard.look.asking import Added, at_steps, by_row, leaves, numbers, require_vectors, some_steps
from regard.look.card import normalized
from regard.look.case import Case


def gradient_times_attention(
    weights: Float[np.ndarray, "*b Q K"], gradient: Float[np.ndarray, "*b Q K"], *, both_ways: bool = False
) -> Float[np.ndarray, "*b Q K"]:
    """Return weight × gradient. `both_ways`: the output is a number, so both signs count."""
    felt = weights * gradient
    return normalized(np.abs(felt) if both_ways else np.maximum(felt, 0.0))


def input_times_gradient(case: Case) -> Added:
    """Return x_i · ∂ log p(y_t) / ∂x_i, with its sign."""
    vectors = require_vectors(case, "input-gradient")
    assert case.gather is not None
    parts, whole = [], []
    for steps in some_steps(case):
        with leaves([vectors]) as calls:
            felt = torch.autograd.grad(at_steps(case, steps), [leaf for _, leaf in calls])
        products = [numbers(x * gradient) for (x, _), gradient in zip(calls, felt, strict=True)]
        parts.append(case.gather(products))
        whole.append(sum(by_row(product, case, len(steps)) for product in products))
    added = np.concatenate(parts)
    return Added(added, np.concatenate(whole) - added.sum(axis=1), "A gradient is true for small changes only.")
