"""What a score is: how well does a query match a key?

    e[i, j] = score(q_i, k_j)

The ways of the literature look different and come down to two shapes, and `attend` knows a kernel for each that keeps
no table of Q×K (let alone Q×K×D) numbers:

    dot form    e = scale · q kᵀ          dot, scaled dot, bilinear, cosine, trilinear
    tanh form   e = wᵀ tanh(q + k)        additive, concat

A score says the same thing twice: `forward` is its equation, written plainly in the numbers' own type; `normal_form`
is what `attend` computes with. Tests hold the two together.

Weights of a score are shared by everything in the leading dimensions: by the rows of a batch, and by the heads if a
score sits inside `MultiHead`.
"""

import math
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.leading_shape import leading_shape
from regard.attention.role import Role
from regard.attention.tanh_table import tanh_table
from regard.errors import CallError
from regard.native import kernels

# A tanh form of so many numbers (four megabytes in float32; a step of a recurrent decoder, mostly) is quicker in the
# open than in tiles, and there is nothing to save.
SMALL = 2**20


def at_least_float32(x: Tensor) -> Tensor:
    """Scores of half-precision vectors overflow half precision (65504), so they are formed one size up."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def no_autocast(device: torch.device) -> AbstractContextManager:
    """Autocast would make half precision of the scores again."""
    if torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


class DotForm(NamedTuple):
    """e = scale · q kᵀ"""

    query: Float[Tensor, "*#b Q D"]
    key: Float[Tensor, "*#b K D"]
    scale: float

    def table(self) -> Float[Tensor, "*b Q K"]:
        """All Q×K scores. Scaled before the product, which keeps large vectors away from overflow."""
        return (at_least_float32(self.query) * self.scale) @ at_least_float32(self.key).mT

    def terms(self) -> Float[Tensor, " D"]:
        """What the score is the sum of, in a form of one query and one key."""
        return at_least_float32(self.query[0]) * self.scale * at_least_float32(self.key[0])

    def slopes(self) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
        """(a, b) with e = a · q + b · k, of one query and one key: half of each product belongs to either."""
        return 0.5 * self.scale * self.key[0], 0.5 * self.scale * self.query[0]

    def numbers(self) -> str:
        """The same with its numbers, as text."""
        return "" if self.scale == 1 else f"{self.scale:.4g} · {self.terms().sum().item() / self.scale:.4g}"


class TanhForm(NamedTuple):
    """e = wᵀ tanh(q + k)"""

    query: Float[Tensor, "*#b Q D"]
    key: Float[Tensor, "*#b K D"]
    weight: Float[Tensor, " D"]

    def table(self) -> Float[Tensor, "*b Q K"]:
        """All Q×K scores. The tensor of Q×K×D that the equation makes on the way is kept only where it is small."""
        query, key, weight = (at_least_float32(x) for x in self)
        if self.by_kernel() or self.held() > SMALL:
            return tanh_table(query, key, weight)
        return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ weight

    def terms(self) -> Float[Tensor, " D"]:
        """What the score is the sum of, in a form of one query and one key."""
        query, key, weight = (at_least_float32(x) for x in self)
        return weight * torch.tanh(query[0] + key[0])

    def slopes(self) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
        """(a, b) with e = a · q + b · k: tanh(u) is tanh(u)/u times u, and u = q + k is what both add."""
        u = self.query[0] + self.key[0]
        slope = self.weight * torch.where(u == 0, 1.0, torch.tanh(u) / torch.where(u == 0, 1.0, u))
        return slope, slope

    def numbers(self, most: int = 3) -> str:
        """The terms that contribute most, with their numbers, and the sum of the others, as text."""
        terms = self.terms()
        largest = terms.abs().topk(min(most, len(terms))).indices.tolist()
        shown = [f"{self.weight[n]:.3g}·tanh({self.query[0, n]:.3g} + {self.key[0, n]:.3g})" for n in largest]
        rest = (terms.sum() - terms[largest].sum()).item()
        others = len(terms) - len(largest)
        return " + ".join([*shown, *([f"{rest:.3g} of {others} other terms"] if others else [])])

    def held(self) -> int:
        """How many numbers the equation, written down directly, would hold at once: rows × Q × K × D."""
        lead = leading_shape(self.query, self.key)
        scores = math.prod(lead) * self.query.shape[-2] * self.key.shape[-2]
        return scores if self.by_kernel() else scores * len(self.weight)

    def by_kernel(self) -> bool:
        """Then the table is all that is ever held."""
        return not torch.is_grad_enabled() and kernels.available(*self)


class Score(nn.Module, ABC):
    """Base of all scores. A new one is a file with `forward` and `pair`, and its line in `catalog.SCORES`.

    `prepare` is there if the keys need work, `for_widths` if the score has weights.
    """

    role: Role | None = None  # of a score that a decoder asks itself, without a layer around it
    equation: ClassVar[str] = "e = score(q, k)"  # as it is shown to whoever asks where a weight comes from

    @classmethod
    def for_widths(cls, query_width: int, key_width: int, hidden: int) -> "Score":
        """The score for queries and keys of these widths; `hidden` is that of a layer of its own, if it has one.

        This one is for scores that need no arguments and hold the numbers of a query against those of a key.
        """
        require_equal_widths(cls, query_width, key_width)
        return cls()

    @abstractmethod
    def forward(self, query: Float[Tensor, "*#b Q Dq"], key: Float[Tensor, "*#b K Dk"]) -> Float[Tensor, "*b Q K"]:
        """The equation, written plainly."""

    @abstractmethod
    def pair(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K Dp"]) -> DotForm | TanhForm:
        """Queries and prepared keys, in the score's normal form."""

    def prepare(self, key: Float[Tensor, "*b K Dk"]) -> Float[Tensor, "*b K Dp"]:
        """The work that concerns the keys alone. A recurrent decoder does it once and then takes many steps."""
        return key

    def normal_form(
        self, query: Float[Tensor, "*#b Q Dq"], key: Float[Tensor, "*#b K Dk"], *, prepared: bool = False
    ) -> DotForm | TanhForm:
        """The score in the form that `attend` computes; `prepared` says that `key` went through `prepare` already."""
        return self.pair(query, key if prepared else self.prepare(key))

    def slopes(self, form: DotForm | TanhForm) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
        """What query and key of one pair bring: (a, b) with e = a · q + b · k, for vectors of the form."""
        return form.slopes()

    def numbers(self, form: DotForm | TanhForm) -> str:
        """The equation's right side with the numbers of one query and one key; empty if that is the score itself."""
        return form.numbers()


def require_equal_widths(score: type[Score], query_width: int, key_width: int) -> None:
    """Complain, before anything is built, about widths that a score cannot bring together."""
    if query_width != key_width:
        raise CallError(
            f"the score {score.__name__} needs queries and keys of one width, but here queries have {query_width} and "
            f"keys {key_width}; bilinear, additive and concat take different widths"
        )


def require_width(argument: str, x: Tensor, width: int, score: Score) -> None:
    """Complain in the user's words if the last dimension is not what the score was built for."""
    if x.shape[-1] != width:
        raise ValueError(f"{argument} has width {x.shape[-1]}, but this {type(score).__name__} was built for {width}")


def require_same_width(query: Tensor, key: Tensor, score: Score) -> None:
    """Complain if queries and keys cannot be multiplied with each other."""
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query has width {query.shape[-1]} and key has width {key.shape[-1]}; {type(score).__name__} needs them "
            "equal (Bilinear, Additive and Concat take different widths)"
        )
