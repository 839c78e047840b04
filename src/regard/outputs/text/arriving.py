"""Decoding of inputs that arrive while others are decoded: their items join the current batch."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from regard.arriving import Arrived, Take
from regard.decoding.protocol import Hypothesis
from regard.outputs.text.search import Waiting
from regard.outputs.text.seen import Ids
from regard.work import before_step


@dataclass(eq=False)
class Begun:
    """An input that was taken, its items, and the hypotheses of the finished items."""

    arrived: Arrived
    items: Sequence[Any]
    found: dict[int, list[Hypothesis]] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return len(self.found) == len(self.items)


class Place(NamedTuple):
    """The position of an item in its input."""

    begun: Begun
    number: int
    length: int


class ArrivingItems:
    """A `Source` for `searched`, limited to about `tokens` source tokens at a time.

    An error in one input becomes the answer for that input only.
    """

    def __init__(
        self,
        take: Take,
        read: Callable[[Any], Sequence[Any]],
        length: Callable[[Any], int],
        prefix: Ids,
        tokens: int,
    ) -> None:
        """Create the source. `read` returns the items of an input."""
        self._take, self._read, self._length, self._prefix, self._tokens = take, read, length, prefix, tokens
        self._waiting: deque[Waiting] = deque()
        self._ready: list[tuple[Arrived, Begun | Exception]] = []

    def take(self, under_way: Collection[Place]) -> list[Waiting]:
        while not self._waiting and (came := self._take()):
            for arrived in came:
                self._waiting.extend(self._begun(arrived))
        room = self._tokens - sum(place.length + 1 for place in under_way)
        some: list[Waiting] = []
        while self._waiting:
            longest = max(self._waiting[0].key.length, *(one.key.length for one in some), 0)
            if (len(some) + 1) * (longest + 1) > room and (some or under_way):
                break
            some.append(self._waiting.popleft())
        if some:
            before_step(sum(one.key.length + 1 for one in some))
        return some

    def _begun(self, arrived: Arrived) -> Iterator[Waiting]:
        try:
            begun = Begun(arrived, self._read(arrived.one))
            lengths = [self._length(item) for item in begun.items]
        except Exception as error:
            self._ready.append((arrived, error))
            return
        for number, (item, length) in enumerate(zip(begun.items, lengths, strict=True)):
            if length:  # the prefix applies to the first window of a recording only
                prefix = self._prefix if number == 0 else ()
                yield Waiting(Place(begun, number, length), item, arrived.number, prefix)
            else:
                self.found(Place(begun, number, length), [Hypothesis([], 0.0, 0.0)])

    def found(self, place: Place, hypotheses: list[Hypothesis]) -> None:
        place.begun.found[place.number] = hypotheses
        if place.begun.done:
            self._ready.append((place.begun.arrived, place.begun))

    def ready(self) -> Iterator[tuple[Arrived, Begun | Exception]]:
        """Yield inputs whose items have all finished since the last call, and inputs that could not be read."""
        while self._ready:
            yield self._ready.pop(0)

    def is_cancelled(self, key: Place) -> bool:
        return key.begun.arrived.cancelled
