"""Times of a series as numbers, and the step between them.

A time is a number: seconds since 1970 (UTC) for a date, else the number of the table. The step is the most frequent
distance between neighbors: a number of seconds, a working day, a number of calendar months, or of any other unit.
`Step.places` maps times to a line where the step has length 1. Neighbors 1 apart are regular, 2 or 3 apart leave a gap
between them, 1.4 apart are irregular.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import pairwise, zip_longest
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from regard.errors import CallError

# Formats of numbers and dates in a table, detected from its first lines.
#
#     1234.5    1,234.5    1,5   1.234,5                a point, or a comma with points between thousands
#     $5    5 €    5%                                   money and percentages, without their sign
#     2024-01-31 12:00    31.01.2024    01/31/2024      ISO, or the formats below, with or without a time of day
#     31-Jan-2024    January 31, 2024                   months by their English names
#     2024-01    01/2024    Jan 2024    2024-Q1         months and quarters
#
# `1,234` alone is ambiguous. A comma is decimal only if a number cannot have thousands (1,5 or 0,125). It separates
# thousands only if a number must have them (1,234.5 or 1,234,567). With decimal commas, `1.000` is a thousand. It
# also is in a column of whole numbers (998, 999, 1.000), as a decimal would have no zero at its end. `01/02/2024`
# alone is ambiguous, too: a number of 13 or more decides, otherwise the order, as times rise.

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
            _swap_separators(cell) if isinstance(cell, str) and _EUROPEAN.fullmatch(cell.strip()) else cell
            for cell in cells
        ]
    if not thousands:
        return [*cells]
    return [
        cell.replace(",", "") if isinstance(cell, str) and _THOUSANDS.fullmatch(cell.strip()) else cell
        for cell in cells
    ]


def _swap_separators(cell: str) -> str:
    return cell.replace(".", "").replace(",", ".")


def parse_number(cell: object, form: str) -> datetime | None:
    text = str(cell).strip()
    if _QUARTER in form:
        text = re.sub(r"Q([1-4])(?!\d)", lambda found: f"Q{3 * int(found[1]) - 2:02d}", text)
    try:
        return datetime.strptime(text, form)
    except ValueError:
        return None


def is_other_date(cell: object) -> bool:
    """Whether a text is a date in one of the formats that are not ISO."""
    return isinstance(cell, str) and any(parse_number(cell, form) for form in FORMATS)


def date_format(cells: Sequence[object], column: str) -> str | None:
    """Return the common date format of the cells; None for ISO dates, numbers, or cells that are not dates."""
    first = [form for form in FORMATS if cells and parse_number(cells[0], form)]
    times = {form: [parse_number(cell, form) for cell in cells] for form in first}
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


DAY = 86400.0
LENGTHS = {7 * DAY: "weeks", DAY: "days", 3600.0: "hours", 60.0: "minutes", 1.0: "seconds"}
UNIX = re.compile(r"1\d{9}(\d{3})?(\.0*)?")  # seconds or milliseconds since 1970, in this century
Times = NDArray[np.float64]
Unit = Literal["number", "seconds", "weekdays", "months", "rows"]


def as_number(cell: object, form: str | None) -> tuple[float, bool]:
    """Parse a time; return it and whether it is a date. Raises ValueError with the reason."""
    if isinstance(cell, datetime):
        return _seconds(cell), True
    if isinstance(cell, date):
        return _seconds(datetime(cell.year, cell.month, cell.day)), True
    text = str(cell).strip() if cell is not None else ""
    if not text:
        raise ValueError("the time is missing")
    if form is not None:
        if (moment := parse_number(text, form)) is None:
            raise ValueError(f"{text!r} does not match the time format {form!r}")
        return _seconds(moment), True
    if UNIX.fullmatch(text):
        return float(text) / (1000 if len(text.partition(".")[0]) == 13 else 1), True
    if not text.isdigit() or len(text) == 8:  # 20240131 is a day; 2024 is a number
        try:
            return _seconds(datetime.fromisoformat(text)), True
        except ValueError:
            pass
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an ISO date and not a number; set data.time_format=...") from None
    if not np.isfinite(number):
        raise ValueError(f"{text!r} is not a time")
    return number, False


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def labels(times: Times, dates: bool) -> list[str]:
    """Format dates: without the time of day if all are midnight, without seconds if all are 0."""
    if not dates:
        return [f"{time:.12g}" for time in times]
    moments = [datetime.fromtimestamp(float(time), UTC) for time in times]
    if all(moment.timestamp() % DAY == 0 for moment in moments):
        return [f"{moment:%Y-%m-%d}" for moment in moments]
    exact = "minutes" if all(moment.timestamp() % 60 == 0 for moment in moments) else "auto"
    return [moment.replace(tzinfo=None).isoformat(sep=" ", timespec=exact) for moment in moments]


@dataclass(frozen=True)
class Step:
    """Step of `size` units. `day`: day of the month for steps of months; 31 is the last of any month."""

    unit: Unit
    size: float
    day: int = field(default=0, compare=False)

    def places(self, times: Times) -> Float[np.ndarray, " T"]:
        """Return the times on a line where the step has length 1."""
        if self.unit == "rows":
            return np.arange(len(times), dtype=np.float64)
        if self.unit == "months":
            return _months(times) / self.size
        if self.unit == "weekdays":
            return np.busday_count("1970-01-01", _days(times)) + times % DAY / DAY
        return times / self.size

    def after(self, last: float, count: int) -> Times:
        """Return the next `count` times."""
        ahead = np.arange(1, count + 1)
        if self.unit == "months":
            return _months_later(last, ahead * int(self.size), self.day)
        if self.unit == "weekdays":
            days = np.busday_offset(_days(np.array([last]))[0], ahead, roll="forward")
            return days.astype("datetime64[s]").astype(np.float64) + last % DAY
        return last + ahead.astype(np.float64) * self.size

    def season(self) -> int:
        """Number of steps in the usual season: a day, a week or a year."""
        if self.unit == "months":
            return max(1, round(12 / self.size))
        if self.unit == "weekdays":
            return 5
        if self.unit == "seconds":
            if self.size < DAY:
                return max(1, round(DAY / self.size))
            return {1: 7, 7: 52}.get(round(self.size / DAY), 1)
        return 1

    def counted(self) -> tuple[float, str]:
        """Return the length of a step in its usual unit: (15, "minutes")."""
        if self.unit == "seconds":
            fits = ((length, name) for length, name in LENGTHS.items() if self.size % length == 0)
            length, name = next(fits, (1.0, "seconds"))
            return self.size / length, name
        names = {"months": "months", "weekdays": "working days", "rows": "lines", "number": ""}
        return self.size if self.unit in ("months", "number") else 1.0, names[self.unit]

    def __str__(self) -> str:
        if self.unit == "months":
            return {1: "a month", 3: "a quarter", 12: "a year"}.get(int(self.size), f"{self.size:g} months")
        if self.unit in ("weekdays", "rows"):
            return "a working day" if self.unit == "weekdays" else "a line"
        size, name = self.counted()
        return f"{size:g} {name.removesuffix('s') if size == 1 else name}".strip()


def find_step(times: Times, dates: bool) -> Step:
    """Return the most frequent distance between sorted, distinct times."""
    apart = np.diff(times)
    if not len(apart):
        return Step("seconds" if dates else "number", 1.0)
    sizes, counts = np.unique(np.round(apart, 6), return_counts=True)
    usual = float(sizes[counts.argmax()])
    if not dates:
        return Step("number", usual)
    if usual >= 28 * DAY and (same_day := _months(times)) is not None and np.allclose(same_day % 1, same_day[0] % 1):
        months, counts = np.unique(np.diff(np.round(same_day - same_day[0])), return_counts=True)
        return Step("months", float(months[counts.argmax()]), int(_day_of_month(times)[0].max()))
    weekday = (times // DAY + 3) % 7  # 1970-01-01 was a Thursday; Monday is 0
    if usual == DAY and weekday.max() < 5 and times[-1] - times[0] > 7 * DAY and (weekday == 4).any():
        return Step("weekdays", 1.0)
    return Step("seconds", usual)


def _days(times: Times) -> np.ndarray:
    return (times // DAY).astype("int64").astype("datetime64[D]")


def _day_of_month(times: Times) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the day of the month, from 1, and the number of days of the month."""
    days = _days(times)
    month = days.astype("datetime64[M]")
    first = month.astype("datetime64[D]")
    return (days - first).astype(np.int64) + 1, ((month + 1).astype("datetime64[D]") - first).astype(np.int64)


