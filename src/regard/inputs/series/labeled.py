"""Labeled series from files, as examples.

data.train=table.csv     lines of all series: one column identifies the series, another one has its label
data.train=folder/       folder/walking/1.csv, folder/running/2.csv, ...: a table is a series, its folder the label
data.train=corpus:NAME   a packaged corpus, which also knows where in a series its label can be seen
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.corpora import PREFIX
from regard.data.check import Listing
from regard.data.examples import Example
from regard.data.pairs import ReadCounts, ReadReport, SkippedLine
from regard.data.prepare import part_of
from regard.data.tables import Role
from regard.data.vocabulary import Vocabulary
from regard.errors import CallError, RegardError
from regard.inputs.column import ListedExamples, ReadColumn
from regard.inputs.media_files import members
from regard.inputs.series.item import Scaler, SeriesItem, of_corpus
from regard.inputs.series.panel import Panel, Series, load_panel
from regard.inputs.series.settings import LabeledSeriesSettings
from regard.inputs.series.table import Roles, find_roles
from regard.inputs.series.times import Step

ENDINGS = {".csv", ".tsv", ".tab", ".txt", ".parquet"}


class LabeledSplit(NamedTuple):
    """All series of one part of the data."""

    roles: Roles
    panel: Panel
    counts: ReadReport


def read_labeled(where: str, role: Role, settings: LabeledSeriesSettings, roles: Roles | None = None) -> LabeledSplit:
    """Read the series. `roles`: roles of the columns in training."""
    if where.startswith(PREFIX):
        series = tuple(of_corpus(where, role))
        columns = tuple(f"column {number + 1}" for number in range(series[0].values.shape[1]))
        panel = Panel(where, False, Step("number", 1.0), series)
        return LabeledSplit(Roles(None, None, (), columns, ()), panel, ReadReport(len(series)))
    folder = Path(where).expanduser()
    files = _class_files(folder, role) if folder.is_dir() else [folder]
    roles = roles or find_roles(files[0], settings, f"data.{role}=", alone=folder.is_dir())
    panels = [load_panel(file, roles, settings, role) for file in files]
    found = [one for panel in panels for one in panel.series]
    if folder.is_dir():
        inside = (file.relative_to(folder) for file, panel in zip(files, panels, strict=True) for _ in panel.series)
        found = [replace(one, name=str(at), label=at.parts[0]) for one, at in zip(found, inside, strict=True)]
    counts = ReadReport()
    items = (one if one.label else SkippedLine(where, 0, "empty", f"series {one.name!r} has no label") for one in found)
    labeled = tuple(counts.only_pairs(items))
    counts.refuse_if(where, settings.max_bad)
    step = Counter(panel.step for panel in panels).most_common(1)[0][0]
    findings = tuple(chain.from_iterable(panel.findings for panel in panels))
    return LabeledSplit(roles, Panel(where, panels[0].dates, step, labeled, findings), counts)


def _class_files(folder: Path, role: Role) -> list[Path]:
    """Return all tables of the sub-folders, class by class, sorted by name."""
    found = [folder / name for name in members(folder) if "/" in name and set(Path(name).suffixes) & ENDINGS]
    if not found:
        raise CallError(f"data.{role}={folder}: a folder needs a sub-folder for each class, with tables in it")
    return found


def held_out(train: LabeledSplit, settings: LabeledSeriesSettings, roles: Collection[Role]) -> dict[Role, LabeledSplit]:
    """Split training series and those held out for `roles`, by series name: stretches of one series stay together."""
    series, where = train.panel.series, train.panel.where
    testing = settings.test_share if "test" in roles else 0.0
    share = min(settings.valid_share, settings.valid_most / max(1, len(series))) if "valid" in roles else 0.0
    parts: dict[str, list[Series]] = {}
    for one in series:
        parts.setdefault(part_of(one.name, share, testing), []).append(one)
    kept, valid, test = parts.get("kept", []), parts.get("held out", []), parts.get("test", [])
    if not kept or (share and not valid):
        raise RegardError(f"{where}: data.valid_share={share:g} of {len(series)} series holds out none; set data.valid")
    found: dict[Role, LabeledSplit] = {"train": train._replace(panel=replace(train.panel, series=tuple(kept)))}
    others: dict[Role, list[Series]] = {"valid": valid, "test": test}
    for role, some in others.items():
        if some:
            panel = replace(train.panel, series=tuple(some), findings=())
            found[role] = LabeledSplit(train.roles, panel, ReadReport(len(some)))
    return found


class SeriesExamples(ListedExamples):
    """Examples in memory, scaled: series are small compared with other inputs."""

    def __init__(self, split: LabeledSplit, scaler: Scaler, vocabulary: Vocabulary, input: Any) -> None:
        examples = [Example(SeriesItem.of(one, scaler), (one.label,), one.place) for one in split.panel.series]
        self.items = {str(number): example.input for number, example in enumerate(examples)}
        column = ReadColumn(self.items, input.read, input.length, input.collate)
        super().__init__(split.panel.where, column, examples, vocabulary)
        self.split, self.counts = split, split.counts
        self.unknown = np.array([row for row, one in enumerate(self.ids) if vocabulary.specials.unk in one], np.int64)

    def digest(self) -> str:
        seen = blake2b(digest_size=10)
        for item, ids in zip(self.items.values(), self.ids, strict=True):
            seen.update(b"%d " % len(item.numbers) + item.numbers.tobytes() + ids.astype(np.int64).tobytes())
        return seen.hexdigest()

    def listing(self) -> Listing:
        """Return the data for the data check."""
        lines, names = np.zeros(len(self), np.int64), [one.name for one in self.split.panel.series]
        return Listing(self.name, ReadCounts(self.counts, self.sides()), lines, names=names)
