"""The user's files as a stream of examples: tables (TSV, CSV, JSONL, Parquet), CoNLL, two parallel text files,
folders of classes, data sets, our corpora.

    data.train=pairs.tsv.gz   data.train=train.en,train.de   data.train=corpus:pocket   data.train=hub:NAME

Nothing is held in memory but the rows at hand. A line that is no example becomes a `Bad` with its number and the
reason; what makes the whole file unusable (it is missing, it has no such column, it is UTF-16) is raised.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar

from regard.corpora import PREFIX
from regard.data.class_folders import has_classes, read_class_folders
from regard.data.columns import Wanted
from regard.data.conll import read_conll
from regard.data.formats import Cells, csv_rows, jsonl_cells, table_cells, tsv_rows, unreadable
from regard.data.pairs import Bad, Columns, Pair, pair_of
from regard.data.splits import places
from regard.data.tables import Role, corpora_version, dataset_cells, parquet_cells, read_corpus
from regard.errors import CallError
from regard.files.lines import read_lines

TABLES = {
    ".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
}  # fmt: skip
_CONLL = dict.fromkeys((".conll", ".conllu", ".iob", ".bio"), "conll")


@dataclass(frozen=True)
class FileSource:
    """Where examples are read from: what a string of the settings stands for."""

    endings: ClassVar[dict[str, str]] = TABLES  # of the formats that can be read

    where: str
    role: Role = "train"
    format: str = "auto"
    columns: Any = field(default_factory=Columns)  # Wanted

    @property
    def name(self) -> str:
        return f"data.{self.role}={self.where}"

    def files(self) -> list[Path]:
        """The files that are read; none for a corpus or a data set of the hub."""
        if self.where.startswith((PREFIX, "hub:")):
            return []
        whole = Path(self.where).expanduser()
        if whole.is_dir():
            return sorted(path for path in whole.rglob("*") if path.is_file())
        parts = [whole] if whole.exists() else [Path(part.strip()).expanduser() for part in self.where.split(",")]
        for part in parts:
            if not part.exists():
                raise CallError(f"{self.name}: there is no file {part}")
            if part.is_dir():
                raise CallError(f"{self.name}: {part} is a folder; name a file of it")
        return parts

    def depends_on(self) -> list[Any]:
        """The files and how they are read. A data set of the hub is taken not to change."""
        how = [repr(self)]
        if self.where.startswith(PREFIX):
            return [*how, corpora_version()]
        seen = ((path.resolve(), path.stat()) for path in self.files())
        return [*how, *([str(path), stat.st_size, stat.st_mtime_ns] for path, stat in seen)]

    def format_of(self, path: Path) -> str:
        if self.format != "auto":
            return self.format
        ending = Path(path.stem).suffix if path.suffix in (".gz", ".zst") else path.suffix
        if ending.lower() not in self.endings:
            raise CallError(
                f"{self.name}: the ending {ending!r} says no format; use one of "
                f"{', '.join(self.endings)} (also .gz, .zst), or set data.format"
            )
        return self.endings[ending.lower()]

    def cells(self, form: str, path: Path) -> Iterator[Cells | Bad]:
        """The columns that are sought, of a table in this format."""
        sought: Wanted = self.columns
        if form == "jsonl":
            return jsonl_cells(path, sought)
        if form == "parquet":
            return parquet_cells(path, sought)
        return table_cells(path, csv_rows(path) if form == "csv" else tsv_rows(path), sought)


@dataclass(frozen=True)
class PairSource(FileSource):
    """Where pairs are read from."""

    endings: ClassVar[dict[str, str]] = TABLES | {".json": "jsonl"} | _CONLL

    def read(self) -> Iterator[Pair | Bad]:
        """All pairs, in the order of the files, and whatever was none."""
        columns: Columns = self.columns
        if self.where.startswith(PREFIX):
            return read_corpus(self.where, self.role, columns)
        folder = Path(self.where).expanduser()
        if columns.folders and self.format != "dataset" and has_classes(folder):
            return read_class_folders(folder, self.name, columns)
        if self.where.startswith("hub:") or self.format == "dataset" or folder.is_dir():
            return _pairs(dataset_cells(self.where, self.role, columns), columns)
        files = self.files()
        if len(files) == 2:
            return read_parallel(files[0], files[1], columns)
        if len(files) > 2:
            raise CallError(f"{self.name}: takes one file of pairs or two parallel files")
        form = self.format_of(files[0])
        if form == "text":
            raise CallError(f"{self.name}: text files come in two, data.{self.role}=SOURCE_FILE,TARGET_FILE")
        return read_conll(files[0], columns) if form == "conll" else _pairs(self.cells(form, files[0]), columns)


def _pairs(rows: Iterator[Cells | Bad], columns: Columns) -> Iterator[Pair | Bad]:
    for row in rows:
        if isinstance(row, Bad):
            yield row
        else:
            source, target = row.values
            yield pair_of(source, target, row.file, row.line, columns)


def read_parallel(source: Path, target: Path, columns: Columns) -> Iterator[Pair | Bad]:
    """Line i of one file belongs to line i of the other. Surplus lines of the longer one are reported as one `Bad`."""
    last = 0
    left, right = read_lines(source), read_lines(target)
    for one, other in zip_longest(left, right):
        if one is None or other is None:
            longer, shorter, rest = (source, target, left) if other is None else (target, source, right)
            surplus = 1 + sum(1 for _ in rest)
            reason = f"{longer} has {last + surplus:,} lines, {shorter} has {last:,}: lines do not pair up"
            yield Bad(str(longer), last + 1, "unpaired", reason, lines=surplus)
            return
        last = one.number
        spoiled = (source, one) if one.problem else (target, other)
        if spoiled[1].problem:
            yield unreadable(*spoiled)
        else:
            yield pair_of(one.text, other.text, str(source), last, columns)


def pair_sources(settings: Any) -> dict[Role, PairSource]:
    """Where a data section says that the pairs of each role are."""
    return {
        role: PairSource(where, role, settings.format, settings.columns) for role, where in places(settings).items()
    }
