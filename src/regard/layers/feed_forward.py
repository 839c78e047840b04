"""The feed-forward part of a Transformer block, which processes each position alone.

    plain   y = W₂ f(W₁ x + b₁) + b₂               Vaswani et al. 2017, section 3.3 (arXiv:1706.03762)
    gated   y = W₂ (silu(W₁ x) · W₃ x)             SwiGLU: Shazeer 2020 (arXiv:2002.05202), no bias

f is relu, gelu (Hendrycks and Gimpel 2016, arXiv:1606.08415) or gelu_tanh, that paper's approximation (GPT-2);
or swish, x σ(x) (Ramachandran et al. 2017, arXiv:1710.05941), as in Marian's models.
The gated form computes W₁ and W₃ as one matrix. It has three matrices, so at `hidden` equal to 2/3 of the plain form's
it has as many parameters.
"""

from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.packed import linear
from regard.native import gradients

Activation = Literal["relu", "gelu", "gelu_tanh", "swish"]
FUNCTIONS = {
    "relu": torch.relu_,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "swish": F.silu,
}


class FeedForward(nn.Module):
    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        activation: Activation = "relu",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        bias = bias and not gated
        self.activation = FUNCTIONS[activation]
        self.gated = gated
        self.widen = nn.Linear(width, 2 * hidden if gated else hidden, bias=bias)
        self.narrow = nn.Linear(hidden, width, bias=bias)
        self.dropout = Dropout(dropout)
        for layer in (self.widen, self.narrow):
            nn.init.xavier_uniform_(layer.weight)
            if bias:
                nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        if self.training and self.is_relu and self.dropout.p == 0.0:
            trained = gradients.relu_between(x, self.widen, self.narrow)
            if trained is not None:
                return trained
        # As a matrix: relu can work in place on a new tensor, while on a view autograd would make copies.
        return linear(self.narrow, self.dropout(self.widened(x.reshape(-1, x.shape[-1])))).view(x.shape)

    def widened(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N F"]:
        """Return the input of the second product."""
        return linear(self.widen, x, relu=True) if self.is_relu else self.between(linear(self.widen, x))

    @property
    def is_relu(self) -> bool:
        """Whether only relu is between the two products, so that the first one can apply it."""
        return self.activation is torch.relu_ and not self.gated

    def between(self, wide: Float[Tensor, "N E"]) -> Float[Tensor, "N F"]:
        """Apply everything between the two products."""
        if not self.gated:
            return self.activation(wide)
        gate, value = wide.chunk(2, dim=-1)
        return F.silu(gate) * value
