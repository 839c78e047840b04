"""Trilinear: a weight for the query, one for the key, and one for their product.

    e = w_qᵀ q + w_kᵀ k + wᵀ (q ∘ k)

Seo et al. 2016, "Bidirectional Attention Flow", equation 1, arXiv:1611.01603, where it is written wᵀ[q; k; q ∘ k].
Both must have one width. Written out it is a dot product of longer vectors, e = [w ∘ q; w_qᵀ q; 1] · [k; 1; w_kᵀ k], so
that nothing of size Q×K×D is ever made.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.score import DotForm, Score, TanhForm, require_equal_widths, require_width


class Trilinear(Score):
    equation = "e = w_qᵀ q + w_kᵀ k + wᵀ (q ∘ k)"

    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Parameter(torch.empty(width))
        self.key = nn.Parameter(torch.empty(width))
        self.both = nn.Parameter(torch.empty(width))
        for weight in (self.query, self.key, self.both):
            nn.init.normal_(weight, std=width**-0.5)

    @classmethod
    def for_widths(cls, query_width: int, key_width: int, hidden: int) -> "Trilinear":
        require_equal_widths(cls, query_width, key_width)
        return cls(query_width)

    def forward(self, query: Float[Tensor, "*#b Q D"], key: Float[Tensor, "*#b K D"]) -> Float[Tensor, "*b Q K"]:
        alone = (query @ self.query).unsqueeze(-1) + (key @ self.key).unsqueeze(-2)
        return alone + (query * self.both) @ key.mT

    def prepare(self, key: Float[Tensor, "*b K D"]) -> Float[Tensor, "*b K Dp"]:
        require_width("key", key, len(self.key), self)
        alone = (key @ self.key).unsqueeze(-1)
        return torch.cat([key, torch.ones_like(alone), alone], dim=-1)

    def pair(self, query: Float[Tensor, "*#b Q D"], prepared: Float[Tensor, "*#b K Dp"]) -> DotForm:
        require_width("query", query, len(self.query), self)
        require_width("prepared key", prepared, len(self.key) + 2, self)
        alone = (query @ self.query).unsqueeze(-1)
        return DotForm(torch.cat([query * self.both, alone, torch.ones_like(alone)], dim=-1), prepared, scale=1.0)

    def slopes(self, form: DotForm | TanhForm) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
        """Return the slopes; the terms w_qᵀ q and w_kᵀ k belong to the query and the key alone."""
        query, key = form.query[0] / 2, form.key[0] / 2
        query[-2:], key[-2:] = query.new_tensor([0.0, 1.0]), key.new_tensor([1.0, 0.0])
        return key, query

    def numbers(self, form: DotForm | TanhForm) -> str:
        *both, query, key = form.terms().tolist()
        return f"{query:.4g} + {key:.4g} + {sum(both):.4g}"
