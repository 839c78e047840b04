"""Concatenation.

    e = w₂ᵀ tanh(W₁ [q; k])

Luong, Pham, Manning 2015, section 3.1 (`concat`), arXiv:1508.04025. Query and key, concatenated, through one hidden
layer. Splitting W₁ = [W_q W_k] shows that it is `additive` in one matrix, W₁[q; k] = W_q q + W_k k, and that is how
it is computed: the Q×K pairs are never concatenated except in `forward`, which follows the equation.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.leading_shape import leading_shape
from regard.attention.score import Score, TanhForm, require_width


class Concat(Score):
    equation = "e = w₂ᵀ tanh(W₁ [q; k])"

    def __init__(self, query_width: int, key_width: int, hidden: int):
        super().__init__()
        self.widths = (query_width, key_width)
        self.hidden = nn.Linear(query_width + key_width, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden))
        nn.init.uniform_(self.weight, -(hidden**-0.5), hidden**-0.5)

    @classmethod
    def for_widths(cls, query_width: int, key_width: int, hidden: int) -> "Concat":
        return cls(query_width, key_width, hidden)

    def forward(self, query: Float[Tensor, "*#b Q Dq"], key: Float[Tensor, "*#b K Dk"]) -> Float[Tensor, "*b Q K"]:
        lead = leading_shape(query, key)
        pairs = (*lead, query.shape[-2], key.shape[-2], -1)
        both = torch.cat([query.unsqueeze(-2).expand(pairs), key.unsqueeze(-3).expand(pairs)], dim=-1)
        return torch.tanh(self.hidden(both)) @ self.weight

    def prepare(self, key: Float[Tensor, "*b K Dk"]) -> Float[Tensor, "*b K hidden"]:
        require_width("key", key, self.widths[1], self)
        return F.linear(key, self.hidden.weight[:, self.widths[0] :])

    def pair(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K hidden"]) -> TanhForm:
        require_width("query", query, self.widths[0], self)
        require_width("prepared key", prepared, self.hidden.out_features, self)
        return TanhForm(F.linear(query, self.hidden.weight[:, : self.widths[0]]), prepared, self.weight)
