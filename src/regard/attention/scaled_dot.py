"""Scaled dot product.

    e = q kᵀ / √d

Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, arXiv:1706.03762. If the entries of q and k are
independent with variance 1, q·k has variance d; the root takes it back to 1, where the softmax still has a gradient.
"""

import math

from jaxtyping import Float
from torch import Tensor

from regard.attention.score import DotForm, Score, TanhForm, require_same_width


class ScaledDot(Score):
    equation = "e = q kᵀ / √d"

    def forward(self, query: Float[Tensor, "*#b Q D"], key: Float[Tensor, "*#b K D"]) -> Float[Tensor, "*b Q K"]:
        return query @ key.mT / math.sqrt(query.shape[-1])

    def pair(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K Dk"]) -> DotForm:
        require_same_width(query, prepared, self)
        return DotForm(query, prepared, scale=1 / math.sqrt(query.shape[-1]))

    def numbers(self, form: DotForm | TanhForm) -> str:
        width = form.query.shape[-1]
        return f"{form.terms().sum().item() * math.sqrt(width):.4g} / √{width}"
