"""Series with a label each, as files have them.

data.train=table.csv     lines of all series: a column says whose a line is, another one what it is called
data.train=folder/       folder/walking/1.csv, folder/running/2.csv, ...: a table is a series, its folder the label
data.train=corpus:NAME   one of ours, which also knows where in a series its label can be seen
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.corpora.series import load_labeled_series
from regard.data.check_report import Finding
from regard.data.pairs import Bad
from regard.data.read_report import ReadReport
from regard.data.tables import Role
from regard.data.text_hash import text_hash
from regard.errors import CallError, RegardError
from regard.inputs.series.files import Roles, find_labeled_roles
from regard.inputs.series.prepare import load_panel
from regard.inputs.series.settings import LabeledSeriesSettings
from regard.inputs.series.times import Step
from regard.inputs.series.windows import Scaler, SeriesItem

ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".parquet")


class LabeledSeries(NamedTuple):
    name: str
    times: NDArray[np.float64]
    values: NDArray[np.float64]  # steps × columns
    label: str
    place: range | None = None  # the steps in which the label can be seen, where a corpus knows them

    def item(self, scaler: Scaler) -> SeriesItem:
        return SeriesItem(self.name, self.times, torch.from_numpy(scaler.scaled(self.values).astype(np.float32)))


@dataclass(frozen=True)
class LabeledTable:
    """All series of one part of the data."""

    where: str
    roles: Roles
    step: Step
    dates: bool
    series: tuple[LabeledSeries, ...]
    findings: tuple[Finding, ...] = ()
    counts: ReadReport = field(default_factory=ReadReport)


def location(settings: LabeledSeriesSettings, role: Role) -> str | None:
    """Where the settings say that series come from. A corpus of ours brings its own parts."""
    where = {"train": settings.train, "valid": settings.valid, "test": settings.test}[role]
    return settings.train if where is None and settings.train.startswith("corpus:") else where


def read_labeled(where: str, role: Role, settings: LabeledSeriesSettings, roles: Roles | None = None) -> LabeledTable:
    """`roles`: the parts that columns played in training."""
    if where.startswith("corpus:"):
        series = tuple(
            LabeledSeries(
                f"{where}#{number}", np.arange(len(one.values), dtype=np.float64), one.values, one.label, one.place
            )
            for number, one in enumerate(load_labeled_series(where, role))
        )
        columns = tuple(f"column {number + 1}" for number in range(series[0].values.shape[1]))
        roles = Roles(None, None, (), columns, ())
        return LabeledTable(where, roles, Step("number", 1.0), False, series, (), ReadReport(len(series)))
    folder = Path(where).expanduser()
    files = _class_files(folder, role) if folder.is_dir() else [folder]
    roles = roles or find_labeled_roles(files[0], settings, alone=folder.is_dir(), role=role)
    panels = [load_panel(file, roles, settings, role) for file in files]
    found = [
        LabeledSeries(str(file.relative_to(folder)), one.times, one.values, file.relative_to(folder).parts[0])
        if folder.is_dir()
        else LabeledSeries(one.name, one.times, one.values, one.label)
        for file, panel in zip(files, panels, strict=True) for one in panel.series
    ]  # fmt: skip
    counts = ReadReport()
    items = (one if one.label else Bad(where, 0, "empty", f"series {one.name!r} has no label") for one in found)
    labeled = tuple(counts.only_pairs(items))
    counts.refuse_if(where, settings.max_bad)
    step = Counter(panel.step for panel in panels).most_common(1)[0][0]
    findings = tuple(chain.from_iterable(panel.findings for panel in panels))
    return LabeledTable(where, roles, step, panels[0].dates, labeled, findings, counts)


def _class_files(folder: Path, role: Role) -> list[Path]:
    """All tables of the sub-folders, class by class, in the order of their names."""
    files = (path for path in sorted(folder.glob("*/**/*")) if path.is_file() and not path.name.startswith("."))
    found = [path for path in files if set(path.suffixes) & set(ENDINGS)]
    if not found:
        raise CallError(f"data.{role}={folder}: a folder needs a sub-folder for each class, with tables in it")
    return found


def with_held_out(train: LabeledTable, settings: LabeledSeriesSettings) -> tuple[LabeledTable, LabeledTable]:
    """(what is trained on, what is held out), by a hash of the series' names: its stretches stay together."""
    share = min(settings.valid_share, settings.valid_most / max(1, len(train.series)))
    held = [text_hash(one.name, b"held out") < share * 2**64 for one in train.series]
    if all(held) or not any(held):
        raise RegardError(
            f"{train.where}: data.valid_share={share:g} of {len(held)} series divides none; give data.valid"
        )
    kept, out = (
        tuple(one for one, is_out in zip(train.series, held, strict=True) if is_out == of) for of in (False, True)
    )
    return replace(train, series=kept), replace(train, series=out, findings=(), counts=ReadReport(len(out)))


def one_of_corpus(word: str) -> LabeledSeries:
    """corpus:NAME#7 is the seventh series, from 0, of the test part."""
    name, _, number = word.partition("#")
    series = load_labeled_series(name, "test")
    if not number.isdecimal() or int(number) >= len(series):
        raise CallError(f"{word}: say which one, {name}#0 to {name}#{len(series) - 1}")
    one = series[int(number)]
    return LabeledSeries(word, np.arange(len(one.values), dtype=np.float64), one.values, one.label, one.place)
