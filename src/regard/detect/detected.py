"""What was detected in data, and its description in words."""

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data.formats import json_rows
from regard.detect.tables import MOST, ColumnContent, Kind, TableSample
from regard.errors import CallError, RegardError, pip_install
from regard.files.lines import document, files_of, is_chat
from regard.inputs.media_files import find_member


@dataclass(frozen=True)
class Detected:
    """What was detected. `kinds`: input and output. `data`: settings that name files and columns. `inputs` and
    `targets`: of some examples, as in `Sample`. `beliefs`: descriptions in words. `doubt`: the alternative reading;
    empty if there is none."""

    kinds: tuple[str, str]
    data: dict[str, Any]
    count: int
    inputs: Sequence[Any]
    targets: Sequence[str]
    beliefs: list[str] = field(default_factory=list)
    shown: Sequence[tuple[str, str]] = ()  # three examples to show to the user
    doubt: str = ""


def first_three(inputs: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    return [(str(one), str(other)) for one, other in zip(inputs[:3], targets[:3], strict=False)]


def picture_sizes(facts: Sequence[tuple[int, int, bool]]) -> str:
    heights, widths = sorted(fact[0] for fact in facts), sorted(fact[1] for fact in facts)
    color = "color" if any(fact[2] for fact in facts) else "gray"
    usual = f"{heights[len(heights) // 2]}×{widths[len(widths) // 2]}"
    return f"{color} pictures, usually of {usual} pixels ({len(facts)} were opened)"


def sound_lengths(facts: Sequence[tuple[int, float]]) -> str:
    rates, seconds = sorted({fact[0] for fact in facts}), sorted(fact[1] for fact in facts)
    hertz = " and ".join(f"{rate:,}" for rate in rates[:3])
    return f"recordings of {seconds[0]:.2g} to {seconds[-1]:.3g} seconds at {hertz} Hz ({len(facts)} were opened)"


def class_counts(labels: Iterable[str] | Counter[str]) -> str:
    counted = Counter(labels)
    counts = counted.most_common()
    first = ", ".join(f"{name} ({count:,})" for name, count in counts[:5])
    return f"{len(counts):,} classes in {counted.total():,} examples: {first}{', …' if len(counts) > 5 else ''}"


# What the user specified about data: columns (data.*) and the job.

#: Settings that name a column, and what it then holds.
_ROLES: dict[str, Kind] = {
    "source": "text", "target": "text", "text": "text", "words": "text", "caption": "text",
    "first": "text", "second": "text", "label": "label",
    "image": "picture", "path": "recording", "time": "time", "id": "id",
}  # fmt: skip
_SIDES = {"source", "target"}  # if only one is named, the other is still searched


@dataclass(frozen=True)
class Hints:
    """What the user specified. `data`: settings of that section. `said`: possible outputs of a requested job; empty
    without one."""

    data: Mapping[str, Any] = field(default_factory=dict)
    said: frozenset[str] = frozenset()

    @property
    def may_be_plain(self) -> bool:
        """Return whether the user specified nothing that excludes texts to be continued: no columns, no labels."""
        return self.said <= {"text"} and not any(role in self.data for role in _ROLES)

    def is_column(self, role: str, column: ColumnContent) -> bool:
        return role in self.data and str(self.data[role]) == str(column.key)

    def read(self, table: TableSample) -> TableSample:
        """Return the table with the specified columns. Other columns of a specified kind are unused."""
        roles = [role for role in _ROLES if any(self.is_column(role, column) for column in table.columns)]
        whole = [role for role in roles if role not in _SIDES or set(roles) >= _SIDES]
        taken: set[Kind] = {_ROLES[role] for role in whole}
        if "label" in taken and any(column.kind in ("text", "picture", "recording") for column in table.columns):
            taken.add("number")  # of a kind that could also be classes
        return replace(table, columns=self._for_job([self._column(column, roles, taken) for column in table.columns]))

    def _column(self, column: ColumnContent, roles: list[str], taken: set[Kind]) -> ColumnContent:
        role = next((role for role in roles if self.is_column(role, column)), None)
        if "separator" in self.data:
            column = column._replace(separator=str(self.data["separator"] or ""))
        if role is not None:
            return column._replace(kind=_ROLES[role])
        return column._replace(kind="unused") if column.kind in taken else column

    def _for_job(self, columns: list[ColumnContent]) -> list[ColumnContent]:
        """Treat repeated texts as texts if the job generates texts, and as classes if there are no others."""
        kinds = [column.kind for column in columns]
        listed = "picture" in kinds or "recording" in kinds
        if self.said == {"text"} and (listed or kinds.count("text") < 2):
            return [column._replace(kind="text") if column.kind == "label" else column for column in columns]
        if self.said == {"label"} and "label" not in kinds and kinds.count("text") > (not listed):
            fewest = min((column for column in columns if column.kind == "text"), key=lambda one: one.distinct)
            return [one._replace(kind="label" if one is fewest else one.kind) for one in columns]
        return columns


# Properties of pictures, recordings and tables of numbers: sizes, rates, steps. A few files are opened.


def _open_files(place: Path, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of files in a folder or a tar; skip missing files."""
    for name in names:
        if (member := find_member(place, name)) is not None:
            yield name, member.read()


def picture_facts(place: Path, names: Sequence[str]) -> list[tuple[int, int, bool]]:
    """Return (height, width, whether it has colors) of each readable picture."""
    try:
        from PIL import Image, ImageChops
    except ImportError:
        raise CallError(f"pictures need Pillow, which is not installed: {pip_install('regard[image]')}") from None
    found = []
    for _, data in _open_files(place, names):
        try:
            with Image.open(io.BytesIO(data)) as image:
                width, height = image.size
                small = image.convert("RGB").resize((min(64, width), min(64, height)))
        except Exception:
            continue
        red, green, blue = small.split()
        differ = (ImageChops.difference(red, green), ImageChops.difference(green, blue))
        found.append((height, width, any((one.getextrema()[1] or 0) > 8 for one in differ)))  # pyright: ignore
    if not found:
        raise CallError(f"{place}: of {len(names)} pictures that were opened, none can be read")
    return found


def sound_facts(place: Path, names: Sequence[str]) -> list[tuple[int, float]]:
    """Return (rate, seconds) of each readable recording."""
    from regard.inputs.sound.recording import SoundFile

    found = []
    for _, data in _open_files(place, names):
        try:
            with SoundFile(data) as sound:
                found.append((sound.rate, sound.seconds))
        except RegardError as problem:
            if isinstance(problem, CallError):
                raise
    if not found:
        raise CallError(f"{place}: of {len(names)} recordings that were opened, none can be read")
    return found


@dataclass(frozen=True)
class SeriesFacts:
    """Properties of series. `steps`: of the shortest series, `longest`: of the longest. `season`: steps of a day, week
    or year, 0 without a clock."""

    steps: int
    season: int
    series: int
    columns: int
    regular: float = 1.0  # share of neighboring times that are one step apart
    categories: int = 0  # columns of text that are additional inputs
    longest: int = 0

    def described(self) -> str:
        season = f", with a season of {self.season} steps" if self.season > 1 else ""
        if self.series == 1:
            return f"one series of {self.steps:,} steps{season}"
        return f"{self.series:,} series of {self.steps:,} steps or more{season}"


def series_facts(table: TableSample, time: ColumnContent | None, id: ColumnContent | None) -> SeriesFacts:
    import numpy as np

    from regard.inputs.series.times import as_number, date_format, find_step

    season, regular = 0, 1.0
    if time is not None:
        clock = [*table.all_cells(time, *([] if id is None else [id]), most=MOST)]
        first = [cell for cell, *name in clock if name == [*clock[0][1:]]]
        try:
            form = date_format(first, str(time.key))
            times = [as_number(cell, form) for cell in first]
            numbers = np.unique([number for number, _ in times])
            step = find_step(numbers, times[0][1])
            season = step.season()
            apart = np.diff(step.places(numbers))
            regular = float(np.isclose(apart, 1, atol=1e-3).mean()) if len(apart) else 1.0
        except (ValueError, RegardError, IndexError):
            season = 0
    columns = sum(column.kind == "number" for column in table.columns)
    if id is None:
        return SeriesFacts(table.count, season, 1, columns, regular, longest=table.count)
    counts = table.counts(id)
    return SeriesFacts(min(counts.values()), season, len(counts), columns, regular, longest=max(counts.values()))


# Texts to be continued, one object each: chats, and documents without any other column.

JSON_ENDINGS = (".json", ".jsonl", ".ndjson")


def are_chats(path: Path) -> bool:
    rows = [row for _, row in islice(json_rows(path), MOST) if row is not None]
    return bool(rows) and all(map(is_chat, rows))


def of_documents(path: Path) -> Detected:
    files = files_of(path)
    rows = [row for file in files for _, row in islice(json_rows(file), MOST // len(files) + 1) if row is not None]
    texts = [text for row in rows if (text := document(row))]
    size = sum(file.stat().st_size for file in files)
    chats = "chats, laid out as plays (User: ..., Assistant: ...)"
    what = chats if all(map(is_chat, rows)) else "documents, an object each"
    beliefs = [f"{what}; {size / 1e6:.3g} MB, to be continued"]
    data = {"train": str(path), "documents": "line"}
    return Detected(("nothing", "text"), data, size, texts, [], beliefs, [(text, "") for text in texts[:3]])
