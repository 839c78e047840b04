"""Bilinear, also called multiplicative or general.

    e = q W kᵀ

Luong, Pham, Manning 2015, section 3.1 (`general`), arXiv:1508.04025. W maps keys to the space of queries, so
that the two may have different widths. With W = W_q W_kᵀ it is the dot product of two projections. The paper does not
scale; nor do we.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.score import DotForm, Score, require_width


class Bilinear(Score):
    equation = "e = q W kᵀ"

    def __init__(self, query_width: int, key_width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_width, key_width))
        nn.init.xavier_uniform_(self.weight)

    @classmethod
    def for_widths(cls, query_width: int, key_width: int, hidden: int) -> "Bilinear":
        return cls(query_width, key_width)

    def forward(self, query: Float[Tensor, "*#b Q Dq"], key: Float[Tensor, "*#b K Dk"]) -> Float[Tensor, "*b Q K"]:
        return query @ self.weight @ key.mT

    def prepare(self, key: Float[Tensor, "*b K Dk"]) -> Float[Tensor, "*b K Dq"]:
        require_width("key", key, self.weight.shape[1], self)
        return key @ self.weight.mT

    def pair(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K Dp"]) -> DotForm:
        require_width("query", query, self.weight.shape[0], self)
        require_width("prepared key", prepared, self.weight.shape[0], self)
        return DotForm(query, prepared, scale=1.0)
