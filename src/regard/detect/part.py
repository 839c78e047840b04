"""Sample a part of data that is too large for the time limit, and write it into the run's folder in the form of the
data.

a table, JSON Lines, two parallel files     some of its records, and the first, which may name the columns
sentences with tags                         some of the sentences
plain text                                  some blocks of it
a table of numbers over time                the last steps; of many series, some of them as they are
a folder                                    links to some of its files, each with what has the same name
Parquet, TMX, a JSON document               some of its records, as JSON Lines
"""

import csv
import json
import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any

from regard.data.formats import csv_rows, is_document, json_rows
from regard.data.tables import parquet_records, tmx_records
from regard.detect.detected import Detected
from regard.detect.files import files_in
from regard.detect.tables import ending, read_table
from regard.files.lines import estimate_lines, files_of, is_pattern, open_bytes, raw_lines
from regard.inputs.image.arrays import choice, is_arrays, load_arrays, of_role
from regard.inputs.media_files import is_tar
from regard.inputs.prompt.files import text_files
from regard.inputs.series.archive import archive_rows, is_archive
from regard.work import showing_progress, with_progress

_JSON = (".json", ".jsonl", ".ndjson")
_BLOCKS = 32  # of a part of plain text, at least
_LARGEST_BLOCK = 1 << 18  # bytes
_LONGEST_RECORD = 1000  # lines of a quoted record; an unclosed quote ends after as many
FEW_SERIES = 20  # with fewer series, each is shortened


def cut(found: Detected, share: float, folder: Path) -> Detected | None:
    """Write about `share` of the training examples to `folder`, as data of the same kind. Return None if this form of
    data cannot be divided."""
    with showing_progress(_choosing(found.data["train"])):
        return _cut(found, share, folder)


def _cut(found: Detected, share: float, folder: Path) -> Detected | None:
    chance = Random(0)

    def keeps() -> bool:
        return chance.random() < share

    where = str(found.data["train"])
    path = Path(where).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    more: dict[str, Any] = {}
    if found.kinds[0] == "nothing":
        train, count = _text(where, folder, keeps, share * found.count)
    elif not path.exists() and not is_pattern(path):
        if len(files := [Path(part.strip()).expanduser() for part in where.split(",")]) != 2:
            return None
        train, count = _parallel(files, folder, keeps, found.count)
    elif found.kinds == ("image", "label") and is_arrays(path):
        train, count = _arrays(path, folder, keeps)
    elif path.is_dir():
        train, count = _links(path, folder, keeps, found)
    elif is_tar(path):
        return None
    elif found.kinds[0] == "series":
        train, count = _series(path, folder, found, share, keeps)
    elif ending(path) == ".json" and found.kinds == ("question", "span") and "question" not in found.data:
        train, count = _squad(path, folder, keeps)
    elif ending(path) in (".parquet", ".arrow", ".tmx") or (ending(path) in _JSON and is_document(files_of(path)[0])):
        train, count = _objects(path, folder, keeps, found.count)
        more = {"format": "auto"} if "format" in found.data else {}
    else:
        units = with_progress(_units(path, found), _choosing(path), total=found.count)
        train, count = _choose_units(units, _plain_name(files_of(path)[0], folder), keeps)
    if "split" in found.data:  # one list has all parts: the other parts stay whole
        more |= {role: where for role in ("valid", "test") if role not in found.data}
    if found.kinds[0] in ("image", "sound", "image+text") and path.is_file() and not is_arrays(path):
        more |= {"files": found.data.get("files", str(path.parent))}
    inputs = found.inputs
    if found.kinds == ("series", "values"):
        facts = inputs[0]
        series = round(share * facts.series) if facts.series >= FEW_SERIES else facts.series
        steps = facts.steps if facts.series >= FEW_SERIES else round(share * facts.steps)
        inputs = [replace(facts, series=max(1, series), steps=max(1, steps))]
    return replace(found, data={**found.data, **more, "train": train}, inputs=inputs, count=max(1, count))


def _choosing(path: Path | str) -> str:
    return f"choosing a part of {path}"


def _plain_name(path: Path, folder: Path) -> Path:
    """Return the name of a packed file without the ending of the packer."""
    return folder / (path.stem if path.suffix in (".gz", ".zst", ".bz2", ".xz") else path.name)


