"""Read the user's files as a stream of examples: tables (TSV, CSV, JSON, Parquet, TMX), CoNLL, two parallel text files,
folders of classes, datasets, embedded corpora.

    data.train=pairs.tsv.gz   data.train=train.en,train.de   data.train=corpus:pocket   data.train=hub:NAME
    data.train='pairs-?????-of-00003.jsonl'

Only the current rows are in memory. An invalid line becomes a `SkippedLine` with its number and the reason. A file
that is
unusable as a whole (missing, without the column, UTF-16) raises an error.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from regard.corpora import PREFIX
from regard.data.columns import are_names
from regard.data.conll import is_conll, read_conll
from regard.data.formats import (
    Cells,
    TableRow,
    csv_rows,
    is_tab_table,
    jsonl_cells,
    record_cells,
    table_cells,
    tsv_rows,
    unreadable,
)
from regard.data.pairs import PLAIN, Columns, Pair, SkippedLine, both_texts, pair_of
from regard.data.settings import FilesSettings
from regard.data.tables import (
    SPLIT_NAMES,
    Role,
    corpora_version,
    dataset_cells,
    parquet_records,
    read_corpus,
    tmx_records,
    workbook_rows,
)
from regard.errors import CallError
from regard.files.lines import PACKED, ending, estimate_lines, files_of, is_pattern, read_lines

# Texts in folders: a sub-folder for each class, with one text per file.
#
# reviews/good/1.txt   reviews/good/2.txt   reviews/bad/1.txt

_DATASET = ("state.json", "dataset_dict.json")  # files of a folder that the `datasets` library wrote


def has_classes(folder: Path) -> bool:
    """Return whether a path is a folder that the `datasets` library did not write."""
    return folder.is_dir() and not any((folder / mark).exists() for mark in _DATASET)


def read_class_folders(folder: Path, name: str, columns: Columns) -> Iterator[Pair | SkippedLine]:
    """Yield texts class by class, in the order of names. Hidden files and classes with an empty name are left out."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    found = [path for path in files if len(path.relative_to(folder).parts) > 1]
    if not found:
        raise CallError(f"{name}: a folder needs a sub-folder for each class, with files in it")
    for file in found:
        label = file.relative_to(folder).parts[0]
        if columns.target_text is not None and not columns.target_text(label):
            continue
        if ending(file) not in ("", ".txt"):
            yield SkippedLine(str(file), 1, "unreadable", f"a folder of classes holds .txt files, not {file.suffix!r}")
            continue
        lines = list(read_lines(file))
        spoiled = next((line for line in lines if line.problem), None)
        if spoiled is not None:
            yield SkippedLine(str(file), spoiled.number, spoiled.kind, spoiled.problem)
            continue
        yield pair_of("\n".join(line.text for line in lines), label, str(file), 1, columns)


