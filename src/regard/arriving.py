"""Continuous batching: inputs that arrive during the work join it, and each result is returned as soon as it is done.

    for arrived, answer in run.predict_arriving(take):      # `take()` returns the waiting inputs; none at the end
        ...

`take` is called whenever an input can start: between two steps of decoding, or when all earlier inputs are done.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import CallError


@dataclass(eq=False)
class Arrived:
    """An input, its number within its request, and its sender.

    Set `cancelled` to stop the work on it; its result may then never be returned.
    """

    one: Any
    number: int = 0
    sender: Any = None
    cancelled: bool = False


Take = Callable[[], Sequence[Arrived]]
Answers = Iterator[tuple[Arrived, Any]]  # a result, or the exception that this input caused


def at_once(work: Callable[[list[Any]], Sequence[Any]], take: Take) -> Answers:
    """Run work that new inputs cannot join: one list of inputs after the other."""
    while came := list(take()):
        yield from zip(came, _answers(work, came), strict=True)


def _answers(work: Callable[[list[Any]], Sequence[Any]], came: list[Arrived]) -> Sequence[Any]:
    try:
        return work([arrived.one for arrived in came])
    except CallError as error:
        senders = list(dict.fromkeys(arrived.sender for arrived in came))
        if len(senders) == 1:
            return [error] * len(came)
    # One of them caused the error: run each alone.
    own = {sender: iter(_answers(work, [one for one in came if one.sender is sender])) for sender in senders}
    return [next(own[arrived.sender]) for arrived in came]
