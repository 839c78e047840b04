"""What a look over the data found: figures of each split, and what is wrong with it. What `regard check` prints."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from regard.data.counts import SideCounts
from regard.data.tables import Role
from regard.errors import RegardError

Severity = Literal["error", "warning", "note"]
PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: how bad, what, where (a file; the first lines of `count`), and what to do."""

    severity: Severity
    split: Role
    what: str
    count: int
    file: str
    lines: list[int]
    advice: str


@dataclass(frozen=True)
class SideFigures:
    tokens: int
    unknown_rate: float
    lengths: dict[int, int]  # percentile: tokens, the end token included


@dataclass(frozen=True)
class SplitFigures:
    file: str
    pairs: int
    skipped: int
    source: SideFigures
    target: SideFigures
    sides: Sequence[str]  # what this job calls them


@dataclass(frozen=True)
class CheckReport:
    """What `regard check` prints. Who knows the model fills in `estimates`: its size, memory and time."""

    splits: dict[Role, SplitFigures]
    vocabulary: dict[str, int]
    findings: list[Finding]
    estimates: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # further figures, by their title

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]

    def refuse_if_errors(self) -> None:
        """Raise if there is anything that training must not start with."""
        if self.errors:
            listing = "".join(f"\n  {finding.file}: {finding.what}; {finding.advice}" for finding in self.errors)
            raise RegardError(f"the data cannot be trained on:{listing}")

    def as_dict(self) -> dict[str, Any]:
        return {"ok": not self.errors, **asdict(self)}


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first."""
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.severity))


def counted(count: int, noun: str) -> str:
    """1 pair, 2,000 pairs; series are several as they are."""
    return f"{count:,} {noun}" + ("" if count == 1 or noun.endswith("s") else "s")


def side_figures(side: SideCounts) -> SideFigures:
    lengths = {percent: percentile(side.lengths, percent) for percent in PERCENTILES}
    return SideFigures(side.tokens, side.unknown / max(1, side.tokens), lengths)


def figures_of(splits: Mapping[Role, Any], vocabulary: int) -> CheckReport:
    """Nothing but figures: how many examples each split has, and how long their inputs and targets are."""
    figures: dict[Role, SplitFigures] = {}
    for role, split in splits.items():
        lengths = [Counter(one.tolist()) for one in split.lengths()]
        source, target = (side_figures(SideCounts(sum(one.elements()), 0, one)) for one in lengths)
        figures[role] = SplitFigures(split.name, len(split), split.counts.bad, source, target, ("input", "target"))
    return CheckReport(figures, {"target": vocabulary}, [])


def percentile(lengths: Counter[int], percent: float | int) -> int:
    """The least length that so many per cent of the sentences do not exceed."""
    needed = percent / 100 * lengths.total()
    below = 0
    for length in sorted(lengths):
        below += lengths[length]
        if below >= needed:
            return length
    return 0
