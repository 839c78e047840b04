"""What the loop asks of the things it trains. It knows no text, no image and no job."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Loss(Protocol):
    """What a trainable model's `forward(batch)` returns: the *sum* of the loss and how many items were summed."""

    @property
    def total(self) -> Tensor: ...
    @property
    def count(self) -> Any: ...


@runtime_checkable
class Paced(Protocol):
    """A model whose parts learn at rates of their own, relative to the schedule's."""

    def rates(self) -> dict[Tensor, float]: ...


@runtime_checkable
class InStages(Protocol):
    """A model whose parts learn one after the other: no step gives a gradient to all weights."""

    in_stages: bool


@runtime_checkable
class Batch(Protocol):
    """One process's share of a batch."""

    def to(self, device: Any) -> Any: ...


@runtime_checkable
class Batches(Protocol):
    """The data in an order that depends on nothing but (seed, epoch), so that a position in it is two integers.

    Batches are counted before they are shared out: with `world` processes each gets its part of every batch, so the
    same position means the same data for any number of processes. A process whose part is empty gets None.
    """

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[Any]: ...
    def len_epoch(self, number: int) -> int: ...
