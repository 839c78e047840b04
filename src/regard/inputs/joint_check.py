"""What is wrong with rows of two inputs, before anything is trained on them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from regard.data.check_report import PERCENTILES, CheckReport, Finding, Severity, SideFigures, SplitFigures
from regard.data.read_report import FIRST
from regard.data.tables import Role
from regard.inputs.joint_examples import JointExamples

_ADVICE = {
    "columns": "look for missing or extra separators, or set the columns; these lines are skipped",
    "encoding": "convert the list to UTF-8; these lines are skipped",
    "empty": "remove these lines, or complete them; they are skipped",
    "blank": "nothing is lost with them; they are skipped",
    "unreadable": "bring what is missing, or correct these lines; they are skipped",
}


def check_joint(splits: dict[Role, JointExamples], names: Sequence[str], data: Any, vocabulary: int) -> CheckReport:
    """Of data that was prepared with `strict=False`. `names`: of both inputs, and of what comes out."""
    findings: list[Finding] = []
    figures: dict[Role, SplitFigures] = {}
    both = " and ".join(names[:2])
    for role, split in splits.items():
        findings += _lost(role, split, data.max_bad)
        findings += _long(role, split, data.max_length)
        if role != "train":
            findings += _leaks(role, split, splits["train"], names[0])
        sources, targets = sum(split.source_lengths), split.text_lengths
        total = int(targets.sum())
        figures[role] = SplitFigures(
            split.name, len(split.table.rows), split.counts.bad,
            SideFigures(int(np.sum(sources)), 0.0, _spread(np.asarray(sources))),
            SideFigures(total, split.unknown / max(1, total), _spread(targets)), (both, names[2]),
        )  # fmt: skip
    findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.severity))
    return CheckReport(figures, {names[2]: vocabulary}, findings)


def _spread(lengths: np.ndarray) -> dict[int, int]:
    return {percent: int(np.percentile(lengths, percent)) if len(lengths) else 0 for percent in PERCENTILES}


def _lost(role: Role, split: JointExamples, max_bad: float) -> Iterator[Finding]:
    read = split.counts
    for kind, bads in read.first.items():
        severity: Severity = "note" if kind == "blank" else "error" if read.share > max_bad else "warning"
        lines = f"{read.lost[kind]:,} line{'s' if read.lost[kind] != 1 else ''}"
        what = f"{lines} blank" if kind == "blank" else f"{lines} cannot be used: {bads[0].reason}"
        advice = _ADVICE.get(kind, "they are skipped")
        if severity == "error":
            advice += f"; {read.share:.1%} of all are bad, data.max_bad allows {max_bad:.1%}"
        yield Finding(severity, role, what, read.lost[kind], bads[0].file, [bad.line for bad in bads], advice)


def _long(role: Role, split: JointExamples, max_length: int) -> Iterator[Finding]:
    rows = np.setdiff1d(np.arange(len(split.table.rows)), split.kept)
    if len(rows):
        what = f"{len(rows):,} rows with a text longer than data.max_length={max_length} tokens"
        lines = [split.table.rows[row].line for row in rows[:FIRST]]
        advice = "they are left out of training; raise data.max_length to keep them"
        yield Finding("note", role, what, len(rows), split.name, lines, advice)


def _leaks(role: Role, split: JointExamples, train: JointExamples, name: str) -> Iterator[Finding]:
    """By content: the same picture may have two names."""
    known = set(train.table.hashes(0))
    rows = [row for row, mark in enumerate(split.table.hashes(0)) if mark in known]
    if rows:
        what = f"{len(rows):,} rows ({len(rows) / len(split.table.rows):.1%}) whose {name} training has too"
        lines = [split.table.rows[row].line for row in rows[:FIRST]]
        yield Finding("warning", role, what, len(rows), split.name, lines, "keep the rows of one input in one split")
