"""Additive: a network with one hidden layer.

    e = w₂ᵀ tanh(W_q q + W_k k)

Bahdanau, Cho, Bengio 2015, "Neural Machine Translation by Jointly Learning to Align and Translate", section 3.1 and
appendix A.1.2, arXiv:1409.0473. As there, no bias. W_k k is computed once for all queries (`prepare`). The table of
Q×K×hidden numbers that the equation suggests is never kept: see `streaming`.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.score import Score, TanhForm, require_width


class Additive(Score):
    equation = "e = w₂ᵀ tanh(W_q q + W_k k)"

    def __init__(self, query_width: int, key_width: int, hidden: int):
        super().__init__()
        self.query = nn.Linear(query_width, hidden, bias=False)
        self.key = nn.Linear(key_width, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden))
        nn.init.uniform_(self.weight, -(hidden**-0.5), hidden**-0.5)

    @classmethod
    def for_widths(cls, query_width: int, key_width: int, hidden: int) -> "Additive":
        return cls(query_width, key_width, hidden)

    def forward(self, query: Float[Tensor, "*#b Q Dq"], key: Float[Tensor, "*#b K Dk"]) -> Float[Tensor, "*b Q K"]:
        return torch.tanh(self.query(query).unsqueeze(-2) + self.key(key).unsqueeze(-3)) @ self.weight

    def prepare(self, key: Float[Tensor, "*b K Dk"]) -> Float[Tensor, "*b K hidden"]:
        require_width("key", key, self.key.in_features, self)
        return self.key(key)

    def pair(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K hidden"]) -> TanhForm:
        require_width("query", query, self.query.in_features, self)
        require_width("prepared key", prepared, self.key.out_features, self)
        return TanhForm(self.query(query), prepared, self.weight)
