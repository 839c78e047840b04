"""Inputs of like length together, within a budget of tokens."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from regard.data.spread import Spread
from regard.work import before_step

T = TypeVar("T")
MOST_WINDOWS = 32  # of one input that are asked about
AT_ONCE = 4096  # items that are held in memory


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


def mean_of_windows(input: Any, inputs: Iterable[Any], ask: Callable[[list[Any]], Sequence[Any]]) -> list[Any]:
    """A row of each input of any length: the mean of what `ask` says of its windows (`Input.windows`).

    A few inputs at a time are held in memory, and of a very long one MOST_WINDOWS windows, evenly spread.
    """
    found: list[Any] = []
    for some in in_budget((Spread.of(input.windows(one), MOST_WINDOWS) for one in inputs), len, AT_ONCE):
        rows = iter(ask([item for windows in some for item in windows]))
        of_each = ([next(rows) for _ in windows] for windows in some)
        found += [own[0] if len(own) == 1 else sum(own[1:], own[0]) / len(own) for own in of_each]
    return found


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
