"""Read tables in text files (TSV, CSV, JSON) row by row: the requested cells, and a `SkippedLine` for an invalid row.

`columns.py` finds the requested columns from the first rows, which are read ahead.
"""

import csv
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from regard.data.columns import SAMPLE, find_columns
from regard.data.joined_columns import with_joined, with_joined_records
from regard.data.pairs import Columns, SkippedLine, excerpt
from regard.errors import CallError
from regard.files.lines import BROKEN, LONGEST_LINE, TextLine, open_bytes, read_jsonl, read_lines

# Read rows of JSON files: an object a line, or one document.
#
#     [{...}, {...}]   {"data": [{...}, ...]}                                              rows, in a list
#     {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}          captions, in the form of
#     COCO
#     {"images": [{"filename", "split", "sentences": [{"raw"}]}]}                          ... of Karpathy and Fei-Fei
#
# Lines are read one by one; a document has to be in memory as a whole.

QUESTIONS = ("questions", "annotations")  # picture file names of VQA
_LISTS = ("data", "rows", "examples")


def json_rows(path: Path) -> Iterator[tuple[TextLine, dict[str, Any] | None]]:
    """Yield each row and its place: the line, or the row number in a document. None: `problem` of the line has the
    reason."""
    if not is_document(path):
        yield from read_jsonl(path)
        return
    for number, row in enumerate(_rows(path, _document(path)), start=1):
        line = TextLine(number, "")
        yield (
            (line, row) if isinstance(row, dict) else (line._replace(problem=f"{type(row).__name__}, no object"), None)
        )


def is_document(path: Path) -> bool:
    """Return whether a whole file is one JSON value."""
    lines = (line for line in read_lines(path) if line.text.strip())
    first = next(lines, None)
    if first is None or not first.text.lstrip().startswith(("{", "[")):
        return False
    try:
        found = json.loads(first.text)
    except (ValueError, RecursionError):  # an object over several lines; a merely damaged line has other lines after it
        following = next(lines, None)
        return following is None or not following.text.startswith("{")
    return isinstance(found, list) or (_as_list(found) is not None and next(lines, None) is None)


