"""Inputs that come while others are worked on: they join the work, and each is answered as soon as it is done.

    for arrived, answer in run.predict_arriving(take):      # `take()`: whoever is there now; nobody, at the end
        ...

`take` is called whenever somebody could begin: between two steps of decoding, or when all that came is done.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from regard.errors import CallError

T = TypeVar("T")


@dataclass(eq=False)
class Arrived:
    """An input, and its number among those that were sent together. Set `cancelled`, and it is not worked on any more
    (and perhaps not answered)."""

    one: Any
    number: int = 0
    cancelled: bool = False


Take = Callable[[], Sequence[Arrived]]
Answers = Iterator[tuple[Arrived, Any]]  # a result, or the exception that one input alone is to blame for


def at_once(work: Callable[[list[Any]], Sequence[Any]], take: Take) -> Answers:
    """For work that nobody can join: a list of inputs after the other."""
    while came := take():
        yield from zip(came, _answers(work, [arrived.one for arrived in came]), strict=True)


def _answers(work: Callable[[list[Any]], Sequence[Any]], inputs: list[Any]) -> Sequence[Any]:
    try:
        return work(inputs)
    except CallError as error:
        if len(inputs) == 1:
            return [error]
        return [_answers(work, [one])[0] for one in inputs]  # one of them is at fault: each has its own answer
