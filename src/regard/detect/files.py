"""Files of a folder or an archive by kind, and the parts (train, valid, test) that their names indicate."""

import re
import shutil
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Generic, NamedTuple, TypeVar

from regard.data.columns import LANGUAGES
from regard.data.conll import is_conll
from regard.data.tables import SPLIT_NAMES, Role
from regard.detect.tables import PICTURES, RECORDINGS, SPLITS
from regard.errors import CallError
from regard.files import atomic
from regard.files.lines import PACKED, ending, group_shards, pattern_of, raw_lines
from regard.inputs.media_files import TARS

MOST = 200_000  # files that are listed; in a folder with more, the rest is ignored
TABLES = frozenset((".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet", ".arrow", ".tmx", ".ts", ".tsf", ".arff"))
_TEXTS = frozenset((".txt", ".text", ".md", ".tokens"))
ROWS = frozenset((".conll", ".conllu", ".iob", ".bio", ".json", ".npz", ".npy"))
#: Files to fetch of a dataset of the hub, without its card (README.md) and its scripts.
DATA_FILES = sorted(f"*{ending}" for ending in (TABLES | _TEXTS | ROWS | PICTURES | RECORDINGS) - {".md"})
T = TypeVar("T")
#: Words of names, and the part that they indicate; CoNLL calls the second test set testb, and validates on testa.
_ROLES: dict[str, Role] = {
    **SPLITS, "testa": "valid", "devel": "valid", "development": "valid", "testb": "test", "tst": "test",
    "eval": "test", "evaluation": "test", "heldout": "test", "holdout": "test",
}  # fmt: skip
_RANKS = (
    "", ".ts", ".arff", ".arrow", ".parquet", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".text", ".txt",
    ".md",
)  # fmt: skip
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ADDED = re.compile(r"^(my|news|full|new)|(set|data|file|part|split|images)$")
_SIDES = {"src": 0, "source": 0, "tgt": 1, "trg": 1, "target": 1}


@dataclass(frozen=True)
class Files:
    """A folder or a tar, by the paths of its files."""

    place: Path
    names: tuple[str, ...]

    def of(self, endings: frozenset[str]) -> list[str]:
        return [name for name in self.names if ending(Path(name)) in endings]

    @cached_property
    def pictures(self) -> list[str]:
        return self.of(PICTURES)

    @cached_property
    def recordings(self) -> list[str]:
        return self.of(RECORDINGS)

    @cached_property
    def tables(self) -> list[str]:
        return self.of(TABLES)

    @cached_property
    def others(self) -> list[str]:
        """Return the files of words and tags, and of objects."""
        return self.of(ROWS)

    @cached_property
    def texts(self) -> list[str]:
        """Return the text files, including those without an ending and those in sub-folders."""
        return [name for name in self.names if (end := ending(Path(name))) in _TEXTS or (not end and "/" in name)]

    def classes(self, names: list[str]) -> Counter[str]:
        """Count these files by sub-folder, if all of them are in one of at least two sub-folders."""
        parents = [PurePosixPath(name).parts[:-1] for name in names]
        found = Counter(parts[0] for parts in parents if parts)
        return found if len(found) > 1 and all(len(parts) == 1 for parts in parents) else Counter()


def files_in(place: Path) -> Files:
    if place.is_dir():
        names = []
        for path in sorted(place.rglob("*")):
            hidden = any(part.startswith(".") for part in path.relative_to(place).parts)
            if not hidden and path.is_file():
                names.append(path.relative_to(place).as_posix())
            if len(names) > MOST:
                break
        return Files(place, tuple(names))
    try:
        with tarfile.open(place) as archive:
            return Files(place, tuple(sorted(member.name for member in archive if member.isfile())))
    except (tarfile.TarError, OSError, EOFError) as problem:
        raise CallError(f"{place}: cannot be read as a tar ({problem})") from None


def role_of(name: str) -> Role | None:
    """Return the part that a name indicates, alone or inside a longer one: train.csv, wnut17train.conll,
    ECG200_TEST.ts."""
    found: set[Role] = {_ROLES[word] for word in _words(name) if word in _ROLES}
    return found.pop() if len(found) == 1 else None


def _words(name: str) -> list[str]:
    """Return the words of a name, split at digits, marks and capitals, without additions to train and test."""
    words = [word.lower() for word in _WORD.findall(name)]
    return [_ADDED.sub("", word) if _ADDED.sub("", word) in _ROLES else word for word in words]


def _family(name: str) -> tuple[str, ...]:
    """Return what files of one dataset have in common: their names without numbers and parts."""
    return tuple(word for word in _words(name) if word not in _ROLES)


@dataclass(frozen=True)
class RoleFiles(Generic[T]):
    """The train, valid and test parts of a folder; empty if no name indicates train. `unused`: additional valid or test
    parts."""

    by_role: dict[Role, T]
    unused: Sequence[T] = ()


