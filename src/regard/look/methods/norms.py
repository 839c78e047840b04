"""Norm-weighted attention: each weight times the norm of its transformed value.

    y_i = Σ_j α_ij f(x_j),     f(x) = (x W_v + b_v) W_o          shown: ‖α_ij f(x_j)‖ = α_ij ‖f(x_j)‖

Kobayashi et al. 2020, section 3 (arXiv:2004.10102): heads put large weights on tokens whose vectors are short, and such
weights move nothing. Where we differ: f and the norm are taken head by head, where the paper adds up the vectors of all
heads first, so that each head has its own picture; and rows are scaled to sum to one.
"""

import numpy as np
from jaxtyping import Float

from regard.look.card import normalized


def norm_weighted(
    weights: Float[np.ndarray, "H Q K"],
    values: Float[np.ndarray, "H K Dv"],
    output: Float[np.ndarray, "H Dv D"] | None = None,
) -> Float[np.ndarray, "H Q K"]:
    """`values` are x W_v + b_v of each head; `output` its part of W_o, None where values go on as they are."""
    brought = values if output is None else values @ output
    return normalized(weights * np.linalg.norm(brought, axis=-1)[:, None, :])
