"""The user's labeled texts as a stream of pairs of text and label: tables, data sets, our corpora, and folders.

    data.train=reviews.tsv   data.train=reviews/   (reviews/good/1.txt, reviews/bad/2.txt, ...)

A folder has a sub-folder for each class; every text file below it is one text.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.files import PairSource
from regard.data.pairs import Bad, Columns, Pair, pair_of
from regard.data.tables import Role
from regard.errors import CallError
from regard.files.lines import read_lines
from regard.outputs.labels.classify_settings import LabelSettings, TextSettings
from regard.outputs.labels.labels import Writing

SIDES = ("text", "label")
_DATASET = ("state.json", "dataset_dict.json")  # what the `datasets` library leaves in a folder it wrote


@dataclass(frozen=True)
class LabeledSource(PairSource):
    """Where labeled texts are read from, and how; `writing` is how their labels are written."""

    writing: Writing = field(default_factory=Writing)

    def depends_on(self) -> list[Any]:
        return [*super().depends_on(), self.writing.separator, self.writing.names]

    def read(self) -> Iterator[Pair | Bad]:
        folder = Path(self.where).expanduser()
        if self.format != "dataset" and folder.is_dir() and not any((folder / mark).exists() for mark in _DATASET):
            return self._files(folder)
        return super().read()

    def _files(self, folder: Path) -> Iterator[Pair | Bad]:
        for file in class_files(folder, self.role):
            if not file.name.lower().removesuffix(".gz").removesuffix(".zst").endswith(".txt"):
                yield Bad(str(file), 1, "unreadable", f"a folder of classes holds .txt files, not {file.suffix!r}")
                continue
            lines = list(read_lines(file))
            spoiled = next((line for line in lines if line.problem), None)
            if spoiled is not None:
                yield Bad(str(file), spoiled.number, spoiled.kind, spoiled.problem)
                continue
            label = file.relative_to(folder).parts[0]
            yield pair_of("\n".join(line.text for line in lines), label, str(file), 1, self.columns)


def class_files(folder: Path, role: Role) -> list[Path]:
    """All files of the sub-folders, class by class, in the order of their names; hidden ones are left out."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    found = [path for path in files if len(path.relative_to(folder).parts) > 1]
    if not found:
        raise CallError(f"data.{role}={folder}: a folder needs a sub-folder for each class, with files in it")
    return found


def labeled_source(settings: TextSettings, role: Role) -> LabeledSource | None:
    """Where the settings say that examples come from. A corpus of ours brings its own validation and test part."""
    where = location(settings, role)
    writing = Writing.of(settings)
    columns = Columns(settings.text, settings.label, settings.header, SIDES, writing.text)
    return None if where is None else LabeledSource(where, role, settings.format, columns, writing)


def location(settings: LabelSettings, role: Role) -> str | None:
    where = {"train": settings.train, "valid": settings.valid, "test": settings.test}[role]
    return settings.train if where is None and settings.train.startswith("corpus:") else where