TABLES = {
    ".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
    ".arrow": "parquet", ".tmx": "tmx", ".xlsx": "xlsx",
}  # fmt: skip
_SURE = (".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".tmx")  # formats without lines of words and tags
_CONLL = dict.fromkeys((".conll", ".conllu", ".iob", ".bio"), "conll")


class Read(Protocol):
    """One example of a file."""

    @property
    def key(self) -> str:
        """Return what must not be both in training and in validation."""
        ...


T_co = TypeVar("T_co", bound=Read, covariant=True)


@dataclass(frozen=True)
class FileSource(ABC, Generic[T_co]):
    """The place of examples that a string of the settings names."""

    endings: ClassVar[dict[str, str]] = TABLES  # of readable formats

    where: str
    role: Role = "train"
    columns: Columns = PLAIN
    format: str = "auto"

    @classmethod
    def of(cls, settings: Any, where: str, role: Role) -> Any:
        """Return the source at `where` with the settings of a data section."""
        return cls(where, role, settings.columns, settings.format)

    @classmethod
    def by_role(cls, settings: Any) -> dict[Role, Any]:
        """Return the sources of a data section by role."""
        return {role: cls.of(settings, where, role) for role, where in places(settings).items()}

    @abstractmethod
    def read(self) -> Iterator[T_co | SkippedLine]:
        """Yield all examples in the order of the files, and a `SkippedLine` for each invalid line."""

    @property
    def name(self) -> str:
        return f"data.{self.role}={self.where}"

    def paths(self) -> list[Path]:
        """Return the files that are read; none for a corpus or a dataset of the hub."""
        if self.where.startswith((PREFIX, "hub:")):
            return []
        whole = Path(self.where).expanduser()
        if whole.is_dir():
            return sorted(path for path in whole.rglob("*") if path.is_file())
        if is_pattern(whole):
            return self.shards
        parts = [whole] if whole.exists() else [Path(part.strip()).expanduser() for part in self.where.split(",")]
        for part in parts:
            if not part.exists():
                raise CallError(f"{self.name}: no such file: {part}")
            if part.is_dir():
                raise CallError(f"{self.name}: {part} is a folder; name a file in it")
        return parts

    @property
    def shards(self) -> list[Path]:
        """Return the files of a pattern in order, or the only file."""
        found = files_of(self.where) if is_pattern(self.where) else [self.path]
        if not found:
            raise CallError(f"{self.name}: no file matches the pattern")
        return found

    @property
    def path(self) -> Path:
        """Return the only file."""
        path, *more = self.paths()
        if more:
            raise CallError(f"{self.name}: must be one file")
        return path

    def estimate_rows(self) -> int:
        """Return the approximate number of rows; 0 if unknown."""
        if self.where.startswith("hub:") or Path(self.where).expanduser().is_dir():
            return 0
        try:
            files = self.paths()
        except CallError:  # examples that lie in no file of this name; what is read reports a missing file
            return 0
        return estimate_lines(files if is_pattern(self.where) else files[:1])  # parallel files: one

    def depends_on(self) -> list[Any]:
        """Return the cache key of the examples: the files (name, size, modification time) and how they are read. A
        dataset of the hub is assumed not to change."""
        how = [repr(self)]
        if self.where.startswith(PREFIX):
            return [*how, corpora_version()]
        seen = ((path.resolve(), path.stat()) for path in self.paths())
        return [*how, *([str(path), stat.st_size, stat.st_mtime_ns] for path, stat in seen)]

    def format_of(self, path: Path) -> str:
        if self.format != "auto":
            return self.format
        suffix = ending(path)
        if self.columns.one_to_one and suffix not in _SURE and is_conll(path):
            return "conll"
        if suffix not in self.endings and is_tab_table(path):
            return "tsv"
        if suffix not in self.endings:
            raise CallError(
                f"{self.name}: unknown format: {suffix!r}; use one of "
                f"{', '.join(self.endings)} (also {', '.join(PACKED)}), or set data.format"
            )
        return self.endings[suffix]

    def cells(self, path: Path | None = None) -> Iterator[Cells | SkippedLine]:
        """Yield the requested cells of a table or a dataset; where a column names the split, only of this one."""
        form = "dataset" if path is None else self.format_of(path)
        if path is None:
            rows = dataset_cells(self.where, self.role, self.columns)
        elif form == "jsonl":
            rows = jsonl_cells(path, self.columns)
        elif form == "parquet":
            rows = record_cells(str(path), enumerate(parquet_records(path), start=1), self.columns)
        elif form == "tmx":
            rows = record_cells(str(path), enumerate(tmx_records(path), start=1), self.columns)
        elif form == "xlsx":
            rows = self._table(path, workbook_rows(path))
        else:
            rows = self._table(path, csv_rows(path) if form == "csv" else tsv_rows(path))
        return rows if self.columns.split is None else self._of_split(rows)

    def _table(self, path: Path, rows: Iterator[TableRow]) -> Iterator[Cells | SkippedLine]:
        """Yield the cells of a table. A validation or test table may differ from that of training by a header."""
        if self.role != "train" and self.columns.header is False:
            first = next(rows, None)
            if first is not None and are_names(first.fields):
                raise CallError(
                    f"{self.name}: the first line names columns ({', '.join(first.fields)}), and the training data has "
                    "no such line (data.header=false). Remove the line if the columns are the same, "
                    "else write a table of the columns of the training data"
                )
            rows = chain(() if first is None else (first,), rows)
        return table_cells(path, rows, self.columns)

    def _of_split(self, rows: Iterator[Cells | SkippedLine]) -> Iterator[Cells | SkippedLine]:
        seen, wanted = set[str](), SPLIT_NAMES[self.role]
        for row in rows:
            if isinstance(row, SkippedLine):
                yield row
                continue
            *values, split = row.values
            seen.add(said := str(split).strip().lower())
            if said in wanted:
                yield row._replace(values=tuple(values))
        if seen.isdisjoint(wanted):
            has = ", ".join(sorted(seen)[:6]) or "nothing"
            raise CallError(f"data.split={self.columns.split}: no line of {self.where} has {wanted[0]!r}; it has {has}")


def places(settings: Any) -> dict[Role, str]:
    """Return where the settings place the examples of each role. An embedded corpus has all three, and some files have
    more than the role they are given for."""
    given: dict[Role, str | None] = {"train": settings.train, "valid": settings.valid, "test": settings.test}
    brings = settings.brings if isinstance(settings, FilesSettings) else ()
    own = given.keys() if settings.train.startswith(PREFIX) else brings
    return {role: where or settings.train for role, where in given.items() if where is not None or role in own}


@dataclass(frozen=True)
class PairSource(FileSource[Pair]):
    """A source of pairs."""

    endings: ClassVar[dict[str, str]] = TABLES | {".json": "jsonl"} | _CONLL

    def read(self) -> Iterator[Pair | SkippedLine]:
        columns: Columns = self.columns
        if self.where.startswith(PREFIX):
            return read_corpus(self.where, self.role, columns)
        folder = Path(self.where).expanduser()
        if columns.folders and self.format != "dataset" and has_classes(folder):
            return read_class_folders(folder, self.name, columns)
        if self.where.startswith("hub:") or self.format == "dataset" or folder.is_dir():
            return _pairs(self.cells(), columns)
        files = self.paths()
        if is_pattern(self.where):
            return chain.from_iterable(map(self._pairs_of, files))
        if len(files) == 2:
            return read_parallel(files[0], files[1], columns)
        if len(files) > 2:
            raise CallError(f"{self.name}: must be one file of pairs or two parallel files")
        return self._pairs_of(files[0])

    def _pairs_of(self, file: Path) -> Iterator[Pair | SkippedLine]:
        form = self.format_of(file)
        if form == "text":
            raise CallError(f"{self.name}: parallel text needs two files, data.{self.role}=SOURCE_FILE,TARGET_FILE")
        return read_conll(file, self.columns) if form == "conll" else _pairs(self.cells(file), self.columns)


def _pairs(rows: Iterator[Cells | SkippedLine], columns: Columns) -> Iterator[Pair | SkippedLine]:
    for row in rows:
        if isinstance(row, SkippedLine):
            yield row
        else:
            *sources, target = row.values
            source = sources[0]
            if len(sources) == 2:
                source = both_texts(source, sources[1], row.file, row.line, columns)
            yield source if isinstance(source, SkippedLine) else pair_of(source, target, row.file, row.line, columns)


def read_parallel(source: Path, target: Path, columns: Columns) -> Iterator[Pair | SkippedLine]:
    """Yield line i of both files as a pair. Surplus lines of the longer one are reported as one `SkippedLine`."""
    last = 0
    left, right = read_lines(source), read_lines(target)
    for one, other in zip_longest(left, right):
        if one is None or other is None:
            longer, shorter, rest = (source, target, left) if other is None else (target, source, right)
            surplus = 1 + sum(1 for _ in rest)
            reason = f"{longer} has {last + surplus:,} lines, {shorter} has {last:,}: lines do not pair up"
            yield SkippedLine(str(longer), last + 1, "unpaired", reason, lines=surplus)
            return
        last = one.number
        spoiled = (source, one) if one.problem else (target, other)
        if spoiled[1].problem:
            yield unreadable(*spoiled)
        else:
            yield pair_of(one.text, other.text, str(source), last, columns)
