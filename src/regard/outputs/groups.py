"""Batches of inputs of similar length, within a token budget."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from regard.data.spread import Spread
from regard.work import before_step

T = TypeVar("T")
MOST_WINDOWS = 32  # maximum windows of one input
AT_ONCE = 4096  # items kept in memory


def in_groups(
    numbers: Iterable[int], lengths: Sequence[int], tokens: int, work: Callable[[list[int]], Sequence[T]]
) -> Iterator[tuple[int, T]]:
    """Yield (number, result) of `work` on groups of numbers of similar length, each of about `tokens` tokens."""
    order = sorted(numbers, key=lambda number: -lengths[number])
    start = 0
    while start < len(order):  # the longest comes first, so its length is the padded length
        group = order[start : start + max(1, tokens // (lengths[order[start]] + 1))]
        before_step(len(group) * (lengths[group[0]] + 1))
        yield from zip(group, work(group), strict=True)
        start += len(group)


def grouped(lengths: Sequence[int], tokens: int, work: Callable[[list[int]], Sequence[T]]) -> list[T]:
    """Return the results of `in_groups` for all numbers, in their order."""
    found = dict(in_groups(range(len(lengths)), lengths, tokens, work))
    return [found[number] for number in range(len(lengths))]


def mean_of_windows(input: Any, inputs: Iterable[Any], ask: Callable[[list[Any]], Sequence[Any]]) -> list[Any]:
    """Return a row for each input of any length: the mean of the results of `ask` over its windows (`Input.windows`).

    A few inputs at a time are kept in memory; a very long one is limited to MOST_WINDOWS evenly spread windows.
    """
    found: list[Any] = []
    for some in in_budget((Spread.of(input.windows(one), MOST_WINDOWS) for one in inputs), len, AT_ONCE):
        rows = iter(ask([item for windows in some for item in windows]))
        of_each = ([next(rows) for _ in windows] for windows in some)
        found += [own[0] if len(own) == 1 else sum(own[1:], own[0]) / len(own) for own in of_each]
    return found


def in_budget(items: Iterable[T], cost: Callable[[T], int], budget: int) -> Iterator[list[T]]:
    """Yield lists of items in their order, each as long as the budget allows."""
    some: list[T] = []
    for item in items:
        some.append(item)
        if sum(map(cost, some)) > budget:
            yield some
            some = []
    if some:
        yield some
