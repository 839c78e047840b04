"""Formats of numbers and dates in a table, detected from its first lines.

    1234.5    1,234.5    1,5   1.234,5                a point, or a comma with points between thousands
    $5    5 €    5%                                   money and percentages, without their sign
    2024-01-31 12:00    31.01.2024    01/31/2024      ISO, or the formats below, with or without a time of day
    31-Jan-2024    January 31, 2024                   months by their English names
    2024-01    01/2024    Jan 2024    2024-Q1         months and quarters

`1,234` alone is ambiguous. A comma is decimal only if a number cannot have thousands (1,5 or 0,125). It separates
thousands only if a number must have them (1,234.5 or 1,234,567). With decimal commas, `1.000` is a thousand. It also
is in a column of whole numbers (998, 999, 1.000), as a decimal would have no zero at its end. `01/02/2024` alone is
ambiguous, too: a number of 13 or more decides, otherwise the order, as times rise.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise, zip_longest

from regard.errors import CallError

_NUMBERED = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y")
_NAMED = ("%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%y")
_DAYS = (*_NUMBERED, *_NAMED)
_HOURS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%B %Y", "%b-%Y", "%b-%y")
_QUARTER = "Q%m"  # 1 to 4; each is read as its first month
_QUARTERS = ("%YQ%m", "%Y-Q%m", "%Y Q%m", "Q%m %Y")
FORMATS = (*(day + hour for day in _DAYS for hour in _HOURS), *_MONTHS, *_QUARTERS)
_EUROPEAN = re.compile(r"[-+]?(\d+(\.\d{3})*,\d+([eE][-+]?\d+)?|[1-9]\d{0,2}(\.\d{3})+)")
_SURE = re.compile(r"[-+]?(0,\d+|\d[\d.]*,(\d\d?|\d{4,})([eE].*)?)")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?")
_THOUSAND = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*|,\d{3})")
_SIGNS = re.compile(r"([-+]?)\s*[$€£¥]?\s*([-+]?\d[\d.,]*)\s*[$€£¥%]?")
_POINT = re.compile(r"[-+]?(\d*\.(\d\d?|\d{4,})|0\.\d+)")
_DOTTED = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")
_WHOLE = re.compile(r"[-+]?\d+")


def has_decimal_commas(rows: Sequence[Sequence[object]]) -> bool:
    """Whether commas are decimal: a number has a comma that cannot separate thousands, or points that must, and none
    has a decimal point.
    """
    texts = [[cell.strip() if isinstance(cell, str) else "" for cell in row] for row in rows]
    cells = [cell for row in texts for cell in row]
    sure = any(map(_SURE.fullmatch, cells)) or any(map(_has_dotted_thousands, zip_longest(*texts, fillvalue="")))
    return sure and not any(map(_POINT.fullmatch, cells))


def _has_dotted_thousands(column: Sequence[str]) -> bool:
    """Whether the whole numbers of a column have points between thousands: decimals would have a point in every cell,
    or no zero at the end.
    """
    numbers = [cell for cell in column if _WHOLE.fullmatch(cell) or _DOTTED.fullmatch(cell)]
    dotted = [cell for cell in numbers if "." in cell]
    if not dotted or any("." in cell and not _DOTTED.fullmatch(cell) for cell in column if _is_numeral(cell)):
        return False
    return any(cell.count(".") > 1 for cell in dotted) or (
        len(dotted) < len(numbers) and any(cell.endswith("0") for cell in dotted)
    )


def _is_numeral(cell: str) -> bool:
    return bool(cell) and set(cell) <= set("+-.,0123456789")


def has_thousands(cells: Iterable[object]) -> bool:
    """Whether a number has a comma that can only separate thousands."""
    return any(isinstance(cell, str) and _THOUSAND.fullmatch(cell.strip()) for cell in cells)


def without_signs(cells: Sequence[object]) -> list[object]:
    """Return the cells with currency and percent signs removed from numbers."""
    return [
        "".join(found.groups()) if isinstance(cell, str) and (found := _SIGNS.fullmatch(cell.strip())) else cell
        for cell in cells
    ]


def with_points(cells: Sequence[object], *, commas: bool = False, thousands: bool = False) -> list[object]:
    """Return the cells with numbers in Python's format: 1234.5 for 1.234,5 (`commas` are decimal), or for 1,234.5
    (they separate `thousands`).
    """
    if commas:
        return [
            _swapped(cell) if isinstance(cell, str) and _EUROPEAN.fullmatch(cell.strip()) else cell for cell in cells
        ]
    if not thousands:
        return [*cells]
    return [
        cell.replace(",", "") if isinstance(cell, str) and _THOUSANDS.fullmatch(cell.strip()) else cell
        for cell in cells
    ]


def _swapped(cell: str) -> str:
    return cell.replace(".", "").replace(",", ".")


def parsed(cell: object, form: str) -> datetime | None:
    text = str(cell).strip()
    if _QUARTER in form:
        text = re.sub(r"Q([1-4])(?!\d)", lambda found: f"Q{3 * int(found[1]) - 2:02d}", text)
    try:
        return datetime.strptime(text, form)
    except ValueError:
        return None


def is_other_date(cell: object) -> bool:
    """Whether a text is a date in one of the formats that are not ISO."""
    return isinstance(cell, str) and any(parsed(cell, form) for form in FORMATS)


def date_format(cells: Sequence[object], column: str) -> str | None:
    """Return the common date format of the cells; None for ISO dates, numbers, or cells that are not dates."""
    first = [form for form in FORMATS if cells and parsed(cells[0], form)]
    times = {form: [parsed(cell, form) for cell in cells] for form in first}
    found = {form: [time for time in some if time] for form, some in times.items() if all(some)}
    if len(found) > 1:
        rising = [form for form, some in found.items() if all(a <= b for a, b in pairwise(some))]
        if len(rising) != 1:
            raise CallError(
                f"column {column!r}: {cells[0]} may be a day and a month, or a month and a day: set "
                f"{' or '.join(f'data.time_format={form!r}' for form in found)}"
            )
        return rising[0]
    return next(iter(found), None)