def _choose_units(units: Iterable[bytes], to: Path, keeps: Callable[[], bool]) -> tuple[str, int]:
    """Write the first unit and those that are kept."""
    count = 0
    with to.open("wb") as out:
        for number, unit in enumerate(units):
            if not number or keeps():
                out.write(unit if unit.endswith(b"\n") else unit + b"\n")
                count += 1
    return str(to), count


def _units(path: Path, found: Detected) -> Iterator[bytes]:
    """Yield the units of all files; the line that names the columns only once."""
    first = b""
    for file in files_of(path):
        units = _sentences(file) if found.kinds[1] == "tags" else _records(file, quotes=ending(file) == ".csv")
        start = next(units, b"")
        if start != first or not first:
            yield start
        first = first or start
        yield from units


def _records(path: Path, *, quotes: bool) -> Iterator[bytes]:
    """Yield lines; with `quotes`, the lines of one record together."""
    held: list[bytes] = []
    odd = False
    for line in raw_lines(path):
        odd ^= quotes and line.count(b'"') % 2 == 1
        held.append(line)
        if not odd or len(held) == _LONGEST_RECORD:
            yield b"".join(held)
            held, odd = [], False
    if held:
        yield b"".join(held)


def _sentences(path: Path) -> Iterator[bytes]:
    """Yield the blocks between blank lines, each followed by one."""
    held: list[bytes] = []
    for line in chain(raw_lines(path), [b""]):
        if line.strip():
            held.append(line)
        elif held:
            yield b"".join([*held, b"\n"])
            held = []


def _parallel(files: list[Path], folder: Path, keeps: Callable[[], bool], total: int) -> tuple[str, int]:
    """Write the same lines of both files."""
    names = [folder / f"{side}-{_plain_name(file, folder).name}" for side, file in zip("ab", files, strict=True)]
    count = 0
    with names[0].open("wb") as one, names[1].open("wb") as other:
        both = with_progress(zip(*map(raw_lines, files), strict=False), _choosing(files[0]), total=total)
        for number, lines in enumerate(both):
            if not number or keeps():
                for out, line in zip((one, other), lines, strict=True):
                    out.write(line if line.endswith(b"\n") else line + b"\n")
                count += 1
    return ",".join(map(str, names)), count


