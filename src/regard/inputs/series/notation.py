"""How numbers and dates are written in a table, by what stands in its first lines.

    1234.5    1,234.5    1,5   1.234,5                a point, or a comma with points between thousands
    $5    5 €    5%                                   money and shares, without their sign
    2024-01-31 12:00    31.01.2024    01/31/2024      ISO, or the formats below, with or without a time of day
    31-Jan-2024    January 31, 2024                   months by their English names
    2024-01    01/2024    Jan 2024    2024-Q1         months and quarters

`1,234` alone may be either: only a number that cannot be thousands (1,5 or 0,125) makes the comma a decimal one, and
only one that must be (1,234.5 or 1,234,567) makes it stand between thousands. Beside decimal commas, `1.000` is a
thousand. So it is in a column of whole numbers (998, 999, 1.000), as a decimal would have no zero at its end.
`01/02/2024` alone may be either, too: a 13 or more decides, or else the order, as times rise.
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
    """Whether a number of these rows has a comma that cannot stand between thousands, or points that must, and none
    has a decimal point."""
    texts = [[cell.strip() if isinstance(cell, str) else "" for cell in row] for row in rows]
    cells = [cell for row in texts for cell in row]
    sure = any(map(_SURE.fullmatch, cells)) or any(map(_has_dotted_thousands, zip_longest(*texts, fillvalue="")))
    return sure and not any(map(_POINT.fullmatch, cells))


def _has_dotted_thousands(column: Sequence[str]) -> bool:
    """Whether whole numbers of a column have points between thousands: a decimal would have one in every cell, or no
    zero at its end."""
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
    """Whether some number has a comma that can only stand between thousands."""
    return any(isinstance(cell, str) and _THOUSAND.fullmatch(cell.strip()) for cell in cells)


def without_signs(cells: Sequence[object]) -> list[object]:
    """The same cells, without signs of money and shares at numbers."""
    return [
        "".join(found.groups()) if isinstance(cell, str) and (found := _SIGNS.fullmatch(cell.strip())) else cell
        for cell in cells
    ]


def with_points(cells: Sequence[object], *, commas: bool = False, thousands: bool = False) -> list[object]:
    """The same cells with numbers as Python writes them: 1234.5 for 1.234,5 (`commas` are decimal), or for 1,234.5
    (they stand between `thousands`)."""
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
    """Whether it is a date in one of the formats that are not ISO."""
    return isinstance(cell, str) and any(parsed(cell, form) for form in FORMATS)


def date_format(cells: Sequence[object], column: str) -> str | None:
    """The format in which all of these are dates; None, if they are ISO dates, numbers or no dates at all."""
    first = [form for form in FORMATS if cells and parsed(cells[0], form)]
    times = {form: [parsed(cell, form) for cell in cells] for form in first}
    found = {form: [time for time in some if time] for form, some in times.items() if all(some)}
    if len(found) > 1:
        rising = [form for form, some in found.items() if all(a <= b for a, b in pairwise(some))]
        if len(rising) != 1:
            raise CallError(
                f"column {column!r}: {cells[0]} may be a day and a month, or a month and a day: say "
                f"{' or '.join(f'data.time_format={form!r}' for form in found)}"
            )
        return rising[0]
    return next(iter(found), None)