def _parts(place: Path, named: Mapping[str, T], called: Callable[[T], str]) -> RoleFiles[T]:
    """Assign parts by name. `called`: how a command names each of them. Several training parts raise an error with a
    command for each, including the other parts of its family."""
    by_role: dict[Role, list[tuple[tuple[str, ...], T]]] = {}
    for name, one in named.items():
        if (role := role_of(name)) is not None:
            by_role.setdefault(role, []).append((_family(name), one))
    trains = by_role.pop("train", [])
    if len(trains) > 1:
        if len({family for family, _ in trains}) == 1:
            names = ", ".join(Path(called(one)).name for _, one in trains)
            raise CallError(f"{place}: train is in several files ({names}): join them, or name one")
        commands = []
        for family, one in trains:
            same = {role: next((other for kin, other in some if kin == family), None) for role, some in by_role.items()}
            more = "".join(f" data.{role}={called(other)}" for role, other in same.items() if other is not None)
            commands.append(f"  regard train {called(one)}{more}")
        raise CallError("\n".join([f"{place}: holds several data sets; name one of them:", *commands]))
    found: dict[Role, T] = {"train": trains[0][1]} if trains else {}
    unused: list[T] = []
    for role, some in by_role.items() if found else ():
        some.sort(key=lambda each: each[0] != trains[0][0])  # of the same family first
        found[role] = some[0][1]
        unused += [one for _, one in some[1:]]
    return RoleFiles(found, unused)


def parts_of(place: Path) -> RoleFiles[Path]:
    """Return sub-folders or files that are train, valid and test, by their names. Shards of a part are returned as one
    pattern. A folder that holds only one folder is replaced by that folder."""
    inside = [path for path in sorted(place.iterdir()) if not path.name.startswith(".")] if place.is_dir() else []
    if len(inside) == 1 and inside[0].is_dir():
        return parts_of(inside[0])
    lists = {path.stem for path in inside if path.is_file() and ending(path) in TABLES}
    if any(path.name in lists and _is_flat(path) for path in inside):  # files, and a list of them with the same name
        return RoleFiles({})
    parts = [path for path in inside if _may_be_part(path)]
    if any(path.is_file() and role_of(path.name) == "train" for path in parts):  # a list and the files that it lists
        parts = [path for path in parts if not _is_flat(path)]
    groups = [group for role in SPLIT_NAMES for group in _groups([one for one in parts if role_of(one.name) == role])]
    return _parts(place, {group[0].name: pattern_of(group) for group in groups}, str)


def _groups(paths: list[Path]) -> list[list[Path]]:
    """Group a folder, or files with their shards. Of one text in several formats, the most informative is used."""
    if folders := [path for path in paths if path.is_dir()]:
        return [folders[:1]]
    groups = group_shards(paths)
    ranks = [_RANKS.index(end) if (end := ending(group[0])) in _RANKS else 0 for group in groups]
    return [group for group, rank in zip(groups, ranks, strict=True) if rank == min(ranks)]


def _may_be_part(path: Path) -> bool:
    """Return whether a path is data. A file with an unknown ending is data if it holds one word and tag per line
    (eng.train)."""
    if (role := role_of(path.name)) is None:
        return False
    if path.is_dir():  # part of a longer name; with pictures only, it belongs to a list elsewhere: train2017
        return path.name.lower() in SPLIT_NAMES[role] or not _is_flat(path)
    known = TABLES | _TEXTS | ROWS
    return ending(path) in known or (ending(path) not in PICTURES | RECORDINGS and is_conll(path))


def _is_flat(path: Path) -> bool:
    return path.is_dir() and not any(inner.is_dir() for inner in path.iterdir())


def parallel_files(place: Path) -> RoleFiles[tuple[Path, Path]]:
    """Return pairs of files whose names differ only in a language or a side (train.en and train.de, src-val.txt and
    tgt-val.txt), with valid and test."""
    by_name: dict[str, list[tuple[int, Path]]] = {}
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        if path.is_file() and (found := _side(path)):
            by_name.setdefault(found[0], []).append((found[1], path))
    pairs: dict[str, tuple[Path, Path]] = {}
    for name, files in by_name.items():
        sure = [one for one in files if ending(one[1]) in _TEXTS or _is_language(one[1])]
        if len(both := sure if len(sure) > 1 else files) == 2:
            one, other = (path for _, path in sorted(both))
            if (sure and ending(one) not in _TEXTS) or _as_long(one, other):
                pairs[name] = one, other
    found = _parts(place, pairs, lambda two: f"{two[0]},{two[1]}")
    return RoleFiles({"train": next(iter(pairs.values()))}) if len(pairs) == 1 and not found.by_role else found