def _text(where: str, folder: Path, keeps: Callable[[], bool], wanted: float) -> tuple[str, int]:
    """Write blocks of whole lines; `wanted`: bytes."""
    files, size = text_files(where), max(1, min(_LARGEST_BLOCK, round(wanted / _BLOCKS)))
    written: list[Path] = []
    for number, file in enumerate(files):
        lines, about = ending(file) in _JSON, file.stat().st_size
        to = folder / f"{number:05d}-{_plain_name(file, folder).name}"
        units = _records(file, quotes=False) if lines else _blocks(file, size)
        with to.open("wb") as out:
            some = with_progress(units, _choosing(file), 1, total=estimate_lines([file]) if lines else about // size)
            for at, unit in enumerate(some):
                if keeps() or (not at and not number):
                    out.write(unit)
        if to.stat().st_size:
            written.append(to)
        else:
            to.unlink()
    return str(written[0] if len(written) == 1 else folder), sum(file.stat().st_size for file in written)


def _blocks(file: Path, size: int) -> Iterator[bytes]:
    held, length = list[bytes](), 0
    for line in raw_lines(file, max(size, 1 << 12)):
        held.append(line)
        length += len(line)
        if length >= size:
            yield b"".join(held)
            held, length = [], 0
    if held:
        yield b"".join(held)


def _objects(path: Path, folder: Path, keeps: Callable[[], bool], total: int) -> tuple[str, int]:
    kinds: dict[str, Callable[[Path], Iterable[dict[str, Any] | None]]] = {
        ".parquet": parquet_records, ".arrow": parquet_records, ".tmx": tmx_records
    }  # fmt: skip
    read = kinds.get(ending(path), lambda file: (row for _, row in json_rows(file)))
    rows = with_progress(chain.from_iterable(map(read, files_of(path))), _choosing(path), total=total)
    lines = (json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n" for row in rows if row is not None)
    return _choose_units(lines, folder / f"{_plain_name(files_of(path)[0], folder).stem}.jsonl", keeps)


def _squad(path: Path, folder: Path, keeps: Callable[[], bool]) -> tuple[str, int]:
    with open_bytes(path) as file:
        whole = json.loads(file.read())
    for article in whole["data"]:
        article["paragraphs"] = [one for one in article["paragraphs"] if keeps()]
    whole["data"] = [article for article in whole["data"] if article["paragraphs"]] or whole["data"][:1]
    (folder / path.name).write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")
    return str(folder / path.name), sum(len(one["qas"]) for article in whole["data"] for one in article["paragraphs"])


def _arrays(path: Path, folder: Path, keeps: Callable[[], bool]) -> tuple[str, int]:
    import numpy as np

    arrays = load_arrays(path)
    size = len(of_role(arrays, "train", str(path))[0])
    kept = [number for number in range(size) if keeps() or not number]
    to = folder / f"{path.stem}.npz"
    np.savez(to, **choice(arrays, kept))  # pyright: ignore[reportArgumentType]
    return str(to), len(kept)


def _series(path: Path, folder: Path, found: Detected, share: float, keeps: Callable[[], bool]) -> tuple[str, int]:
    """Write some of many series unchanged, else the end of each, because predictions continue from the end."""
    if ending(path) in (".parquet", ".arrow", ".npy", ".npz") or is_pattern(path):
        return str(path), found.count
    to = _plain_name(path, folder)
    table = read_table(path)
    header = table is not None and table.header
    id = found.data.get("id")
    if id is None:
        lines = with_progress(_records(path, quotes=ending(path) == ".csv"), _choosing(path), total=found.count)
        first = list(islice(lines, int(header)))
        kept = deque(lines, maxlen=max(1, round(share * found.count)))
        to.write_bytes(b"".join([*first, *kept]))
        return str(to), len(kept)
    rows = _all_rows(path)
    names = next(rows)
    at = names.index(id) if isinstance(id, str) else int(id)
    total = estimate_lines([path])
    rows = with_progress(rows, f"counting the series of {path}", total=total)
    sizes = Counter(row[at] for row in rows if len(row) == len(names))
    whole = found.kinds[1] == "label" or len(sizes) >= FEW_SERIES
    if whole:
        skipped = {name: 0 if keeps() or not number else size for number, (name, size) in enumerate(sizes.items())}
    else:
        skipped = {name: size - max(1, round(share * size)) for name, size in sizes.items()}
    seen, count = Counter[str](), 0
    rows = _all_rows(path)
    with to.with_suffix(".csv").open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(next(rows))
        for row in with_progress(rows, _choosing(path), total=total):
            if len(row) == len(names):
                seen[row[at]] += 1
                if seen[row[at]] > skipped[row[at]]:
                    writer.writerow(row)
                    count += 1
    kept = sum(size > skipped[name] for name, size in sizes.items())
    return str(to.with_suffix(".csv")), kept if found.kinds[1] == "label" else count


def _all_rows(path: Path) -> Iterator[Sequence[str]]:
    """Yield the rows of a table of series, without the header."""
    if is_archive(path):
        names, rows = archive_rows(path)
        return chain([names], (cells for _, cells, problem in rows if not problem))
    return (row.fields for row in csv_rows(path) if not row.line.problem and any(map(str.strip, row.fields)))


def _links(place: Path, folder: Path, keeps: Callable[[], bool], found: Detected) -> tuple[str, int]:
    """Link some files. Files whose names differ only in the ending stay together; lists and transcripts of others are
    kept."""
    files = files_in(place)
    media = {*files.pictures, *files.recordings} or {*files.names}
    stems: dict[str, bool] = {}
    count = 0
    for name in files.names:
        stem = str(PurePosixPath(name).with_suffix(""))
        if name in media and stem not in stems:
            stems[stem] = keeps() or not stems
    for name in with_progress(files.names, _choosing(place), total=len(files.names)):
        if stems.get(str(PurePosixPath(name).with_suffix("")), True):
            to = folder / name
            to.parent.mkdir(parents=True, exist_ok=True)
            _link((place / name).resolve(), to)
            count += name in media
    return str(folder), count


def _link(file: Path, to: Path) -> None:
    to.unlink(missing_ok=True)
    try:
        os.symlink(file, to)
    except OSError:  # a file system without links
        shutil.copyfile(file, to)
