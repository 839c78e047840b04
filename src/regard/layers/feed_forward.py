"""Feed-forward layers, dropout and norms."""

from functools import partial
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import CallError
from regard.kernels import gradients
from regard.kernels.training import dropped_share
from regard.layers.packed import linear


class Dropout(nn.Module):
    """Dropout that costs a third of torch's on a CPU.

        y = x · m / (1 − p),     m = 1 with probability 1 − p, else 0      Srivastava et al. 2014, section 4 (JMLR
        15)

    On a CPU, a small Transformer spends a fifth of its training time on sampling m, one number for each element.
    Here a 64-bit random integer decides four elements, 16 bits each; p is rounded to a multiple of 2^−16 for that,
    and the factor follows it. On other devices this is torch's dropout. With compiled kernels (`native`), m is
    sampled while x is processed, from a seed of torch's generator, and sampled again for the gradient: it is never
    stored.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise CallError(f"dropout={p} must be at least 0 and below 1")
        self.p = p

    def forward(self, x: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
        if not self.training or self.p == 0.0:
            return x
        if (native := gradients.drop(None, x, self.p)) is not None:
            return native
        return x * dropout_mask(x, self.p) if x.device.type == "cpu" else F.dropout(x, self.p)

    def added(self, x: Float[Tensor, "*b"], y: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
        """Return x + dropout(y), if possible in one pass."""
        quick = self.training and self.p > 0.0 and not (self._forward_hooks or self._forward_pre_hooks)
        native = gradients.drop(x, y, self.p) if quick else None
        return x + self(y) if native is None else native

    def extra_repr(self) -> str:
        return f"p={self.p}"


def dropout_mask(x: Float[Tensor, "*b"], p: float) -> Float[Tensor, "*b"]:
    """Return m / (1 − p) in the shape of x, sampled from torch's CPU generator."""
    dropped = dropped_share(p)
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    mask = torch.empty_like(x, memory_format=torch.contiguous_format, requires_grad=False)
    torch.ge(bits[: x.numel()].view(x.shape), dropped - 2**15, out=mask)
    return mask.mul_(2**16 / (2**16 - dropped))


Activation = Literal["relu", "gelu", "gelu_tanh", "swish"]
FUNCTIONS = {
    "relu": torch.relu_,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "swish": F.silu,
}


class FeedForward(nn.Module):
    """The feed-forward part of a Transformer block, which processes each position alone.

        plain   y = W₂ f(W₁ x + b₁) + b₂               Vaswani et al. 2017, section 3.3 (arXiv:1706.03762)
        gated   y = W₂ (silu(W₁ x) · W₃ x)             SwiGLU: Shazeer 2020 (arXiv:2002.05202), no bias

    f is relu, gelu (Hendrycks and Gimpel 2016, arXiv:1606.08415) or gelu_tanh, that paper's approximation (GPT-2);
    or swish, x σ(x) (Ramachandran et al. 2017, arXiv:1710.05941), as in Marian's models. The gated form computes W₁
    and W₃ as one matrix. It has three matrices, so at `hidden` equal to 2/3 of the plain form's it has as many
    parameters.
    """

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
        return linear(self.narrow, self.dropout(self.hidden_layer(x.reshape(-1, x.shape[-1])))).view(x.shape)

    def hidden_layer(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N F"]:
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


class WordDropout(nn.Module):
    """Word dropout: in training, random words are replaced by the unknown word, so that the model relies less on
    single words and learns a vector for unknown words.

        y_t ← <unk> with probability p

    Iyyer et al. 2015, section 4 (aclanthology.org/P15-1162), who remove the words instead.
    """

    kept: Tensor

    def __init__(self, share: float, *, unknown: int, keep: list[int]) -> None:
        """`keep`: tokens that are never replaced, such as padding, start and end."""
        super().__init__()
        self.share, self.unknown = share, unknown
        self.register_buffer("kept", torch.tensor(keep), persistent=False)

    def forward(self, tokens: Int[Tensor, "B S"]) -> Int[Tensor, "B S"]:
        if not self.training:
            return tokens
        drop = torch.rand(tokens.shape, device=tokens.device) < self.share
        return tokens.masked_fill(drop & ~torch.isin(tokens, self.kept), self.unknown)


# Norms of a vector over its width.
#
# layer   y = γ · (x − mean) / √(variance + ε) + β      Ba et al. 2016 (arXiv:1607.06450)
# rms     y = γ · x / √(mean of x² + ε)                 Zhang and Sennrich 2019 (arXiv:1910.07467)

NormKind = Literal["layer", "rms"]


def norm(width: int, kind: NormKind = "layer", *, eps: float | None = None, bias: bool = True) -> nn.Module:
    """Return a norm; ε is 1e-5 for layer and 1e-6 for rms by default; `bias=False` omits β of layer norm."""
    if kind == "layer":
        return nn.LayerNorm(width, eps=1e-5 if eps is None else eps, bias=bias)
    return nn.RMSNorm(width, eps=1e-6 if eps is None else eps)


# Reversible instance norm: each target's mean and deviation over the window are removed before the model and restored
# in its output, so that the model can handle levels that were not in the training data.
#
#     window   x' = (x − mean_window) / √(var_window + ε)         ŷ = ŷ' √(var_window + ε) + mean_window
#     last     x' = x − x_last                                    ŷ = ŷ' + x_last           (Zeng et al. 2022,
#     NLinear)
#
# Kim et al. 2022, section 2, ICLR; without its affine map. Zeng et al.: arXiv:2205.13504.

EPSILON = 1e-5
InstanceNorm = Literal["window", "last", "none"]


class Level(NamedTuple):
    """The mean that is subtracted from each target of a window, and the deviation that divides the rest."""

    mean: Float[Tensor, "B 1 M"]
    deviation: Float[Tensor, "B 1 M"]

    @classmethod
    def of(cls, past: Float[Tensor, "B S M"]) -> "Level":
        variance, mean = torch.var_mean(past, dim=1, keepdim=True, correction=0)
        return cls(mean, (variance + EPSILON).sqrt())

    @classmethod
    def last(cls, past: Float[Tensor, "B S M"]) -> "Level":
        return cls(past[:, -1:], torch.ones_like(past[:, -1:]))
