"""Inputs of like length together, within a budget of tokens."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from regard.work import before_step

T = TypeVar("T")


def in_groups(
    numbers: Iterable[int], lengths: Sequence[int], tokens: int, work: Callable[[list[int]], Sequence[T]]
) -> Iterator[tuple[int, T]]:
    """`work` on groups of numbers of like length, each of about so many tokens; (number, result) as they come."""
    order = sorted(numbers, key=lambda number: -lengths[number])
    start = 0
    while start < len(order):  # the longest comes first, so its length is that of the padded group
        group = order[start : start + max(1, tokens // (lengths[order[start]] + 1))]
        before_step(len(group) * (lengths[group[0]] + 1))
        yield from zip(group, work(group), strict=True)
        start += len(group)


def grouped(lengths: Sequence[int], tokens: int, work: Callable[[list[int]], Sequence[T]]) -> list[T]:
    """The same for all numbers that have a length, in their order."""
    found = dict(in_groups(range(len(lengths)), lengths, tokens, work))
    return [found[number] for number in range(len(lengths))]


def in_budget(items: Iterable[T], cost: Callable[[T], int], budget: int) -> Iterator[list[T]]:
    """In their order, so many at a time that the budget is just spent."""
    some: list[T] = []
    for item in items:
        some.append(item)
        if sum(map(cost, some)) > budget:
            yield some
            some = []
    if some:
        yield some
