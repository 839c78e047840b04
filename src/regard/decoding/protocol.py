"""The interface between decoding and models: a step takes and returns a state, and features become logits."""

from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

T = TypeVar("T")


@runtime_checkable
class State(Protocol):
    """What a decoder remembers between two steps, for N rows at once. A value: no step changes it."""

    @property
    def rows(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def joins(self) -> bool:
        """Whether rows that began at another step can join."""
        ...

    def select(self: T, rows: Int[Tensor, " M"]) -> T:
        """Keep, drop, repeat or reorder rows."""
        ...

    def join(self: T, other: T) -> T:
        """These rows, and after them those of another state of the same model."""
        ...


S = TypeVar("S", bound=State)


@runtime_checkable
class Steps(Protocol[S]):
    """Anything that can be decoded. `model.start(memory)` makes the first state."""

    def step(self, tokens: Int[Tensor, " N"], state: S) -> tuple[Float[Tensor, "N D"], S]: ...

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]: ...


class Hypothesis(NamedTuple):
    """One output. `log_probability` is the model's, the end symbol included; n-best lists are ordered by `score`."""

    tokens: list[int]  # without <s> and </s>
    score: float
    log_probability: float
