"""Properties of pictures, recordings and tables of numbers: sizes, rates, steps. A few files are opened."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.auto.columns import Column
from regard.auto.tables import MOST, Table
from regard.errors import CallError, RegardError, pip_install
from regard.inputs.media_files import find_member


def _opened(place: Path, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
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
    for _, data in _opened(place, names):
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
    for _, data in _opened(place, names):
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


def series_facts(table: Table, time: Column | None, id: Column | None) -> SeriesFacts:
    import numpy as np

    from regard.inputs.series.notation import date_format
    from regard.inputs.series.times import as_number, find_step

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
