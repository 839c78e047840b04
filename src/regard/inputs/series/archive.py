"""Series in archive formats of benchmarks, read as a table with a line for each step.

GunPoint_TRAIN.ts     sktime (UCR, UEA): a series a line, its channels separated by colons, its class at the end
tourism.tsf           Monash: the name, the start and the values of a series in each line
GunPoint_TRAIN.arff   Weka: rows of attributes; a series each, if there are numbers and, at the end, a class

series,label,value    series,time,value    or the attributes unchanged
"""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import chain, zip_longest
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from regard.errors import CallError, RegardError
from regard.files.hub import require_memory_for
from regard.files.lines import BROKEN, TextLine, ending, read_lines

ENDINGS = (".ts", ".tsf", ".arff")
SERIES = "series"
_STEPS = 16  # numbers before a class, in a row that is a series
_STAMP = re.compile(r"\(([^()]*),([^(),]*)\)")  # a time and a value
_MONTHS = {"yearly": 12, "quarterly": 3, "monthly": 1}
_SECONDS = {
    "weekly": 604800, "daily": 86400, "hourly": 3600, "half_hourly": 1800, "30_minutes": 1800, "15_minutes": 900,
    "10_minutes": 600, "5_minutes": 300, "minutely": 60, "10_seconds": 10, "4_seconds": 4, "seconds": 1,
}  # fmt: skip
Rows = Iterator[tuple[int, Sequence[str], str]]  # line, cells, error


def is_series_array(path: Path) -> bool:
    """Whether a NumPy file has no pictures with labels: an .npy, or an .npz without x_train and the like."""
    if path.suffix == ".npz" and path.is_file():
        with suppress(*BROKEN, ValueError, BadZipFile), np.load(path, allow_pickle=False) as arrays:
            return not any(re.search(r"^x(_|$)|^x(train|test)|_images$", name) for name in arrays)
        return False
    return path.suffix == ".npy"


def load_series_array(path: Path) -> np.ndarray:
    """Return steps, or steps × columns: the array of an .npy, the only one of an .npz, or the one named data."""
    require_memory_for(path)
    try:
        found = np.load(path, allow_pickle=False)
        if not isinstance(found, np.ndarray):
            with found as arrays:
                names = list(arrays)
                if len(names) > 1 and "data" not in names:
                    raise CallError(f"{path}: has several arrays ({', '.join(names[:6])}): save the one of the series")
                found = arrays["data" if "data" in names else names[0]]
    except (*BROKEN, ValueError, BadZipFile, IndexError) as problem:
        raise RegardError(f"{path}: is not a complete file of plain arrays ({problem})") from None
    if found.ndim not in (1, 2) or found.dtype.kind not in "fiu" or not found.size:
        what = f"an array of {found.dtype} and shape {found.shape}"
        raise CallError(
            f"{path}: {what} is not a table; save steps, or steps × columns, such as numpy.save(NEW, a[..., 0])"
        )
    return found.reshape(len(found), -1)


def is_archive(path: Path) -> bool:
    """Whether a file has one of these formats: it starts with settings (@...) and a line that marks the data."""
    if ending(path) not in ENDINGS:
        return False
    first = (line.text.strip() for line in read_lines(path))
    return next((text for text in first if text and not text.startswith(("#", "%"))), "").startswith("@")


def archive_rows(path: Path) -> tuple[list[str], Rows]:
    """Return the names of the columns, and all rows."""
    lines = (line for line in read_lines(path) if line.text.strip() and not line.text.startswith(("#", "%")))
    settings: list[list[str]] = []
    for line in lines:
        if line.text.strip().lower() == "@data":
            return {".ts": _sktime, ".tsf": _monash, ".arff": _weka}[ending(path)](path, settings, lines)
        name, *rest = line.text.strip().split(None, 1)
        settings.append([name.lower(), *rest])
    raise CallError(f"{path}: the line @data, which precedes the series, is missing")


