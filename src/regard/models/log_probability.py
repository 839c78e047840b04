"""What a model thinks of a token, or of its lead over another one.

log p(y) = z_y − log Σ_v exp z_v        log p(y) − log p(y′) = z_y − z_y′: what both share is gone
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def log_probability(
    logits: Float[Tensor, "*b V"], tokens: Int[Tensor, " *b"], instead: int | None = None
) -> Float[Tensor, " *b"]:
    """Of each token; less that of `instead`, where one is given: why this one, and not that one."""
    table = logits.log_softmax(-1, dtype=torch.float32)
    own = table.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return own if instead is None else own - table[..., instead]
