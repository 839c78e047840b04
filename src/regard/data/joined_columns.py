"""Labels in several columns of 0 and 1: data.label=toxic+obscene joins them to one column of the names whose cells are
1.

text,toxic,obscene        text,toxic+obscene
you fool,1,0         →    you fool,toxic
damned fool,1,1           damned fool,toxic|obscene
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from regard.data.pairs import Columns, SkippedLine
from regard.errors import CallError, nearest

if TYPE_CHECKING:
    from regard.data.formats import TableRow

JOINS = "+"
_YES, _NO = ("1", "1.0", "true"), ("0", "0.0", "false", "")


def is_yes(cell: Any) -> bool:
    return str(cell).strip().lower() in _YES


def is_yes_or_no(cell: Any) -> bool:
    return str(cell).strip().lower() in (*_YES, *_NO)


def joined_names(columns: Columns, names: Sequence[str]) -> tuple[str, list[str], str] | None:
    """Return the requested label, the columns that it joins, and the separator of labels; None for a single column."""
    wanted = columns.wanted.get("label")
    if not isinstance(wanted, str) or JOINS not in wanted or wanted in names:
        return None
    parts = wanted.split(JOINS)
    if missing := [part for part in parts if part not in names]:
        raise CallError(f"no such column: {missing[0]!r} of data.label={wanted}{nearest(missing[0], names)}")
    separator = getattr(columns.target_text, "separator", None)
    if separator is None:
        raise CallError(
            f"data.label={wanted} names {len(parts)} columns: set what separates labels, data.separator='|'"
        )
    return wanted, parts, separator


def with_joined(rows: Iterator["TableRow"], columns: Columns) -> Iterator["TableRow"]:
    """Yield the rows of a table with a header, with the joined column as the last."""
    ahead = [*_until_filled(rows)]
    first = ahead[-1] if ahead else None
    names = [] if first is None else [field.strip() for field in first.fields]
    joined = joined_names(columns, names) if names else None
    if joined is None:
        yield from chain(ahead, rows)
        return
    wanted, parts, separator = joined
    places = [names.index(part) for part in parts]
    for row in chain(ahead, rows):
        fields = row.fields
        if not any(map(str.strip, fields)):
            yield row
            continue
        said = (part for part, at in zip(parts, places, strict=True) if at < len(fields) and is_yes(fields[at]))
        cell = wanted if row is first else separator.join(said)
        yield row._replace(fields=[*fields, cell])


def _until_filled(rows: Iterator["TableRow"]) -> Iterator["TableRow"]:
    for row in rows:
        yield row
        if any(map(str.strip, row.fields)):
            return


def with_joined_records(
    records: Iterator[tuple[int, dict[str, Any] | SkippedLine]], columns: Columns
) -> Iterator[tuple[int, dict[str, Any] | SkippedLine]]:
    """Yield records with a list of labels under the name of the joined column."""
    joined: tuple[str, list[str], str] | None = None
    begun = False
    for line, record in records:
        if isinstance(record, SkippedLine):
            yield line, record
            continue
        if not begun:
            joined, begun = joined_names(columns, [*record]), True
        if joined is not None:
            record = record | {joined[0]: [part for part in joined[1] if is_yes(record.get(part))]}
        yield line, record
