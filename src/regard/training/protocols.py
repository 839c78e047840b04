"""The interfaces between the loop and the models and data it trains, independent of any job."""

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
    """A model whose parts have learning rates relative to the schedule's."""

    def rates(self) -> dict[Tensor, float]: ...


@runtime_checkable
class InStages(Protocol):
    """A model whose parts are trained one after the other: no step has a gradient for all weights."""

    in_stages: bool


@runtime_checkable
class Batch(Protocol):
    """One process's share of a batch."""

    def to(self, device: Any) -> Any: ...


@runtime_checkable
class Batches(Protocol):
    """The data in an order that depends only on (seed, epoch), so that a position in it is two integers.

    Batches are counted before they are split: each of `world` processes gets its part of every batch, so the same
    position means the same data for any number of processes. A process whose part is empty gets None.
    """

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[Any]: ...
    def len_epoch(self, number: int) -> int: ...