def _side(path: Path) -> tuple[str, int] | None:
    """Return the name without its language or side, and the index of that side: 1 for targets."""
    name = path.name.removesuffix(path.suffix) if path.suffix.lower() in PACKED else path.name
    stem, _, last = name.rpartition(".")
    if ending(path) in _TEXTS:
        words = [word for word in re.split(r"[-_.]", stem) if word.lower() in LANGUAGES | _SIDES.keys()]
        if len(words) != 1:
            return None
        return re.sub(rf"(?<![^-_.]){words[0]}(?![^-_.])", "*", name), _SIDES.get(words[0].lower(), 0)
    known = TABLES | ROWS | PICTURES | RECORDINGS
    if stem and (_is_language(Path(name)) or (re.fullmatch(r"[a-z]{3}", last) and ending(path) not in known)):
        return stem, _SIDES.get(last.lower(), 0)
    return None


def _is_language(path: Path) -> bool:
    """Return whether a name ends in a known language or in a code of two letters."""
    name = path.name.removesuffix(path.suffix) if path.suffix.lower() in PACKED else path.name
    last = name.rpartition(".")[2]
    return last.lower() in LANGUAGES | _SIDES.keys() or bool(re.fullmatch(r"[a-z]{2}([-_][A-Za-z]{2,4})?", last))


def _as_long(one: Path, other: Path) -> bool:
    first, second = (sum(1 for _ in raw_lines(path)) for path in (one, other))
    return first == second


# Unpack a .zip or .tar that is given as data into the folder of its run, to read it like any other folder.
#
# Nothing is written outside that folder: links, devices and names that lead out of it are skipped. An archive with
# too many files or too high a compression ratio, or one that would fill the disk, is refused before anything is
# written.

ARCHIVES = (*TARS, ".zip")
_JUNK = "__MACOSX"  # files that some systems add
MOST_FILES = 2_000_000
RATIO, SMALL = 200, 10**9  # times its own size that an archive may hold; below so many bytes it may hold any
RESERVE, SHARE = 10**9, 0.05  # bytes, or a share of a small disk, that stay free


class Member(NamedTuple):
    name: str
    size: int
    open: Callable[[], IO[bytes] | None]


def is_archive(place: Path) -> bool:
    return place.name.lower().endswith(ARCHIVES) and place.is_file()


def unpack(archive: Path, into: Path, report: Callable[[str], None] = lambda message: None) -> Path:
    """Unpack the archive and return the folder with its files. An existing folder is returned unchanged. If the archive
    holds only one folder, that folder is returned."""
    if into.is_dir():
        return _inner(into)
    report(f"unpacking {archive} into {into}")
    try:
        with zipfile.ZipFile(archive) if archive.suffix.lower() == ".zip" else tarfile.open(archive) as opened:
            found = _check_bounds(_zip(opened) if isinstance(opened, zipfile.ZipFile) else _tar(opened), archive, into)
            atomic.write_folder(into, lambda folder: _write(found, folder))
    except (tarfile.TarError, zipfile.BadZipFile, NotImplementedError, EOFError, OSError, RuntimeError) as problem:
        raise CallError(f"{archive}: cannot be unpacked ({problem})") from None
    return _inner(into)


def _check_bounds(members: Iterator[Member], archive: Path, into: Path) -> list[Member]:
    """Return the members; raise CallError as soon as they are too many or too large."""
    there = next(place for place in (into, *into.absolute().parents) if place.exists())
    disk, packed = shutil.disk_usage(there), archive.stat().st_size
    free, most = disk.free - min(RESERVE, int(disk.total * SHARE)), max(SMALL, RATIO * packed)
    found, size = [], 0
    for member in members:
        found.append(member)
        size += member.size
        if len(found) > MOST_FILES:
            raise CallError(f"{archive} has more than {MOST_FILES:,} files: unpack it yourself, and give its folder")
        if size > most:
            raise CallError(
                f"{archive} holds more than {most:,} bytes in {packed:,}, a suspicious compression ratio: "
                "unpack it yourself, and give its folder"
            )
        if size > free:
            raise CallError(
                f"{archive} holds at least {size / 1e9:,.1f} GB, and the disk of {there} has "
                f"{max(0, free) / 1e9:,.1f} GB to spare: make room, or train in a folder on another disk (-o)"
            )
    return found


def _inner(folder: Path) -> Path:
    inside = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return _inner(inside[0]) if len(inside) == 1 and inside[0].is_dir() else folder


def _zip(archive: zipfile.ZipFile) -> Iterator[Member]:
    for one in archive.infolist():
        link = one.external_attr >> 28 == 0o12  # the kind of a file, as Unix writes it there
        if not one.is_dir() and not link and _inside(one.filename):
            yield Member(one.filename, one.file_size, lambda one=one: archive.open(one))


def _tar(archive: tarfile.TarFile) -> Iterator[Member]:
    for one in archive:
        if one.isreg() and _inside(one.name):
            yield Member(one.name, one.size, lambda one=one: archive.extractfile(one))


def _inside(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and parts[0] != _JUNK and "\0" not in name


def _write(members: list[Member], folder: Path) -> None:
    for member in members:
        file = folder / PurePosixPath(member.name)
        file.parent.mkdir(parents=True, exist_ok=True)
        content = member.open()
        if content is not None:
            with content, file.open("wb") as out:
                shutil.copyfileobj(content, out)
