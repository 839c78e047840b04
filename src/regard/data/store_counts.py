"""What is counted while examples are read into a store."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from regard.data.counts import SideCounts
from regard.data.read_report import ReadReport


@dataclass
class StoreCounts:
    """What was read to make a store, what was kept of it, and what was not."""

    read: ReadReport = field(default_factory=ReadReport)
    source: SideCounts = field(default_factory=SideCounts)
    target: SideCounts = field(default_factory=SideCounts)
    overlong: int = 0
    overlong_first: list[int] = field(default_factory=list)  # their lines

    def as_dict(self) -> dict[str, Any]:
        sides = {
            name: {"tokens": side.tokens, "unknown": side.unknown, "lengths": dict(side.lengths)}
            for name, side in (("source", self.source), ("target", self.target))
        }
        return {
            "read": self.read.as_dict(),
            **sides,
            "overlong": self.overlong,
            "overlong_first": self.overlong_first,
        }

    @classmethod
    def from_dict(cls, read: dict[str, Any]) -> "StoreCounts":
        sides = {
            side: SideCounts(
                read[side]["tokens"],
                read[side]["unknown"],
                Counter({int(length): count for length, count in read[side]["lengths"].items()}),
            )
            for side in ("source", "target")
        }
        return cls(
            ReadReport.from_dict(read["read"]),
            sides["source"],
            sides["target"],
            read["overlong"],
            read["overlong_first"],
        )
