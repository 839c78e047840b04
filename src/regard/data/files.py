"""The user's files as a stream of pairs: TSV, CSV, JSONL, Parquet, CoNLL, two parallel text files,
folders of classes, data sets, our corpora.

    data.train=pairs.tsv.gz   data.train=train.en,train.de   data.train=corpus:pocket   data.train=hub:NAME

Nothing is held in memory but the line at hand. A line that is no pair becomes a `Bad` with its number and the reason;
what makes the whole file unusable (it is missing, it has no such column, it is UTF-16) is raised.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.class_folders import has_classes, read_class_folders
from regard.data.conll import read_conll
from regard.data.formats import read_csv, read_pairs_jsonl, read_parallel, read_tsv
from regard.data.pairs import Bad, Columns, Pair
from regard.data.settings import FileFormat
from regard.data.splits import places
from regard.data.tables import Role, corpora_version, read_corpus, read_dataset, read_parquet
from regard.errors import CallError

_ENDINGS: dict[str, FileFormat] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".conll": "conll",
    ".conllu": "conll",
    ".iob": "conll",
    ".bio": "conll",
}


@dataclass(frozen=True)
class PairSource:
    """Where pairs are read from, and how; what a string of the settings stands for."""

    where: str
    role: Role = "train"
    format: FileFormat = "auto"
    columns: Columns = field(default_factory=Columns)

    def files(self) -> list[Path]:
        """The files that are read; none for a corpus or a data set of the hub."""
        if self.where.startswith(("corpus:", "hub:")):
            return []
        whole = Path(self.where).expanduser()
        if whole.is_dir():
            return sorted(path for path in whole.rglob("*") if path.is_file())
        parts = [whole] if whole.exists() else [Path(part.strip()).expanduser() for part in self.where.split(",")]
        for part in parts:
            if not part.exists():
                raise CallError(f"data.{self.role}={self.where}: there is no file {part}")
            if part.is_dir():
                raise CallError(f"data.{self.role}={self.where}: {part} is a folder; name a file of it")
        return parts

    def depends_on(self) -> list[Any]:
        """What the pairs depend on: the files and how they are read. A data set of the hub is taken not to change."""
        columns = self.columns
        how = [self.where, self.role, self.format, columns.source, columns.target, columns.header]
        how += [repr(columns.target_text), columns.conll]
        if self.where.startswith("corpus:"):
            return [*how, corpora_version()]
        seen = ((path.resolve(), path.stat()) for path in self.files())
        return [*how, *([str(path), stat.st_size, stat.st_mtime_ns] for path, stat in seen)]

    def read(self) -> Iterator[Pair | Bad]:
        """All pairs, in the order of the files, and whatever was none."""
        if self.where.startswith("corpus:"):
            return read_corpus(self.where, self.role, self.columns)
        folder = Path(self.where).expanduser()
        if self.columns.folders and self.format != "dataset" and has_classes(folder):
            return read_class_folders(folder, f"data.{self.role}={self.where}", self.columns)
        if self.where.startswith("hub:") or self.format == "dataset" or folder.is_dir():
            return read_dataset(self.where, self.role, self.columns)
        files = self.files()
        if len(files) == 2:
            return read_parallel(files[0], files[1], self.columns)
        if len(files) > 2:
            raise CallError(f"data.{self.role}={self.where}: takes one file of pairs or two parallel files")
        form = self._format_of(files[0])
        if form == "tsv":
            return read_tsv(files[0], self.columns)
        if form == "csv":
            return read_csv(files[0], self.columns)
        if form == "jsonl":
            return read_pairs_jsonl(files[0], self.columns)
        if form == "parquet":
            return read_parquet(files[0], self.columns)
        if form == "conll":
            return read_conll(files[0], self.columns)
        raise CallError(
            f"data.{self.role}={self.where}: text files come in two, data.{self.role}=SOURCE_FILE,TARGET_FILE"
        )

    def _format_of(self, path: Path) -> FileFormat:
        if self.format != "auto":
            return self.format
        ending = Path(path.stem).suffix if path.suffix in (".gz", ".zst") else path.suffix
        if ending.lower() not in _ENDINGS:
            raise CallError(
                f"data.{self.role}={self.where}: the ending {ending!r} says no format; use one of "
                f"{', '.join(_ENDINGS)} (also .gz, .zst), set data.format, or give two parallel files FILE,FILE"
            )
        return _ENDINGS[ending.lower()]


def pair_sources(settings: Any) -> dict[Role, PairSource]:
    """Where a data section says that the pairs of each role are."""
    return {
        role: PairSource(where, role, settings.format, settings.columns) for role, where in places(settings).items()
    }
