"""Inputs that come while others are worked on: they join the work, and each is answered as soon as it is done.

    for arrived, answer in run.predict_arriving(take):      # `take()`: whoever is there now; nobody, at the end
        ...

`take` is called whenever somebody could begin: between two steps of decoding, or when all that came is done.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import CallError


@dataclass(eq=False)
class Arrived:
    """An input, its number among those that were sent together, and who sent them.

    Set `cancelled`, and it is not worked on any more (and perhaps not answered).
    """

    one: Any
    number: int = 0
    sender: Any = None
    cancelled: bool = False


Take = Callable[[], Sequence[Arrived]]
Answers = Iterator[tuple[Arrived, Any]]  # a result, or the exception that one input alone is to blame for


def at_once(work: Callable[[list[Any]], Sequence[Any]], take: Take) -> Answers:
    """For work that nobody can join: a list of inputs after the other."""
    while came := list(take()):
        yield from zip(came, _answers(work, came), strict=True)


def _answers(work: Callable[[list[Any]], Sequence[Any]], came: list[Arrived]) -> Sequence[Any]:
    try:
        return work([arrived.one for arrived in came])
    except CallError as error:
        senders = list(dict.fromkeys(arrived.sender for arrived in came))
        if len(senders) == 1:
            return [error] * len(came)
    # One of them is at fault: each has an answer of its own.
    own = {sender: iter(_answers(work, [one for one in came if one.sender is sender])) for sender in senders}
    return [next(own[arrived.sender]) for arrived in came]
