"""A report of what was read: counts, and refusing when too much of it was no pair."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from regard.data.pairs import Bad
from regard.errors import RegardError

T = TypeVar("T")
FIRST = 5  # how many bad lines of a kind are remembered


@dataclass
class ReadReport:
    """How many pairs there were, and how many lines were none: by kind, with the first few of each."""

    pairs: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[Bad]] = field(default_factory=dict)

    def only_pairs(self, items: Iterable[T | Bad]) -> Iterator[T]:
        """Count everything that passes; let through what is a pair (or an example of any other kind)."""
        for item in items:
            if not isinstance(item, Bad):
                self.pairs += 1
                yield item
            else:
                self.lost[item.kind] += item.lines
                remembered = self.first.setdefault(item.kind, [])
                if len(remembered) < FIRST:
                    remembered.append(item)

    @property
    def bad(self) -> int:
        """Lines that were lost. Blank lines are counted, but nothing is lost with them."""
        return sum(count for kind, count in self.lost.items() if kind != "blank")

    @property
    def share(self) -> float:
        return self.bad / max(1, self.pairs + self.bad)

    def refuse_if(self, name: str, max_bad: float) -> None:
        """Raise if too many lines were lost, or none was left, or the two sides cannot be trusted to pair up."""
        if "unpaired" in self.first:
            reason = self.first["unpaired"][0].reason
            raise RegardError(f"{name}: {reason}. A line may be missing anywhere, so no pair can be trusted")
        if self.pairs and self.share <= max_bad:
            return
        shown = [str(bad) for kind, bads in self.first.items() if kind != "blank" for bad in bads[:3]]
        listing = "".join(f"\n  {line}" for line in shown)
        if not self.pairs:
            raise RegardError(f"{name}: there is nothing in it that can be used{':' if shown else ''}{listing}")
        raise RegardError(
            f"{name}: {self.bad:,} of {self.pairs + self.bad:,} lines ({self.share:.1%}) cannot be used, more than "
            f"data.max_bad={max_bad:g} allows. The first of them:{listing}"
        )
