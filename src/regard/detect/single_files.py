"""Detection in one file, or two parallel files: tables, SQuAD, a word a line, plain text, arrays of pictures."""

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data.conll import find_layout, is_conll, read_conll
from regard.data.formats import is_number_table, is_tab_table
from regard.data.pairs import Columns, Pair
from regard.data.tables import Role
from regard.detect.detected import JSON_ENDINGS, Detected, Hints, are_chats, class_counts, first_three, of_documents
from regard.detect.listed import infer_task
from regard.detect.tables import MOST, read_table, sampled
from regard.errors import CallError
from regard.files.hub import is_pickle
from regard.files.lines import BROKEN, LONGEST_LINE, ending, files_of, open_bytes, raw_lines, read_lines
from regard.inputs.image.arrays import is_arrays, load_arrays, of_role, roles_of
from regard.inputs.series.archive import is_series_array

CONLL = (".conll", ".conllu", ".iob", ".bio")
_TABLES = (".csv", ".tsv", ".tab")
_SURE = (".csv", ".json", ".jsonl", ".ndjson", ".tmx")  # formats without lines of words and tags
_TEXT = "save what is in it as text first: a table as .csv, a document as .txt"
PICKLE = (
    "is a pickle of Python, which can run code when it is opened, and is not read: open it with its own program, and "
    "save arrays (numpy.savez) or a table; datasets such as CIFAR have a binary version, too"
)
_ARRAYS = "save its arrays with numpy.savez, or a table as .csv"
#: First bytes of binary files, and what to do with them; any other file with a zero byte is binary, too.
_BINARY = {
    b"PK\x03\x04": f"is a workbook or a document of an office program, or a .zip; {_TEXT}",
    b"\xd0\xcf\x11\xe0": f"is a workbook or a document of an office program; {_TEXT}",
    b"%PDF": f"is a PDF; {_TEXT}",
    b"\x7fELF": "is a program",
    b"\x89HDF": f"is HDF5 (.h5, MATLAB 7.3); {_ARRAYS}",
    b"MATLAB": f"is a file of MATLAB; {_ARRAYS}",
    b"ARROW1": "is an Arrow or Feather file; save it as Parquet: pandas.read_feather(FILE).to_parquet(NEW)",
    b"SQLite": "is a database of SQLite; save one of its tables as .csv",
}
_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16, which `read_lines` reports


def of_file(path: Path, hints: Hints) -> Detected:
    suffix, first = ending(path), files_of(path)[0]
    if is_arrays(path) and not is_series_array(path):
        return of_arrays(path)
    if suffix == ".json" and _is_squad(first):
        return _squad(path)
    if suffix in CONLL:
        return _conll(path, hints)
    if suffix not in (".parquet", ".arrow", ".npy", ".npz"):
        _require_text(first)
        if suffix not in _SURE and is_conll(first):
            return _conll(path, hints)
        if suffix in JSON_ENDINGS and hints.may_be_plain and are_chats(first):
            return of_documents(path)
        if hints.said == {"text"} and suffix not in _TABLES and is_number_table(first):
            return _plain_text(path)
    table = read_table(path)
    return _plain_text(path) if table is None else infer_task(table, hints)


def start_of(path: Path) -> bytes:
    with open_bytes(path) as file:
        return file.read(4096)


def _require_text(path: Path) -> None:
    start = start_of(path)
    if is_pickle(start) or (start.startswith(b"PK") and b"/data.pkl" in start):  # torch.save writes a .zip
        raise CallError(f"{path}: {PICKLE}")
    for first, told in _BINARY.items():
        if start.startswith(first):
            raise CallError(f"{path}: {told}")
    if b"\0" in start and not start.startswith(_MARKS):
        raise CallError(f"{path}: is not text or any format that regard reads; {_TEXT}")


def first_lines(path: Path, most: int = MOST) -> list[str]:
    found = [line.text for line in islice(read_lines(path), most) if not line.problem]
    if not found and len(start := next(raw_lines(path), b"")) == LONGEST_LINE:  # a whole book may be one line
        found = [start[: 1 << 16].decode(errors="ignore").partition("\ufffd")[0]]
    return found


def _line_count(path: Path) -> int:
    return sum(1 for _ in read_lines(path))


def holds_rows(path: Path) -> bool:
    """Return whether a text file holds a table or words with tags, not plain text."""
    return is_conll(path) or is_tab_table(path) or is_number_table(path)


def of_parallel(files: Mapping[Role, tuple[Path, Path]], *, guessed: bool = False) -> Detected:
    source, target = files["train"]
    inputs, targets = first_lines(source), first_lines(target)
    data: dict[str, Any] = {role: f"{one},{other}" for role, (one, other) in files.items()}
    belief = f"two parallel files: line i of {source.name} belongs to line i of {target.name}"
    doubt = f"the other way round would be {target},{source}" if guessed else ""
    counts = _line_count(source), _line_count(target)
    if counts[0] != counts[1]:
        raise CallError(
            f"{source} has {counts[0]:,} lines and {target} {counts[1]:,}: in parallel files, line i of one belongs to "
            "line i of the other. Add the lines that are missing, or remove those without a partner"
        )
    shown = first_three(inputs, targets)
    return Detected(("text", "text"), data, counts[0], inputs, targets, [belief], shown, doubt)


