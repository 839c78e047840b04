"""Find the columns of a table: by settings, else by their names, else by their content.

    id,English,French            the first line names columns, for no line below it looks like it; id is no text;
    1,Go.,Va !                   English comes before French: English is the source, French the target

Only the first lines of a file are used. `regard check` shows the decision, with two rows of each split.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean, median

from regard.data.pairs import Columns, excerpt
from regard.data.settings import Column
from regard.errors import CallError, nearest

SAMPLE = 1000  # rows that are examined
FEW = 5  # with fewer rows, the content of a column is not conclusive

# What columns are called, ours first and then by others.
_NAMES = """
    source src input
    target tgt trg output translation
    text sentence review content message tweet comment body transcript transcription
    label class category target sentiment topic intent tag
    image file filename file_name image_path image_name path photo picture
    caption text description comment sentence title
    path file filename file_name audio audio_path wav recording
    question query
    document context passage paragraph text
    answer answers answer_text
    start answer_start
    words tokens text sentence
    tags labels ner_tags pos_tags
    first premise sentence1 text1 question1 sentence_a text_a question text
    second hypothesis sentence2 text2 question2 sentence_b text_b answer claim
"""
SYNONYMS = {ours: names for ours, *names in map(str.split, _NAMES.strip().splitlines())}
_OTHERS = """
    id index idx no nr number key uid split date url score rating user
"""
_NAMES_OF_LANGUAGES = """
    english french german spanish italian portuguese dutch russian chinese mandarin japanese korean arabic hindi turkish
    polish czech swedish danish norwegian finnish greek hebrew hungarian romanian ukrainian bulgarian catalan vietnamese
    thai indonesian persian latin esperanto welsh irish urdu bengali tamil swahili deutsch français español italiano
    português русский en fr de es it pt nl ru zh ja ko ar hi tr pl cs sv da fi el he hu ro uk eng fra deu ger spa ita
    por nld rus zho jpn kor
"""
LANGUAGES = frozenset(_NAMES_OF_LANGUAGES.split())
FILES = {"image", "path"}  # columns of names of files
CLASSES = {"label"}  # columns of few different values
_ENDING = re.compile(r"\.[A-Za-z0-9]{2,5}$")
_SENTENCE = re.compile(r"(?<!^nr)(?<!^no)(?<!^pos)(?<!^ref)\.\s*$|[!?…。！？,;]\s*$")  # Nr. is a name


@dataclass(frozen=True)
class _Values:
    """The content of a column."""

    place: int
    name: str
    cells: Sequence[str]

    def _mean(self, of: Callable[[str], float | int]) -> float:
        return float(mean(map(of, self.cells))) if self.cells else 0.0

    @cached_property
    def different(self) -> int:
        return len(set(self.cells))

    @cached_property
    def numbers(self) -> float:
        return self._mean(lambda cell: bool(re.fullmatch(r"[-+]?[\d.,]+([eE][-+]?\d+)?", cell)))

    @cached_property
    def words(self) -> float:
        return float(median(len(cell.split()) for cell in self.cells)) if self.cells else 0.0

    @cached_property
    def length(self) -> float:
        return self._mean(len)

    @cached_property
    def files(self) -> float:
        return self._mean(lambda cell: bool(_ENDING.search(cell)))

    @property
    def is_id(self) -> bool:
        """Return whether all values are different, and numbers or short codes, or the column has the name of an id."""
        if self.name.lower() in _OTHERS.split():
            return True
        if len(self.cells) < FEW or self.different < len(self.cells) or self.files > 0.9:
            return False
        codes = all(len(cell.split()) == 1 and len(cell) <= 40 and re.search(r"\d", cell) for cell in self.cells)
        return self.numbers == 1.0 or codes

    @property
    def is_number(self) -> bool:
        return len(self.cells) >= FEW and self.numbers > 0.9

    @property
    def says_nothing(self) -> bool:
        return len(self.cells) >= FEW and self.different == 1

    @property
    def own_each(self) -> bool:
        """Return whether nearly every row has a different text."""
        return len(self.cells) >= 4 * FEW and self.different > 0.9 * len(self.cells) and self.words > 3


def find_columns(file: str, rows: Sequence[Sequence[str]], columns: Columns) -> tuple[list[int | None], bool]:
    """Return the number of each column in these first rows, None for a missing optional one, and whether the first row
    only names the columns."""
    first, given, optional = [cell.strip() for cell in rows[0]], columns.sought, columns.optional
    named = any(isinstance(column, str) for column in given.values())
    if columns.header is not False and not all(isinstance(column, int) for column in given.values()):
        require_distinct_names(file, rows)
    header = named or (_is_header(rows, columns) if columns.header is None else columns.header)
    body = [row for row in rows[header:] if len(row) == len(first)]
    there = [_Values(n, name if header else "", [row[n].strip() for row in body]) for n, name in enumerate(first)]
    found: dict[str, int] = {}
    for side, column in given.items():
        found |= _given_column(file, side, column, first)
    if header:
        for side in given.keys() - found:
            names = {name.lower(): n for n, name in reversed(list(enumerate(first))) if n not in found.values()}
            match = next((names[name] for name in (side, *SYNONYMS.get(side, ())) if name in names), None)
            found |= {} if match is None else {side: match}
    missing = [side for side in given if side not in found and side != optional]
    if missing and named and len(body) < FEW:
        raise CallError(f"{file}: no such column: data.{missing[0]}={missing[0]!r}{nearest(missing[0], first)}")
    spare = int(optional in given and optional not in found and not header)
    found |= _by_content(missing, [column for column in there if column.place not in found.values()], spare)
    for side in missing:
        if side not in found:
            raise CallError(f"{file}: no column is left for data.{side}: {_first_line(first)}")
    if spare and len(first) == len(given):
        found |= {optional: next(iter(set(range(len(first))) - set(found.values())))}
    for side in CLASSES & found.keys():
        _require_classes(file, side, there[found[side]], there, header)
    return [found.get(side) for side in given], header


def _given_column(file: str, side: str, column: Column | None, first: list[str]) -> dict[str, int]:
    if isinstance(column, str):
        if column not in first:
            raise CallError(f"{file}: no such column: data.{side}={column!r}{nearest(column, first)}")
        return {side: first.index(column)}
    if column is not None and column >= len(first):
        raise CallError(f"{file}: data.{side}={column} (columns count from 0), but {_first_line(first)}")
    return {} if column is None else {side: column}


def _first_line(first: list[str]) -> str:
    plural = "s" if len(first) != 1 else ""
    return f"the first line has {len(first)} column{plural}: {excerpt(' | '.join(first))!r}"


def _is_header(rows: Sequence[Sequence[str]], columns: Columns) -> bool:
    first = {cell.strip().lower() for cell in rows[0]}
    return set(columns.sought) - {columns.optional} <= first or names_columns(rows)


def are_names(cells: Sequence[str]) -> bool:
    """Return whether these cells, two or more, are usual and different names of columns."""
    names = {cell.strip().lower() for cell in cells}
    return len(names) == len(cells) > 1 and names <= {*(_NAMES + _OTHERS).split(), *LANGUAGES}


def names_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row looks like names, and unlike all rows below it."""
    if len(rows[0]) > 1 and not rows[0][0].strip():  # an index that pandas wrote has no name
        rows = [row[1:] for row in rows]
    first = [cell.strip() for cell in rows[0]]
    if len(filled := [cell.lower() for cell in first if cell]) > 1 and filled == [
        f"v{n + 1}" for n in range(len(filled))
    ]:
        return True
    body = [row for row in rows[1:] if len(row) == len(first)]
    names = [name.lower() for name in first]
    if len(set(names)) < len(names) or not body or any(not _is_name(name) for name in names):
        return False
    columns = [_Values(n, first[n], [row[n].strip() for row in body]) for n in range(len(first))]
    if any(column.name in column.cells for column in columns):
        return False
    known = {*(_NAMES + _OTHERS).split(), *LANGUAGES}
    if all(name in known or not known.isdisjoint(re.split(r"[\W_]+", name)) for name in names):
        return True
    if len(body) < FEW:
        return False
    numbers = any(column.numbers > 0.9 and not _Values(0, "", [column.name]).numbers for column in columns)
    files = any(column.files > 0.9 for column in columns)  # below a name that is not a file name
    return numbers or files or any(column.words >= max(4, 2 * len(column.name.split())) for column in columns)


