"""The report of a data check: figures of each split, and findings. `regard check` prints it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from regard.data.pairs import SideCounts
from regard.data.tables import Role
from regard.errors import RegardError

Severity = Literal["error", "warning", "note"]
PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True)
class Finding:
    """A problem: severity, description, place (a file; the first lines of `count`), and advice."""

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
    sides: Sequence[str]  # name of an example in this job


@dataclass(frozen=True)
class CheckReport:
    """The report that `regard check` prints. The model adds `estimates`: its size, memory and time."""

    splits: dict[Role, SplitFigures]
    vocabulary: dict[str, int]
    findings: list[Finding]
    estimates: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # additional tables of figures, by title

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]

    def refuse_if_errors(self) -> None:
        """Raise if a finding forbids training."""
        if self.errors:
            listing = "".join(f"\n  {finding.file}: {finding.what}; {finding.advice}" for finding in self.errors)
            raise RegardError(f"the data cannot be trained on:{listing}")

    def as_dict(self) -> dict[str, Any]:
        return {"ok": not self.errors, **asdict(self)}


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by severity, the worst first."""
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.severity))


def count_noun(count: int, noun: str) -> str:
    """Return a count with its noun: 1 pair, 2,000 pairs; the plural of series is series."""
    return f"{count:,} {noun}" + ("" if count == 1 or noun.endswith("s") else "s")


def side_figures(side: SideCounts) -> SideFigures:
    lengths = {percent: percentile(side.lengths, percent) for percent in PERCENTILES}
    return SideFigures(side.tokens, side.unknown / max(1, side.tokens), lengths)


def figures_of(splits: Mapping[Role, Any], vocabulary: int) -> CheckReport:
    """Return a report with figures only: the number of examples of each split, and lengths of inputs and targets."""
    figures: dict[Role, SplitFigures] = {}
    for role, split in splits.items():
        lengths = [Counter(one.tolist()) for one in split.lengths()]
        source, target = (side_figures(SideCounts(sum(one.elements()), 0, one)) for one in lengths)
        figures[role] = SplitFigures(split.name, len(split), split.counts.bad, source, target, ("input", "target"))
    return CheckReport(figures, {"target": vocabulary}, [])


def percentile(lengths: Counter[int], percent: float | int) -> int:
    """Return the smallest length that at least `percent` per cent of the sentences do not exceed."""
    needed = percent / 100 * lengths.total()
    below = 0
    for length in sorted(lengths):
        below += lengths[length]
        if below >= needed:
            return length
    return 0
