"""Dot product.

    e = q kᵀ

Luong, Pham, Manning 2015, "Effective Approaches to Attention-based Neural Machine Translation", section 3.1 (`dot`),
arXiv:1508.04025. It has no weights; queries and keys must have the same width. For large widths its softmax saturates:
the variance of e grows with the width. See `scaled_dot`.
"""

from jaxtyping import Float
from torch import Tensor

from regard.attention.score import DotForm, Score, require_same_width


class Dot(Score):
    equation = "e = q kᵀ"

    def forward(self, query: Float[Tensor, "*#b Q D"], key: Float[Tensor, "*#b K D"]) -> Float[Tensor, "*b Q K"]:
        return query @ key.mT

    def pair(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K Dk"]) -> DotForm:
        require_same_width(query, prepared, self)
        return DotForm(query, prepared, scale=1.0)
