"""Evenly spaced samples. Neighbors in a file are often similar, so the first rows are not representative."""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Spread(Generic[T]):
    """Sample of a stream of unknown length: every first, second, fourth, eighth, ... item, in order.

    most   as many are kept, at the most, and at least half as many
    size   of an item; fewer are kept if all of them together are larger than `largest`
    """

    def __init__(self, most: int, size: Callable[[T], int] = lambda item: 1, largest: int | None = None) -> None:
        self.items: list[T] = []
        self._most, self._size, self._largest = most, size, most if largest is None else largest
        self._step, self._seen, self._total = 1, 0, 0

    def add(self, item: T) -> None:
        if self._seen % self._step == 0:
            self.items.append(item)
            self._total += self._size(item)
        self._seen += 1
        while len(self.items) > 1 and (len(self.items) > self._most or self._total > self._largest):
            self.items, self._step = self.items[::2], 2 * self._step
            self._total = sum(map(self._size, self.items))

    @classmethod
    def of(cls, items: Iterable[T], most: int) -> list[T]:
        found = cls(most)
        for item in items:
            found.add(item)
        return found.items


def evenly(items: Sequence[T], most: int) -> list[T]:
    """Return at most `most` evenly spaced items, from the first on."""
    count = min(most, len(items))
    return [items[place * len(items) // count] for place in range(count)]