def _is_squad(path: Path) -> bool:
    with open_bytes(path) as file:
        start = file.read(4000).decode(errors="replace")
    return '"paragraphs"' in start or ('"data"' in start and '"title"' in start)


def _json(path: Path) -> Any:
    with open_bytes(path) as file:
        return json.loads(file.read())


def _squad(path: Path) -> Detected:
    try:
        articles = [article for file in files_of(path) for article in _json(file)["data"]]
        asked = [
            (one["question"], paragraph["context"], one["answers"][0]["text"] if one["answers"] else "")
            for article in articles for paragraph in article["paragraphs"] for one in paragraph["qas"]
        ]  # fmt: skip
    except (ValueError, KeyError, TypeError, RecursionError, *BROKEN) as problem:
        raise CallError(f"{path}: looks like SQuAD, and cannot be read as such ({problem!r})") from None
    data: dict[str, Any] = {"train": str(path)}
    beliefs = ["questions with documents, in the form of SQuAD"]
    if any(not answer for *_, answer in asked):
        data["no_answer"] = True
        beliefs.append("some questions have no answer in their document")
    some = asked[:: max(1, len(asked) // MOST)]
    inputs, targets = [(question, document) for question, document, _ in some], [answer for *_, answer in some]
    shown = first_three([question for question, *_ in some], targets)
    return Detected(("question", "span"), data, len(asked), inputs, targets, beliefs, shown)


def _conll(path: Path, hints: Hints) -> Detected:
    columns = Columns({"words": None, "tags": None}, one_to_one=True, conll=(
        hints.data.get("word_column"), hints.data.get("tag_column"),
    ))  # fmt: skip
    files = files_of(path)
    some, count = sampled(one for file in files for one in read_conll(file, columns) if isinstance(one, Pair))
    if not some:
        raise CallError(f"{path}: no line has a word and a tag")
    inputs, targets = [one.source for one in some], [one.target for one in some]
    data = {"train": str(path), "format": "conll"}
    belief = str(find_layout(files[0], columns))
    return Detected(("text", "tags"), data, count, inputs, targets, [belief], first_three(inputs, targets))


def _plain_text(path: Path) -> Detected:
    files = files_of(path)
    return of_texts(files, str(path), sum(file.stat().st_size for file in files))


def of_texts(files: Sequence[Path], where: str, size: int) -> Detected:
    lines = [line for file in files[:20] for line in first_lines(file, max(50, MOST // len(files[:20])))]
    filled = [line for line in lines if line.strip()]
    if not filled:
        bad = next((line for file in files for line in islice(read_lines(file), MOST) if line.problem), None)
        advice = "; convert it to UTF-8: iconv -f LATIN1 -t UTF-8 FILE > NEW (or from its actual encoding)"
        why = f": line {bad.number}: {bad.problem}{advice if bad.kind == 'encoding' else ''}" if bad else ""
        raise CallError(f"{where}: {f'contains no readable text{why}' if size else 'is empty'}")
    named = f"{len(files):,} text file{'s' if len(files) != 1 else ''}, {size / 1e6:.3g} MB, to be continued"
    ended = sum(line.rstrip()[-1:] in ".!?…。！？\"'”’)" for line in filled) / len(filled)
    alone = len(filled) == len(lines) and ended > 0.8  # every line is whole, and none is blank
    data = {"train": where, "documents": "line" if alone and len(files) == 1 else "file"}
    beliefs = [named, *(["every line is one sentence"] if data["documents"] == "line" else [])]
    return Detected(("nothing", "text"), data, size, filled, [], beliefs, [(line, "") for line in filled[:3]])


def of_arrays(path: Path) -> Detected:
    """Detect pictures with labels in a file or a folder of arrays."""
    arrays = load_arrays(path)
    images, labels, names = of_role(arrays, "train", str(path))
    if names is not None and not all(0 <= int(label) < len(names) for label in labels):
        raise CallError(f"{path}: a label is not one of the {len(names)} classes")
    some = range(0, len(images), max(1, len(images) // MOST))
    called = [str(label) if names is None else names[int(label)] for label in labels]
    targets = [called[row] for row in some]
    facts = [(int(images.shape[1]), int(images.shape[2]), images.ndim == 4 and images.shape[3] >= 3)]
    beliefs = [f"arrays of pictures of {images.shape[1]}×{images.shape[2]} pixels with labels", class_counts(called)]
    shown = [(f"{path.name}#{row}", target) for row, target in zip(some, targets, strict=True)][:3]
    data: dict[str, Any] = {"kind": "image", "train": str(path)}
    data |= {role: str(path) for role in roles_of(arrays) if role != "train"}
    return Detected(("image", "label"), data, len(images), facts, targets, beliefs, shown)
