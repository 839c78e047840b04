"""Scores: how well a query matches a key.

    e[i, j] = score(q_i, k_j)

All scores of the literature reduce to two forms, and `attend` has a kernel for each that stores no table of Q×K (or
even Q×K×D) numbers:

    dot form    e = scale · q kᵀ          dot, scaled dot, bilinear, cosine, trilinear
    tanh form   e = wᵀ tanh(q + k)        additive, concat

A score has two implementations: `forward` is its equation, written plainly in the numbers' own type; `normal_form` is
used by `attend`. Tests check that both agree.

Weights of a score are shared by everything in the leading dimensions: by the rows of a batch, and by the heads if a
score is used in `MultiHead`.
"""

import math
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, Literal, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.masks import leading_shape
from regard.attention.tanh_table import tanh_table
from regard.errors import CallError
from regard.kernels import inference

# The role of an attention module: what attends to what, and in which layer.
#
#     encoder   the vectors of an input attend to each other
#     decoder   each step of an output attends to the steps before it
#     cross     each step of an output attends to the memory of an input
#     pooling   one learned query attends to a memory
#     gate      no weights over keys, but a factor on the context
#
# The code that builds a model sets the role (`module.role = Role("cross", 2)`). A trace stores it with the weights,
# so that module names need not be parsed. Recurrent layers have a similar mark: `Recurrence`.

RoleKind = Literal["encoder", "decoder", "cross", "pooling", "gate"]
M = TypeVar("M", bound=nn.Module)


class Role(NamedTuple):
    """`followed`: vectors keep their positions from one layer to the next, so that weights can be followed through
    them; in a CNN, convolutions mix neighbors between the layers."""

    kind: RoleKind
    layer: int = 0
    followed: bool = True


class Recurrence(NamedTuple):
    """The role of a recurrent layer (`module.recurrence`): whether its states read an input or write an output.
    `backward`: its input is reversed, the last vector first."""

    kind: Literal["encoder", "decoder"]
    backward: bool = False

    def of(self, layer: M) -> M:
        """Set this role on the layer and return the layer."""
        object.__setattr__(layer, "recurrence", self)
        return layer


# A tanh form of at most this many numbers (four megabytes in float32; usually a step of a recurrent decoder) is faster
# computed directly than in tiles, and there is no memory to save.
SMALL = 2**20


