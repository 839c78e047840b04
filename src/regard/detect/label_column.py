"""Labels of a table: their names, their counts, several per row or one, and rows without any."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from regard.data.joined_columns import JOINS, is_yes, is_yes_or_no
from regard.data.labels import LabelFormat
from regard.detect.detected import Detected, Hints, class_counts
from regard.detect.tables import LABELS, RATINGS, ColumnContent, TableSample, label_counts, separator_of

_SHOWN = 5  # labels with their counts


def with_labels(found: Detected, table: TableSample, hints: Hints) -> Detected:
    """Add what the label column holds: `data.separator` where a row has several, and the counts."""
    if found.kinds[1] == "label" and JOINS in (joined := str(found.data.get("label", ""))):
        separator = separator_of([joined.split(JOINS)])
        counts, none = label_counts(_names_of_yes(table, joined))
        said = f"{len(counts):,} labels, a column each, several a row: {_listed(counts)}; {none:,} rows have no label"
        return replace(found, data={**found.data, "separator": separator}, beliefs=[*found.beliefs, said])
    column = next((one for one in table.columns if one.key == found.data.get("label")), None)
    if found.kinds[1] != "label" or found.kinds[0] == "series" or column is None:
        return found
    if column.key in table.lists or column.separator:
        separator = column.separator or separator_of(table.labels(column))
        counts, none = label_counts(table.labels(column))
        lone = f"; {none:,} rows have no label" if none else ""
        said = f"{len(counts):,} labels, several a row (data.separator={separator!r}): {_listed(counts)}{lone}"
        return replace(found, data={**found.data, "separator": separator}, beliefs=[*found.beliefs, said])
    names = found.data.get("names", {}) | (hints.data.get("names") or {})
    writing = LabelFormat(names=tuple((str(key), str(name)) for key, name in names.items()))
    counts = table.counts(column)
    missing = {label: count for label, count in counts.items() if writing.is_missing(label)}
    beliefs = [*found.beliefs, class_counts(Counter({name: counts[name] for name in counts if name not in missing}))]
    if missing:
        words = sorted(label for label in missing if label)
        written = f" (also written as {', '.join(map(repr, words))})" if words else ""
        keep = f"; to make a class of it: data.names={{{words[0]}: NAME}}" if words else ""
        beliefs.append(f"{sum(missing.values()):,} rows have no label{written} and are left out{keep}")
    kept = [(one, said) for one, said in zip(found.inputs, found.targets, strict=False) if not writing.is_missing(said)]
    whole = len(found.inputs) == len(found.targets)  # only a few pictures and recordings are opened
    return replace(
        found,
        count=found.count - sum(missing.values()),
        inputs=[one for one, _ in kept] if whole else found.inputs,
        targets=[said for said in found.targets if not writing.is_missing(said)],
        beliefs=beliefs,
        shown=[(one, said) for one, said in found.shown if not writing.is_missing(said)],
    )


def columns_of_labels(table: TableSample, hints: Hints) -> str:
    """Return the 0/1 columns that are labels, joined as in `data.label`; empty if there are fewer than two, or if
    another column is called a label. A column of zeros alone is ignored."""
    names = [str(column.key) for column in table.columns]
    if (said := str(hints.data.get("label", ""))) and all(part in names for part in said.split(JOINS)):
        return said if JOINS in said else ""
    if not table.header or "label" in hints.data or any(JOINS in name for name in names):
        return ""
    binary = [one for one in table.columns if one.kind in ("number", "label") and one.filled and _is_binary(table, one)]
    others = [one for one in table.columns if one.kind == "label" and one not in binary]
    if any(one.name in (*LABELS, *RATINGS) for one in (*others, *binary)) or len(binary) < 2 + bool(others):
        return ""
    return JOINS.join(str(column.key) for column in binary)


def joined_cells(table: TableSample, joined: str) -> list[str]:
    """Return the labels of the rows that were read, as one text each."""
    parts = [column for column in table.columns if str(column.key) in joined.split(JOINS)]
    rows = zip(*(table.cells(column) for column in parts), strict=True)
    return ["|".join(str(part.key) for part, cell in zip(parts, row, strict=True) if is_yes(cell)) for row in rows]


def _is_binary(table: TableSample, column: ColumnContent) -> bool:
    cells = table.cells(column)
    if column.distinct > 2 or not all(map(is_yes_or_no, cells)):
        return False
    return any(map(is_yes, cells)) or any(map(is_yes, table.counts(column)))  # a sample may miss a rare label


def _names_of_yes(table: TableSample, joined: str) -> Iterator[list[str]]:
    parts = [column for column in table.columns if str(column.key) in joined.split(JOINS)]
    for row in table.all_cells(*parts):
        yield [str(part.key) for part, cell in zip(parts, row, strict=True) if is_yes(cell)]


def _listed(counts: Counter[str]) -> str:
    first = ", ".join(f"{name} ({count:,})" for name, count in counts.most_common(_SHOWN))
    return first + (", …" if len(counts) > _SHOWN else "")