def require_distinct_names(file: str, rows: Sequence[Sequence[str]]) -> None:
    """Raise if the first row names columns, and repeats a name."""
    first = [cell.strip().lower() for cell in rows[0]]
    doubled = next((name for at, name in enumerate(first) if name and name in first[:at]), "")
    apart = [f"{name} {at}" if name in first[:at] else name for at, name in enumerate(first)]
    if doubled and names_columns([apart, *rows[1:]]):
        raise CallError(
            f"{file}: the first line has {first.count(doubled)} columns named {doubled!r}: rename or remove one of them"
        )


def _is_name(cell: str) -> bool:
    short = 0 < len(cell) <= 40 and len(cell.split()) <= 4
    return short and not _SENTENCE.search(cell) and not _ENDING.search(cell) and not re.fullmatch(r"[\d.,+-]+", cell)


def _by_content(sides: Sequence[str], columns: Sequence[_Values], spare: int) -> dict[str, int]:
    """Return columns for the remaining sides, in order. Clearly unsuitable ones are skipped if there are more than
    needed. `spare`: how many must be left for optional ones."""
    found: dict[str, int] = {}
    rest = list(columns)
    for side in sides:
        best = None
        if side in CLASSES:
            best = _few_values([column for column in rest if not column.is_id])
        elif side in FILES:
            best = next((column for column in rest if len(column.cells) >= FEW and column.files > 0.9), None)
        if best is not None:
            found[side] = best.place
            rest.remove(best)
    missing = [side for side in sides if side not in found]
    for odd in ("is_id", "is_number", "says_nothing"):
        plain = [column for column in rest if not getattr(column, odd)]
        rest = plain if len(plain) >= len(missing) + spare else rest
    if (
        len(missing) == 1 and found and rest
    ):  # the label of a text or a picture was found: the input is the longest column
        rest = [max(rest, key=lambda column: column.length)]
    return found | {side: column.place for side, column in zip(missing, rest, strict=False)}


def _few_values(columns: Sequence[_Values]) -> _Values | None:
    """Return the column of classes if it is unique: few different values, rather words than numbers."""
    few = [column for column in columns if column.different <= len(column.cells) / 2]
    if not few or len(few[0].cells) < 2 * FEW:
        return None
    return min(few, key=lambda column: (column.says_nothing, column.numbers > 0.9, column.different))


def _require_classes(file: str, side: str, chosen: _Values, columns: Sequence[_Values], header: bool) -> None:
    """Raise if a column of texts is to hold classes. A class has to occur many times."""
    if not chosen.own_each:
        return
    other = _few_values([column for column in columns if column is not chosen])
    said = f"{chosen.different:,} different values in {len(chosen.cells):,} rows"
    what = f"column {chosen.name!r}" if header else f"column {chosen.place}"
    advice = "name the column of classes"
    if other is not None:
        name = repr(other.name) if header else str(other.place)
        advice = f"column {name} has {other.different}: data.{side}={other.name if header else other.place}"
    raise CallError(f"{file}: {what} cannot be data.{side}: it has {said}, and these are texts; {advice}")