def at_least_float32(x: Tensor) -> Tensor:
    """Convert half precision to float32: scores of such vectors can overflow half precision (65504)."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def no_autocast(device: torch.device) -> AbstractContextManager:
    """Disable autocast, which would convert the scores back to half precision."""
    if torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


class DotForm(NamedTuple):
    """e = scale · q kᵀ"""

    query: Float[Tensor, "*#b Q D"]
    key: Float[Tensor, "*#b K D"]
    scale: float

    def table(self) -> Float[Tensor, "*b Q K"]:
        """Return all Q×K scores. Scaling before the product avoids overflow for large vectors."""
        return (at_least_float32(self.query) * self.scale) @ at_least_float32(self.key).mT

    def terms(self) -> Float[Tensor, " D"]:
        """What the score is the sum of, in a form of one query and one key."""
        return at_least_float32(self.query[0]) * self.scale * at_least_float32(self.key[0])

    def slopes(self) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
        """Return (a, b) with e = a · q + b · k for one query and one key: each gets half of the product."""
        return 0.5 * self.scale * self.key[0], 0.5 * self.scale * self.query[0]

    def numbers(self) -> str:
        """Return the equation with its numbers, as text."""
        return "" if self.scale == 1 else f"{self.scale:.4g} · {self.terms().sum().item() / self.scale:.4g}"


class TanhForm(NamedTuple):
    """e = wᵀ tanh(q + k)"""

    query: Float[Tensor, "*#b Q D"]
    key: Float[Tensor, "*#b K D"]
    weight: Float[Tensor, " D"]

    def table(self) -> Float[Tensor, "*b Q K"]:
        """Return all Q×K scores. The intermediate tensor of Q×K×D is stored only if it is small."""
        query, key, weight = (at_least_float32(x) for x in self)
        if self.by_kernel() or self.peak_elements() > SMALL:
            return tanh_table(query, key, weight)
        return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ weight

    def terms(self) -> Float[Tensor, " D"]:
        """What the score is the sum of, in a form of one query and one key."""
        query, key, weight = (at_least_float32(x) for x in self)
        return weight * torch.tanh(query[0] + key[0])

    def slopes(self) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
        """Return (a, b) with e = a · q + b · k: tanh(u) is tanh(u)/u times u, and u = q + k."""
        u = self.query[0] + self.key[0]
        slope = self.weight * torch.where(u == 0, 1.0, torch.tanh(u) / torch.where(u == 0, 1.0, u))
        return slope, slope

    def numbers(self, most: int = 3) -> str:
        """Return the largest terms with their numbers, and the sum of the others, as text."""
        terms = self.terms()
        largest = terms.abs().topk(min(most, len(terms))).indices.tolist()
        shown = [f"{self.weight[n]:.3g}·tanh({self.query[0, n]:.3g} + {self.key[0, n]:.3g})" for n in largest]
        rest = (terms.sum() - terms[largest].sum()).item()
        others = len(terms) - len(largest)
        return " + ".join([*shown, *([f"{rest:.3g} of {others} other terms"] if others else [])])

    def peak_elements(self) -> int:
        """Return the number of elements in the intermediate tensor of the direct equation: rows × Q × K × D."""
        lead = leading_shape(self.query, self.key)
        scores = math.prod(lead) * self.query.shape[-2] * self.key.shape[-2]
        return scores if self.by_kernel() else scores * len(self.weight)

    def by_kernel(self) -> bool:
        """Whether a kernel computes the table without an intermediate tensor."""
        return not torch.is_grad_enabled() and inference.available(*self)


class Score(nn.Module, ABC):
    """Base class of all scores. A new one is a file with `forward` and `pair`, and a line in `catalog.SCORES`.

    Override `prepare` if the keys need work, `for_widths` if the score has weights.
    """

    role: Role | None = None  # of a score that a decoder uses directly, without an attention layer
    equation: ClassVar[str] = "e = score(q, k)"  # shown in explanations of a weight

    @classmethod
    def for_widths(cls, query_width: int, key_width: int, hidden: int) -> "Score":
        """Return the score for queries and keys of these widths; `hidden`: width of its hidden layer, if any.

        This default is for scores without arguments that need queries and keys of the same width.
        """
        require_equal_widths(cls, query_width, key_width)
        return cls()

    @abstractmethod
    def forward(self, query: Float[Tensor, "*#b Q Dq"], key: Float[Tensor, "*#b K Dk"]) -> Float[Tensor, "*b Q K"]:
        """Return the scores by the plain equation."""

    @abstractmethod
    def to_normal_form(
        self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K Dp"]
    ) -> DotForm | TanhForm:
        """Return the normal form of queries and prepared keys."""

    def prepare(self, key: Float[Tensor, "*b K Dk"]) -> Float[Tensor, "*b K Dp"]:
        """Return the keys after the work that needs no query. A recurrent decoder does it once for many steps."""
        return key

    def normal_form(
        self, query: Float[Tensor, "*#b Q Dq"], key: Float[Tensor, "*#b K Dk"], *, prepared: bool = False
    ) -> DotForm | TanhForm:
        """Return the form that `attend` uses; `prepared`: `key` has been through `prepare`."""
        return self.to_normal_form(query, key if prepared else self.prepare(key))

    def slopes(self, form: DotForm | TanhForm) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
        """Return (a, b) with e = a · q + b · k for one query and one key, for vectors of the form."""
        return form.slopes()

    def numbers(self, form: DotForm | TanhForm) -> str:
        """Return the equation's right side with the numbers of one query and one key; "" if it is just the score."""
        return form.numbers()


def require_equal_widths(score: type[Score], query_width: int, key_width: int) -> None:
    """Raise a CallError, before anything is built, if a score needs queries and keys of one width."""
    if query_width != key_width:
        raise CallError(
            f"the score {score.__name__} needs queries and keys of one width, but here queries have {query_width} and "
            f"keys {key_width}; bilinear, additive and concat take different widths"
        )


def require_width(argument: str, x: Tensor, width: int, score: Score) -> None:
    """Raise a ValueError if the last dimension is not the width that the score was built for."""
    if x.shape[-1] != width:
        raise ValueError(f"{argument} has width {x.shape[-1]}, but this {type(score).__name__} was built for {width}")


def require_same_width(query: Tensor, key: Tensor, score: Score) -> None:
    """Raise a ValueError if queries and keys have different widths."""
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query has width {query.shape[-1]} and key has width {key.shape[-1]}; {type(score).__name__} needs them "
            "equal (Bilinear, Additive and Concat take different widths)"
        )
