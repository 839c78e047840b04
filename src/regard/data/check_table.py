"""Display of the data check in a terminal."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from regard.data.check_report import PERCENTILES, CheckReport, Finding

_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def check_table(report: CheckReport) -> RenderableType:
    """Return the figures of every split, the findings, and the estimates of the model."""
    parts: list[RenderableType] = []
    if report.splits:  # tables of numbers have no tokens
        sizes = ", ".join(f"{size:,} ({side})" for side, size in report.vocabulary.items())
        about = f"50% of the rows have at most as many tokens, and so on; vocabulary: {sizes}"
        parts += [_figures(report), Text(about, "dim")]
    parts += [_rows(title, rows) for title, rows in report.tables.items() if rows]
    if report.estimates:
        parts.append(_estimates(report))
    parts += [_finding(finding) for finding in report.findings] or [Text("nothing suspicious was found", "green")]
    return Group(*parts)


def _figures(report: CheckReport) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("split")
    for name in ("pairs", "skipped", "side", "tokens", "unknown", *(_percent(percent) for percent in PERCENTILES)):
        table.add_column(name, justify="left" if name == "side" else "right")
    for role, split in report.splits.items():
        for name, side in zip(split.sides, (split.source, split.target), strict=True):
            whole = [role, f"{split.pairs:,}", f"{split.skipped:,}"] if name == split.sides[0] else ["", "", ""]
            lengths = [str(side.lengths[percent]) for percent in PERCENTILES]
            table.add_row(*whole, name, f"{side.tokens:,}", f"{side.unknown_rate:.2%}", *lengths)
    return table


def _percent(percent: int) -> str:
    return "longest" if percent == 100 else f"{percent}%"


def _rows(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name, value in rows[0].items():
        table.add_column(name, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(Text(value if isinstance(value, str) else f"{value:,}") for value in row.values()))
    return table


def _estimates(report: CheckReport) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in report.estimates.items():
        table.add_row(name, Text(value))
    return table


def _finding(finding: Finding) -> Table:
    """Return a finding; texts and file names are inserted literally, without interpreting brackets as markup."""
    where = finding.file
    if finding.lines:
        more = ", …" if finding.count > len(finding.lines) else ""
        where += f", line{'s' if finding.count != 1 else ''} " + ", ".join(map(str, finding.lines)) + more
    table = Table.grid(padding=(0, 1))
    table.add_column(width=len("warning"))
    table.add_row(Text(finding.severity, _STYLES[finding.severity]), Text(f"{finding.split}: {finding.what}"))
    table.add_row("", Text(where, "dim"))
    table.add_row("", Text(f"→ {finding.advice}"))
    return table
