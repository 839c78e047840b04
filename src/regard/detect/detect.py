"""Detect the input, the output and their columns in a file, two files or a folder.

The result is a cell of the table of jobs. Inputs: text, image, sound, series, question, image+text; none for text that
is only to be continued. Outputs: text, label, tags, span, values.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from regard.data.joined_columns import JOINS
from regard.data.tables import saved_files
from regard.detect.detected import (
    Detected,
    Hints,
    class_counts,
    first_three,
    picture_facts,
    picture_sizes,
    series_facts,
    sound_facts,
    sound_lengths,
)
from regard.detect.files import DATA_FILES, ROWS, TABLES, Files, files_in, parallel_files, parts_of, role_of
from regard.detect.listed import LOOKED_AT, infer_task
from regard.detect.single_files import (
    PICKLE,
    first_lines,
    holds_rows,
    of_arrays,
    of_file,
    of_parallel,
    of_texts,
    start_of,
)
from regard.detect.tables import MOST, PICTURES, RECORDINGS, TableSample, read_table
from regard.errors import CallError, RegardError
from regard.files.hub import is_pickle, snapshot
from regard.files.lines import ending, files_of, group_shards, is_pattern, pattern_of
from regard.inputs.image.arrays import is_arrays
from regard.inputs.media_files import SiblingFiles, members

# Detection in folders: parts in files, parallel texts, pictures and recordings by class or with a list.

_UNLABELED = ("unsup", "unlabeled", "unlabelled")
_FEW_BESIDE = 10  # factor by which texts in sub-folders must outnumber the others
_MOST_CHOICES = 30  # datasets of a folder that are listed
_SPARE = 1.2  # of the steps that the size of a table suggests


def of_folder(place: Path, hints: Hints) -> Detected:
    if (place / "state.json").is_file() and (files := saved_files(place)):
        return of_file(pattern_of(files), hints)
    if is_arrays(place):
        return of_arrays(place)
    if (pairs := parallel_files(place)).by_role:
        found = of_parallel(pairs.by_role, guessed=True)
        return _with_unused(found, [f"{one.name} and {other.name}" for one, other in pairs.unused])
    parts = parts_of(place)
    if train := parts.by_role.get("train"):
        found = _of_part(train, hints, place)
        others = {role: path for role, path in parts.by_role.items() if role != "train"}
        blind = [role for role, path in others.items() if not _says(path, train, found)]
        used = [f"{role} is {path.name}" for role, path in parts.by_role.items() if role not in blind]
        said = [f"{place} has several parts: {', '.join(used)}"]
        said += [f"{others[role].name} has no targets, and is not used" for role in blind]
        data = found.data | {role: _place_of(path) for role, path in others.items() if role not in blind}
        found = replace(found, data=data, beliefs=[*said, *found.beliefs])
        return _with_unused(found, [path.name for path in (*parts.unused, *(() if others else _alike(train, found)))])
    files = files_in(place)
    if arrays := next((one for one in _folders_of(files) if is_arrays(one)), None):
        return of_arrays(arrays)
    if files.pictures or files.recordings:
        return of_media(files, hints)
    if texts := _class_texts(files):
        return _text_classes(files, texts)
    if files.classes(files.tables):
        return _series_classes(files)
    tables = [*files.tables, *files.others, *(name for name in files.texts[:LOOKED_AT] if holds_rows(place / name))]
    shards = group_shards(place / name for name in tables or files.texts[:1])
    if len(shards) > 1:
        raise CallError(_choices(files, hints))
    if shards and (tables or len(files.texts) == 1):
        return of_file(pattern_of(shards[0]), hints)
    if files.texts:
        paths = [place / name for name in files.texts]
        return of_texts(paths, str(place), sum(path.stat().st_size for path in paths))
    if pickled := next((name for name in files.names[:LOOKED_AT] if is_pickle(start_of(place / name))), None):
        raise CallError(f"{place / pickled}: {PICKLE}")
    held = ", ".join(files.names[:5]) + (", …" if len(files.names) > 5 else "")
    raise CallError(
        f"{place}: {f'none of its files is data that regard reads ({held})' if held else 'is empty'}; "
        "give a folder of tables (.csv, .jsonl, .parquet), texts, pictures or recordings"
    )


def _folders_of(files: Files) -> list[Path]:
    """Return the few folders that contain files without a known ending, or arrays."""
    odd = [name for name in files.names if name.endswith((".bin", "-ubyte", "-ubyte.gz"))]
    return [files.place / parent for parent in dict.fromkeys(PurePosixPath(name).parent for name in odd[:MOST])]


def _place_of(part: Path) -> str:
    """Return how settings name a part; for a saved dataset, its files."""
    saved = saved_files(part) if (part / "state.json").is_file() else []
    return str(pattern_of(saved) if saved else part)


def _alike(train: Path, found: Detected) -> list[Path]:
    """Return tables beside the training table with the same columns and no part in their names: TREC_10.tsv."""
    if not train.is_file() or found.kinds[0] == "nothing" or ending(train) not in TABLES:
        return []
    beside = (path for path in sorted(train.parent.iterdir()) if path.is_file() and ending(path) == ending(train))
    return [path for path in beside if role_of(path.name) is None and _says(path, train, found)][:_MOST_CHOICES]


def _with_unused(found: Detected, names: Sequence[str]) -> Detected:
    """Add a sentence on additional parts of which only one can be used."""
    if not names:
        return found
    said = [f"{name} is not used; to use it: data.valid=... or data.test=..." for name in names]
    return replace(found, beliefs=[*found.beliefs, *said])


def _choices(files: Files, hints: Hints) -> str:
    """Return the message for a folder of several datasets: a command and a description for each."""
    place = files.place
    names = {part[0]: None for name in files.names if (part := PurePosixPath(name).parts)}
    described: list[tuple[str, str]] = []
    for name in names:
        with suppress(RegardError):
            found = detect_inside(place / name, hints)
            described.append((f"regard train {place / name}", f"{found.kinds[0]} → {found.kinds[1]}"))
            if len(described) == _MOST_CHOICES:
                break
    width = max((len(command) for command, _ in described), default=0)
    lines = [f"  {command:<{width}}    {what}" for command, what in described]
    more = "" if len(described) < _MOST_CHOICES else f"; the first {_MOST_CHOICES} are listed"
    return "\n".join([f"{place}: holds several data sets; name one of them{more}:", *lines])


def detect_inside(path: Path, hints: Hints) -> Detected:
    """Detect what one file or sub-folder of a folder holds. Plain text that describes the datasets is rejected."""
    if path.is_file() and (ending(path) in PICTURES | RECORDINGS | {"", ".md", ".py"} or path.stem.isupper()):
        raise CallError(f"{path}: is not a dataset by itself")
    return _of_part(path, hints)


def _says(path: Path, train: Path, found: Detected) -> bool:
    """Return whether a table has all columns that are read. Test files of competitions omit the targets."""
    one, other = (None if file.is_dir() else read_table(file) for file in (path, train))
    if one is None or other is None or not one.header:
        return True
    read = {column.key for column in other.columns} & {
        part for value in found.data.values() if isinstance(value, str) for part in (value, *value.split(JOINS))
    }
    return read <= {column.key for column in one.columns}


def _of_part(path: Path, hints: Hints, place: Path | None = None) -> Detected:
    """Detect one part. `place`: the folder, where a list may name files by their stems."""
    if path.is_dir():
        return of_folder(path, hints)
    files = Files(path, ()) if place is None else files_in(place)
    if files.pictures or files.recordings:
        noun = "picture" if len(files.pictures) >= len(files.recordings) else "recording"
        names = files.pictures if noun == "picture" else files.recordings
        if (table := _naming(read_table(path, listing=True), noun, names)) is not None:
            return infer_task(table, hints, files)
    return of_file(path, hints)


def _class_texts(files: Files) -> list[str]:
    """Return the texts in a sub-folder for each class. A few texts beside these folders, such as lists of addresses,
    are ignored."""
    inside = [name for name in files.texts if "/" in name]
    few = len(files.texts) - len(inside) <= len(inside) / _FEW_BESIDE
    return inside if few and files.classes(inside) else []


def _text_classes(files: Files, texts: list[str]) -> Detected:
    counts = files.classes(texts)
    unlabeled = {name: "" for name in counts if name.lower() in _UNLABELED and len(counts) > 2}
    texts = [name for name in texts if name.partition("/")[0] not in unlabeled]
    some = texts[:: max(1, len(texts) // MOST)]
    inputs = [" ".join(first_lines(files.place / name, 200)) for name in some]
    targets = [name.partition("/")[0] for name in some]
    counts = {name: count for name, count in counts.items() if name not in unlabeled}
    beliefs = ["a sub-folder of text files for each class", class_counts(Counter(counts))]
    beliefs += [f"texts in {name} have no label and are left out" for name in unlabeled]
    data = {"train": str(files.place)} | ({"names": unlabeled} if unlabeled else {})
    return Detected(("text", "label"), data, len(texts), inputs, targets, beliefs, first_three(inputs, targets))


def _series_classes(files: Files) -> Detected:
    """Detect files with one series each; the first is representative."""
    targets = [name.partition("/")[0] for name in files.tables]
    table = read_table(files.place / files.tables[0])
    if table is None or not any(column.kind == "number" for column in table.columns):
        raise CallError(f"{files.place}: {files.tables[0]} has no column of numbers: a series needs at least one")
    time = next((column for column in table.columns if column.kind == "time"), None)
    facts = series_facts(table, time, None)
    sizes = [(files.place / name).stat().st_size for name in files.tables]
    facts = replace(facts, longest=int(_SPARE * facts.steps * max(sizes) / max(1, sizes[0])))  # about
    data: dict[str, Any] = {"kind": "series", "train": str(files.place)} | ({"time": time.key} if time else {})
    beliefs = [
        "a sub-folder of tables for each class, a series in each table",
        class_counts(targets),
        facts.described(),
    ]
    shown = first_three(files.tables, targets)
    return Detected(("series", "label"), data, len(targets), [facts], targets, beliefs, shown)


def of_media(files: Files, hints: Hints) -> Detected:
    """Detect pictures or recordings: by sub-folder, with a list, or each with a text beside it."""
    pictures = len(files.pictures) >= len(files.recordings)
    names = files.pictures if pictures else files.recordings
    if not names:
        raise CallError(f"{files.place}: contains no pictures or recordings")
    kind = "image" if pictures else "sound"
    noun = "picture" if pictures else "recording"
    texts = () if files.classes(names) else (text for text in files.texts if "/" not in text)
    tables = {
        name: table
        for name in (*files.tables, *files.of(frozenset((".json",))), *texts)
        if (table := _naming(read_table(files.place / name, listing=True), noun, names)) is not None
        and any(column.kind not in (noun, "id", "empty", "split") for column in table.columns)
    }
    if tables:
        return _of_lists(files, tables, hints)
    some = names[:: max(1, len(names) // LOOKED_AT)][:LOOKED_AT]
    facts: Sequence[Any]
    if pictures:
        facts = picture_facts(files.place, some)
        said_of_them = picture_sizes(facts)
    else:
        facts = sound_facts(files.place, some)
        said_of_them = sound_lengths(facts)
    if files.classes(names):
        targets = [name.partition("/")[0] for name in names]
        data = {"kind": kind, "train": str(files.place)}
        beliefs = ["a sub-folder for each class", class_counts(targets), said_of_them]
        return Detected((kind, "label"), data, len(names), facts, targets, beliefs, first_three(names, targets))
    what = "pictures" if pictures else "recordings"
    beside = list(_transcripts_beside(files, names))
    if len(beside) >= 0.9 * len(names):
        beliefs = [f"{what}, each with its text in a file beside it", said_of_them]
        said = [text for _, text in beside]
        data = {"train": str(files.place)}
        return Detected((kind, "text"), data, len(names), facts, said, beliefs, first_three(names, said))
    if named := _named_classes(names):
        pattern, mark, targets = named
        data = {"kind": kind, "train": str(files.place), "name_text": pattern}
        beliefs = ["names of files begin with their class", class_counts(targets), said_of_them]
        some = ", ".join(sorted({*targets})[:5])
        doubt = f"the part of a name before the first {mark} is used as its class: {some}"
        return Detected((kind, "label"), data, len(names), facts, targets, beliefs, first_three(names, targets), doubt)
    held = {parts[0] for name in names if len(parts := PurePosixPath(name).parts) > 1}
    alone = f"; all of them are in {next(iter(held))}, and a second class is missing" if len(held) == 1 else ""
    raise CallError(
        f"{files.place}: {len(names):,} {what} without labels or texts: put those of a class into a sub-folder, "
        f"or add a list (captions.csv) with a name and a text a line{alone}"
    )


def _of_lists(files: Files, tables: dict[str, TableSample], hints: Hints) -> Detected:
    """Detect one list of files, or one for each part. Lists of different kinds are several datasets."""
    roles = {name: role_of(PurePosixPath(name).name) for name in tables}
    trains = [name for name, role in roles.items() if role == "train"] or [*tables]
    if len(trains) > 1:
        raise CallError(_choices(files, hints))
    found = infer_task(tables[trains[0]], hints, files)
    return _with_unused(found, [name for name in tables if name != trains[0]])


def _named_classes(names: Sequence[str]) -> tuple[str, str, list[str]] | None:
    """Detect classes that are the first part of names (7_anna_0.wav, cat.12.jpg), if there are few of them with many
    files each. Return the pattern that finds them, and the separator."""
    stems = [PurePosixPath(name).stem for name in names]
    for mark in "_.-":
        firsts = [stem.partition(mark)[0] for stem in stems if mark in stem]
        counts = Counter(firsts)
        if len(firsts) == len(names) and 2 <= len(counts) <= 100 and min(counts.values()) >= 5:
            return rf"(^|/)(?P<text>[^{mark}/]+)[{mark}][^/]*$", mark, firsts
    return None


def _naming(
    table: TableSample | None, noun: Literal["picture", "recording"], names: Sequence[str]
) -> TableSample | None:
    """Return the table if it lists these files; names may lack the ending."""
    if table is None or any(column.kind == noun for column in table.columns):
        return table
    stems = {PurePosixPath(name).stem for name in names}
    for at, column in enumerate(table.columns):
        if all(cell.strip() in stems for cell in table.cells(column)):
            columns = [*table.columns]
            columns[at] = column._replace(kind=noun)
            return replace(table, columns=columns)
    return None


def _transcripts_beside(files: Files, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    beside = SiblingFiles(members(files.place))
    for name in names[:MOST]:
        try:
            text = beside.text(name)
        except UnicodeDecodeError:
            continue
        if text:
            yield name, text


HUB = "hub:"


def detect(data: str, hints: Hints = Hints()) -> Detected:  # noqa: B008 (it is frozen)
    """Detect what `data` holds: FILE, FILE,FILE, a pattern of shards, a folder, or hub:OWNER/NAME."""
    if data.startswith(HUB):
        return of_folder(snapshot(data.removeprefix(HUB), DATA_FILES, "dataset"), hints)
    place = Path(data).expanduser()
    if is_pattern(place) and files_of(place):
        return of_file(place, hints)
    if not place.exists():
        if "," in data:
            return of_parallel({"train": _two(data)})
        raise CallError(f"{data}: no such recipe, file or folder")
    if place.is_dir():
        return of_folder(place, hints)
    return of_file(place, hints)


def _two(data: str) -> tuple[Path, Path]:
    files = [Path(part.strip()).expanduser() for part in data.split(",")]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise CallError(f"{data}: no such file: {missing[0]}")
    if len(files) != 2:
        raise CallError(f"{data}: {len(files)} files; parallel texts are two, SOURCE_FILE,TARGET_FILE")
    if tables := [file for file in files if ending(file) in (TABLES | ROWS) - {".ts"}]:
        train, other = sorted(files, key=lambda file: role_of(file.name) != "train")
        role = role_of(other.name) or "test"
        raise CallError(
            f"{tables[0]} is a table or a list, not one side of parallel texts. If both have the same columns: "
            f"regard train {train} data.{role if role != 'train' else 'test'}={other}"
        )
    return files[0], files[1]