def _document(path: Path) -> Any:
    try:
        with open_bytes(path) as file:
            return json.loads(file.read().decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        raise CallError(f"{path}: byte {problem.start + 1} is not UTF-8") from None
    except (ValueError, RecursionError, *BROKEN) as problem:
        raise CallError(f"{path}: is not JSON or JSON Lines ({problem}): repair it there") from None


def _rows(path: Path, tree: Any) -> list[Any]:
    found = tree if isinstance(tree, list) else _as_list(tree)
    if found is None:
        names = ", ".join(map(str, tree)) if isinstance(tree, dict) else type(tree).__name__
        raise CallError(f"{path}: has no list of objects (it has {names[:100]}); write one object a line")
    return found


def _as_list(tree: Any) -> list[Any] | None:
    if not isinstance(tree, dict):
        return None
    images, annotations = tree.get("images"), tree.get("annotations")
    if _objects(images) and _objects(annotations):
        names = {one.get("id"): one.get("file_name") for one in images}
        return [
            {"image": names.get(one.get("image_id")), "caption": one["caption"]}
            for one in annotations
            if "caption" in one
        ]
    if _objects(images):
        return [
            {
                "image": "/".join(filter(None, (one.get("filepath"), one.get("filename")))),
                "caption": said.get("raw"),
                "split": one.get("split"),
            }
            for one in images
            for said in one.get("sentences") or ()
        ]
    return next((tree[name] for name in _LISTS if _objects(tree.get(name))), None)


def question_rows(questions: Path, annotations: Path) -> Iterator[dict[str, str]]:
    """Yield questions about pictures with answers from another file: of several answers, the most frequent one."""
    found: list[list[dict[str, Any]]] = []
    for path, name in zip((questions, annotations), QUESTIONS, strict=True):
        tree = _document(path)
        rows = tree.get(name) if isinstance(tree, dict) else None
        if not _objects(rows) or "question_id" not in rows[0]:
            return
        found.append(rows)
    said = {one["question_id"]: _answer(one) for one in found[1]}
    for one in found[0]:
        if answer := said.get(one["question_id"]):
            yield {"image": str(one.get("image_id", "")), "question": str(one.get("question", "")), "answer": answer}


def _answer(one: dict[str, Any]) -> str:
    answers = [str(each.get("answer", "")) for each in one.get("answers") or () if isinstance(each, dict)]
    return str(one.get("multiple_choice_answer") or (max(answers, key=answers.count) if answers else ""))


def _objects(found: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(found, list) and bool(found) and all(isinstance(one, dict) for one in found[:10])


DELIMITERS = "\t,;|"
SNIFFED = 50  # lines from which the delimiter is detected
_SHORTEST_RECORD = 1 << 16  # characters of a quoted record, where many quotes are never closed
_FEWEST_NUMBERS = 8  # lines of a table of numbers
_AGREE = 0.95  # of its lines have equally many columns, and of the cells of a column are numbers
_NUMBER = re.compile(r"[-+]?[$€£¥]? ?[-+]?(\d[\d.,]*|[.,]\d+)([eE][-+]?\d+)? ?%?")
_TIME = re.compile(r"(?=.*\d)[\d:./+ TZ-]*([A-Z][a-z]{2,8}[-. ,]*)?[\d:./+ TZ-]*( ?[AP]M)?")
_NO_NUMBER = frozenset(("", "?", "-", "nan", "na", "n/a", "null", "none"))
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
csv.field_size_limit(2 * LONGEST_LINE)  # a cell may be a long document


class Cells(NamedTuple):
    """The requested cells of a row, in order; None for a missing one."""

    values: tuple[Any, ...]
    file: str
    line: int


class TableRow(NamedTuple):
    """All fields of a record, its first line (or the first unreadable one), and its number of lines."""

    line: TextLine
    fields: list[str]
    lines: int = 1


def tsv_rows(path: Path) -> Iterator[TableRow]:
    """Yield the rows of a file with tabs between columns; see `table_rows`."""
    return table_rows(read_lines(path), "\t")


def csv_rows(path: Path) -> Iterator[TableRow]:
    """Yield the rows of a file with commas between columns, or semicolons, tabs or bars if the first lines agree on
    them, or spaces between numbers; see `table_rows`."""
    first = _first_lines(path)
    return table_rows(read_lines(path), number_delimiter(first) or find_delimiter(first) or ",")


def text_rows(text: str, delimiter: str = "") -> Iterator[TableRow]:
    """Yield the records of a table in a string; by default, the delimiter is detected."""
    lines = [TextLine(number, line.removesuffix("\r")) for number, line in enumerate(text.split("\n"), 1)]
    return table_rows(lines, delimiter or find_delimiter([line.text for line in lines[:SNIFFED]]) or ",")


def table_rows(lines: Iterable[TextLine], delimiter: str) -> Iterator[TableRow]:
    """Yield the records of a table.

    With commas and semicolons, a cell in double quotes may hold delimiters, line feeds, and doubled quotes. With tabs
    and bars, quotes are literal, unless they are written as programs quote cells. A space as delimiter matches any
    white space.
    """
    if delimiter == " ":
        return (TableRow(line, [] if line.problem else line.text.split()) for line in lines)
    return (_plain_rows if delimiter in "\t|" else _quoted_rows)(_Lines(lines), delimiter)


class _Lines:
    """Lines that can be pushed back. `record` holds those that were read since it was last emptied."""

    def __init__(self, lines: Iterable[TextLine]) -> None:
        self._rest, self._back, self.record = iter(lines), deque[TextLine](), list[TextLine]()

    def __iter__(self) -> Iterator[TextLine]:
        while (line := self._back.popleft() if self._back else next(self._rest, None)) is not None:
            self.record.append(line)
            yield line

    def give_back(self, keep: int) -> None:
        """Push back all but the first `keep` lines of the record."""
        self._back.extendleft(reversed(self.record[keep:]))
        del self.record[keep:]

    def texts(self, most: int) -> Iterator[str]:
        """Yield the lines of a record of at most `most` characters. A carriage return inside a line becomes a space."""
        size = 0
        for line in self:
            size = (size if len(self.record) > 1 else 0) + len(line.text)
            if size > most:
                raise csv.Error("a cell is too long")
            yield line.text.replace("\r", " ") + "\n"


def _quoted_rows(lines: _Lines, delimiter: str) -> Iterator[TableRow]:
    """Yield the rows of a quoted table. An unclosed quote costs only its line: reading continues with the next one.
    Each such quote halves the maximum record size, so that many of them cost little time."""
    most, width = 2 * LONGEST_LINE, 0
    while True:
        lines.record.clear()
        try:
            for fields in csv.reader(lines.texts(most), strict=True, delimiter=delimiter):
                record = lines.record
                width = width or len(fields)
                if len(record) > 1 and len(fields) != width:
                    raise csv.Error("a quoted cell with line feeds changes the number of columns")
                yield TableRow(next((line for line in record if line.problem), record[0]), fields, len(record))
                record.clear()
            return
        except csv.Error as problem:
            if len(lines.record) > 1:
                most = max(most // 2, _SHORTEST_RECORD)
            lines.give_back(keep=1)
            wrong = f"not CSV ({problem}): a quote that is not closed or not doubled?"
            line = lines.record[0]
            yield TableRow(line if line.problem else line._replace(problem=wrong), [])


def _plain_rows(lines: _Lines, delimiter: str) -> Iterator[TableRow]:
    """Yield the rows of a table without general quoting. Cells are unquoted if quotes inside them are doubled, as
    pandas writes them, or if all cells of the first line are quoted. A record spans lines only if this gives it as many
    cells as the first line."""
    width, whole = 0, False
    for line in lines:
        fields = [] if line.problem else line.text.split(delimiter)
        if not width and line.text.strip() and not line.problem:
            width, whole = len(fields), len(fields) > 1 and all(map(_QUOTED.fullmatch, fields))
        if '"' in line.text and not line.problem:
            if len(fields) != width and (found := _record(lines, delimiter, width)):
                yield TableRow(line, found, len(lines.record))
                lines.record.clear()
                continue
            fields = [_unquote(field, whole) for field in fields]
        yield TableRow(line, fields)
        lines.record.clear()


def _record(lines: _Lines, delimiter: str, width: int) -> list[str] | None:
    """Return the cells of the record that begins with the last line, if quotes make it `width` cells."""
    lines.give_back(keep=0)
    try:
        fields = next(csv.reader(lines.texts(_SHORTEST_RECORD), strict=True, delimiter=delimiter))
    except csv.Error:
        fields = []
    if len(fields) == width:
        return fields
    lines.give_back(keep=1)
    return None


def _unquote(field: str, whole: bool) -> str:
    quoted = field.startswith('"') and (whole or '""' in field[1:-1]) and _QUOTED.fullmatch(field)
    return field[1:-1].replace('""', '"') if quoted else field


def find_delimiter(lines: Sequence[str], among: str = DELIMITERS, agree: float = 0.5) -> str | None:
    """Return the delimiter that cuts the most lines, and at least a share `agree`, into equally many cells, two or
    more; None, if none does. A delimiter with a space behind it is prose. Commas only between digits belong to numbers,
    if another delimiter fits as well."""
    best: tuple[float, bool, int, str | None] = (agree, False, 1, None)
    decimal = not any(re.search(r"(?<!\d),|,(?!\d)", line) for line in lines)
    for delimiter in sorted(among, key=lambda one: one == ",") if decimal else among:
        if decimal and delimiter == "," and best[-1] is not None:
            break
        widths = [len(row.fields) for row in text_rows("\n".join(lines), delimiter) if any(row.fields)]
        usual = max(set(widths), key=widths.count) if widths else 1
        spaced = sum(line.count(delimiter + " ") for line in lines) > sum(line.count(delimiter) for line in lines) / 2
        found = (widths.count(usual) / max(1, len(widths)), not spaced, usual)
        if usual > 1 and found > best[:-1]:
            best = (*found, delimiter)
    return best[-1]


def is_tab_table(path: Path) -> bool:
    """Return whether nearly all lines have equally many tab-separated columns, two or more. Tabs do not occur in
    sentences."""
    return find_delimiter(_first_lines(path), "\t", agree=0.9) is not None


def is_number_table(path: Path) -> bool:
    """Return whether the first lines are a table of numbers, whatever the file name."""
    return number_delimiter(_first_lines(path)) is not None


def _first_lines(path: Path) -> list[str]:
    return [line.text for line in islice(read_lines(path), SNIFFED) if line.text.strip() and not line.problem]


def number_delimiter(lines: Sequence[str]) -> str | None:
    """Return the delimiter of a table of numbers, dates and times, with optional header and few short texts; None for
    other lines. A single column counts as one with commas."""
    for delimiter in filter(None, (find_delimiter(lines, agree=0.9), " ", "\n")):
        found = [line.split(delimiter if delimiter == "\n" else None) for line in lines]
        rows = found if delimiter in " \n" else [row.fields for row in text_rows("\n".join(lines), delimiter)]
        width = len(rows[-1]) if len(rows) >= _FEWEST_NUMBERS else 0
        body = [row for row in rows[1:] if len(row) == width]
        if not width or (width == 1) != (delimiter == "\n") or len(body) < _AGREE * (len(rows) - 1):
            continue
        kinds = [_kind_of([cell.strip() for cell in column]) for column in zip(*body, strict=True)]
        numbers, others = kinds.count("number"), kinds.count("")
        if numbers and (not others or (delimiter != " " and numbers > 2 * others)):
            return "," if delimiter == "\n" else delimiter
    return None


def _kind_of(cells: Sequence[str]) -> str:
    """Return whether nearly all of these are numbers, or dates and times."""
    filled = [cell for cell in cells if cell.lower() not in _NO_NUMBER]
    for kind, form in (("number", _NUMBER), ("time", _TIME)):
        if filled and sum(bool(form.fullmatch(cell)) for cell in filled) >= _AGREE * len(filled):
            return kind
    return "" if filled else "empty"


def table_cells(path: Path, rows: Iterator[TableRow], columns: Columns) -> Iterator[Cells | SkippedLine]:
    """Yield the requested cells of rows. The first good row determines the number of columns."""
    rows = with_joined(rows, columns)
    ahead = list(islice(rows, SAMPLE))
    good = [row.fields for row in ahead if not row.line.problem and any(field.strip() for field in row.fields)]
    places, header = find_columns(str(path), good, columns) if good else ([], False)
    width = len(good[0]) if good else 0
    for line, fields, lines in chain(ahead, rows):
        if line.problem:
            yield unreadable(path, line, lines)
        elif not any(field.strip() for field in fields):
            yield SkippedLine(str(path), line.number, "blank", "blank line", lines=lines)
        elif header:
            header = False
        elif len(fields) != width:
            reason = f"{len(fields)} column{'s' if len(fields) != 1 else ''} where the first line has {width}"
            yield SkippedLine(str(path), line.number, "columns", reason, excerpt(line.text), lines)
        else:
            cells = tuple(None if place is None else fields[place] for place in places)
            yield Cells(cells, str(path), line.number)


def jsonl_cells(path: Path, columns: Columns) -> Iterator[Cells | SkippedLine]:
    found = json_rows(path)
    records = ((line.number, unreadable(path, line) if record is None else record) for line, record in found)
    return record_cells(str(path), records, columns)


def record_cells(
    file: str, records: Iterable[tuple[int, dict[str, Any] | SkippedLine]], columns: Columns
) -> Iterator[Cells | SkippedLine]:
    """Yield the requested cells of JSON objects or rows of a dataset. A dot in a name addresses nested objects:
    translation.en."""
    rest = with_joined_records(iter(records), columns)
    ahead = list(islice(rest, SAMPLE))
    flat = [flat_record(record) for _, record in ahead if not isinstance(record, SkippedLine)]
    names = _names(file, flat, columns) if flat else ()
    for line, record in chain(ahead, rest):
        if isinstance(record, SkippedLine):
            yield record
            continue
        values = tuple(None if name is None else _inside(record, name) for name in names)
        lost = [n for n, value in enumerate(values) if value is _MISSING]
        if lost and (side := list(columns.sought)[lost[0]]) != columns.optional:
            has = excerpt(", ".join(map(str, record)) or "none")
            reason = f"no field {names[lost[0]]!r}; it has {has} (set data.{side})"
            yield SkippedLine(file, line, "columns", reason)
        else:
            yield Cells(tuple(None if value is _MISSING else value for value in values), file, line)


_MISSING = object()


def _names(file: str, records: list[dict[str, Any]], columns: Columns) -> tuple[str | None, ...]:
    keys = list(dict.fromkeys(key for record in records for key in record))
    rows = [[str(record.get(key, "")) for key in keys] for record in records]
    named = replace(
        columns,
        wanted={side: None if column is None else str(column) for side, column in columns.wanted.items()},
        header=True,
    )
    places, _ = find_columns(file, [keys, *rows], named)
    return tuple(None if place is None else keys[place] for place in places)


def flat_record(record: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Flatten nested objects, with a dot in the name: translation.en."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        found |= flat_record(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return found


def _inside(record: dict[str, Any], name: str) -> Any:
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return _MISSING
        value = value[part]
    return value


def unreadable(path: Path, line: TextLine, lines: int = 1) -> SkippedLine:
    return SkippedLine(str(path), line.number, line.kind, line.problem, excerpt(line.text), lines)