def _sktime(path: Path, settings: list[list[str]], lines: Iterator[TextLine]) -> tuple[list[str], Rows]:
    said = {name: "".join(rest).lower() for name, *rest in settings}
    if said.get("@targetlabel", "false").startswith("true"):
        raise CallError(f"{path}: has a number to predict for each series (@targetLabel); regard predicts classes")
    labeled = said.get("@classlabel", "false").startswith("true")
    first = next(lines, None)
    if first is None:
        raise CallError(f"{path}: there is no series below @data")
    channels = len(_channels(first.text)) - labeled
    names = ["value"] if channels == 1 else [f"value {at}" for at in range(1, channels + 1)]

    def rows() -> Rows:
        for number, line in enumerate(chain([first], lines), 1):
            found = _channels(line.text)
            label = found.pop() if labeled else ""
            if line.problem or len(found) != channels:
                yield line.number, (), line.problem or f"{len(found)} channels where the first series has {channels}"
                continue
            steps = zip_longest(*(channel.split(",") for channel in found), fillvalue="?")
            yield from ((line.number, (f"line {number}", *([label] * labeled), *step), "") for step in steps)

    return [SERIES, *(["label"] * labeled), *names], rows()


def _channels(line: str) -> list[str]:
    """Return the values of each channel and the class; times are dropped, as their steps are equal."""
    return _STAMP.sub(lambda found: found[2], line).strip().split(":")


def _monash(path: Path, settings: list[list[str]], lines: Iterator[TextLine]) -> tuple[list[str], Rows]:
    attributes = [rest[0].split()[0] for name, *rest in settings if name == "@attribute"]
    frequency = next((rest[0].strip() for name, *rest in settings if name == "@frequency"), "")
    timed = "start_timestamp" in attributes and frequency in {*_MONTHS, *_SECONDS}

    def rows() -> Rows:
        for number, line in enumerate(lines, 1):
            *told, values = line.text.strip().split(":")
            named = dict(zip(attributes, told, strict=False))
            if line.problem or len(told) != len(attributes):
                yield line.number, (), line.problem or f"{len(told)} attributes where there are {len(attributes)}"
                continue
            name = named.get("series_name", f"line {number}")
            for step, value in enumerate(values.split(",")):
                time = [_time(named["start_timestamp"], frequency, step)] if timed else []
                yield line.number, (name, *time, value), ""

    return [SERIES, *(["time"] * timed), "value"], rows()


def _time(start: str, frequency: str, steps: int) -> str:
    """Return the time `steps` steps after the start of a series."""
    begin = datetime.strptime(start.strip(), "%Y-%m-%d %H-%M-%S")
    if frequency in _SECONDS:
        return str(begin + timedelta(seconds=steps * _SECONDS[frequency]))
    months = begin.year * 12 + begin.month - 1 + steps * _MONTHS[frequency]
    return f"{months // 12}-{months % 12 + 1:02}-01"


def _weka(path: Path, settings: list[list[str]], lines: Iterator[TextLine]) -> tuple[list[str], Rows]:
    attributes = [_attribute(rest[0]) for name, *rest in settings if name == "@attribute"]
    if any(kind == "relational" for _, kind in attributes):
        raise CallError(f"{path}: has an attribute of several series (relational): use the .ts file of the same data")
    names, kinds = [name for name, _ in attributes], [kind for _, kind in attributes]
    series = len(names) > _STEPS and kinds[-1].startswith("{") and not any(kind[0] == "{" for kind in kinds[:-1])

    def rows() -> Rows:
        for number, line in enumerate(lines, 1):
            cells = next(csv.reader([line.text], quotechar="'", skipinitialspace=True))
            if line.problem or len(cells) != len(names):
                yield line.number, (), line.problem or f"{len(cells)} columns where there are {len(names)} attributes"
            elif series:
                yield from ((line.number, (f"line {number}", cells[-1], cell), "") for cell in cells[:-1])
            else:
                yield line.number, cells, ""

    return [SERIES, "label", "value"] if series else names, rows()


def _attribute(text: str) -> tuple[str, str]:
    """Return the name and type of an attribute: numeric, {a,b}, string, relational."""
    name = re.match(r"'[^']*'|\"[^\"]*\"|\S+", text)
    assert name is not None
    return name[0].strip("'\""), text[name.end() :].strip().lower() or "numeric"