def _months(times: Times) -> Float[np.ndarray, " T"]:
    """Return months since 1970; the fraction is that of the day. A day that some months lack (the 30th, the last one)
    has the same fraction in all months; the last day of a shorter month replaces it.
    """
    day, length = _day_of_month(times)
    same = bool((day == np.minimum(day.max(), length)).all())
    month = _days(times).astype("datetime64[M]").astype(np.int64)
    return month + ((0 if same else day - 1) + times % DAY / DAY) / 31


def _months_later(last: float, months: NDArray[np.int64], wanted: int) -> Times:
    """Return times from months. `wanted`: day of the month of the series, if the last time keeps to it."""
    day, length = (int(one[0]) for one in _day_of_month(np.array([last])))
    if day != min(wanted, length):
        wanted = 31 if day == length and day > 28 else day
    later = _days(np.array([last])).astype("datetime64[M]")[0] + months
    first = later.astype("datetime64[D]")
    lengths = ((later + 1).astype("datetime64[D]") - first).astype(np.int64)
    return (first + np.minimum(wanted, lengths) - 1).astype("datetime64[s]").astype(np.float64) + last % DAY


def calendar(times: Times, what: list[str]) -> Float[np.ndarray, "T F"]:
    """Return sine and cosine of the hour of the day and of the day of the week, month and year; they are continuous
    over each cycle.
    """
    days = _days(times)
    month, year = days.astype("datetime64[M]"), days.astype("datetime64[Y]")
    phases = {
        "hour": times % DAY / DAY,
        "weekday": (times / DAY + 3) % 7 / 7,
        "monthday": (days - month.astype("datetime64[D]")).astype(np.float64) / 31,
        "yearday": (days - year.astype("datetime64[D]")).astype(np.float64) / 366,
    }
    waves = [wave(2 * np.pi * phases[name]) for name in what for wave in (np.sin, np.cos)]
    return np.stack(waves, axis=1) if waves else np.empty((len(times), 0))
