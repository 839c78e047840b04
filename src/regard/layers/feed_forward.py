"""The part of a Transformer block that works on each position alone.

    plain   y = W₂ f(W₁ x + b₁) + b₂               Vaswani et al. 2017, section 3.3 (arXiv:1706.03762)
    gated   y = W₂ (silu(W₁ x) · W₃ x)             SwiGLU: Shazeer 2020 (arXiv:2002.05202), no bias

The gated form computes W₁ and W₃ as one matrix. It has three matrices, so at `hidden` equal to 2/3 of the plain form's
it has as many parameters.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.dropout import Dropout

Activation = Literal["relu", "gelu"]


class FeedForward(nn.Module):
    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        activation: Activation = "relu",
        gated: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.activation = torch.relu_ if activation == "relu" else F.gelu
        self.gated = gated
        self.widen = nn.Linear(width, 2 * hidden if gated else hidden, bias=not gated)
        self.narrow = nn.Linear(hidden, width, bias=not gated)
        self.dropout = Dropout(dropout)
        for linear in (self.widen, self.narrow):
            nn.init.xavier_uniform_(linear.weight)
            if not gated:
                nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        # As a matrix: relu can work in place on a fresh one, while on a view autograd would make copies.
        wide = self.widen(x.reshape(-1, x.shape[-1]))
        if self.gated:
            gate, value = wide.chunk(2, dim=-1)
            wide = F.silu(gate) * value
        else:
            wide = self.activation(wide)
        return self.narrow(self.dropout(wide)).view(x.shape)
