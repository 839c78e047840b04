"""Where the user's pictures are: folders, lists, archives, arrays, corpora. Nothing is decoded here.

    data.train=photos/                a folder with a sub-folder for each class (classify)
    data.train=captions.tsv           a list: a file name and a text a line (.tsv, .csv, .jsonl, .parquet)
      data.images=images.tar          ... whose files are in a folder or a .tar, if not beside the list
      data.split=split                ... where one list has all splits, and a column says which
    data.train=pictures.npz           arrays x_train, y_train, x_test, y_test (and classes: the names of the labels)
    data.train=corpus:shapes          what comes with regard

What is said of one picture in several lines comes together: a picture has one entry, and several texts.
"""

import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import BadZipFile

import numpy as np

from regard.corpora.pictures import PREFIX, Noun, load_pictures
from regard.data.files import PairSource
from regard.data.pairs import Bad, Columns
from regard.data.settings import FileFormat
from regard.data.tables import SPLIT_NAMES, Role, corpora_version
from regard.data.text_hash import text_hash
from regard.errors import CallError, RegardError
from regard.inputs.image.worker import Bytes


@dataclass(frozen=True)
class Entry:
    """A picture that was named, and what is said of it. `line` of `file` named it first; 0 where there are no lines."""

    name: str
    place: Bytes | np.ndarray
    texts: tuple[str, ...]
    file: str
    line: int = 0
    nouns: tuple[tuple[Noun, ...], ...] = ()


@dataclass(frozen=True)
class PictureSource:
    """What `data.train` (or valid, or test) stands for. `part`: which side of a division by a hash of the name."""

    where: str
    role: Role
    columns: Columns = field(default_factory=lambda: Columns(sides=("image", "caption")))
    format: FileFormat = "auto"
    images: str | None = None
    split: str | None = None
    part: str = "all"  # all, kept, held out
    share: float = 0.0

    def read(self) -> Iterator[Entry | Bad]:
        """Every picture once, with all its texts, and whatever line names none."""
        limit = int(self.share * 2**64)
        for item in self._all():
            if isinstance(item, Bad) or self.part == "all":
                if self.part != "held out":  # what is bad is reported once
                    yield item
            elif (text_hash(item.name, b"held out") < limit) == (self.part == "held out"):
                yield item

    def _all(self) -> Iterable[Entry | Bad]:
        if self.where.startswith(PREFIX):
            return self._written(_corpus(self.where, self.role))
        path = Path(self.where).expanduser()
        if not path.exists():
            raise CallError(f"data.{self.role}={self.where}: there is no such file or folder")
        if path.is_dir():
            return self._written(_class_folders(path, f"data.{self.role}={self.where}"))
        if path.suffix == ".npz":
            return self._written(_arrays(path, self.role))
        return self._list(path)

    def _written(self, items: Iterable[Entry | Bad]) -> Iterator[Entry | Bad]:
        """What is said of pictures as it is called, where files write it otherwise; lists have done so line by line."""
        called = self.columns.target_text
        for item in items:
            if called is None or isinstance(item, Bad):
                yield item
            else:
                yield replace(item, texts=tuple(str(called(text)) for text in item.texts))

    def _list(self, path: Path) -> Iterator[Entry | Bad]:
        find = _finder(path, self.images)
        wanted = self._wanted_lines()
        texts: dict[str, list[str]] = {}
        lines: dict[str, int] = {}
        for item in PairSource(self.where, self.role, self.format, self.columns).read():
            if isinstance(item, Bad):
                yield item
            elif wanted is None or item.line in wanted:
                texts.setdefault(item.source, []).append(item.target)
                lines.setdefault(item.source, item.line)
        for name, said in texts.items():
            place = find(name)
            if place is None:
                reason = f"there is no picture {name!r} in {self.images or path.parent}"
                yield Bad(str(path), lines[name], "not found", reason, lines=len(said))
            else:
                yield Entry(name, place, tuple(said), str(path), lines[name])

    def _wanted_lines(self) -> set[int] | None:
        """The lines of this split, where a column says which; None: all of them."""
        if self.split is None:
            return None
        columns = Columns(self.columns.source or "image", self.split, self.columns.header, ("image", "split"))
        pairs = PairSource(self.where, self.role, self.format, columns).read()
        said = {item.line: item.target.strip().lower() for item in pairs if not isinstance(item, Bad)}
        found = {line for line, split in said.items() if split in SPLIT_NAMES[self.role]}
        if not found:
            has = ", ".join(sorted(set(said.values()))[:6]) or "nothing"
            raise CallError(
                f"data.split={self.split}: no line of {self.where} says {SPLIT_NAMES[self.role][0]!r}; it has {has}"
            )
        return found

    def key(self) -> list[Any]:
        """What the entries depend on, for the cache. Of a folder: every file in it."""
        columns = self.columns
        how = [self.where, self.role, self.format, columns.source, columns.target, columns.header, columns.sides]
        how += [repr(columns.target_text)]
        how += [self.images, self.split, self.part, self.share]
        if self.where.startswith(PREFIX):
            return [*how, corpora_version()]
        places = [Path(place).expanduser() for place in (self.where, self.images) if place]
        if self.images is None and not places[0].is_dir() and places[0].suffix != ".npz":
            places.append(places[0].parent)
        files = [file for place in places for file in (sorted(place.rglob("*")) if place.is_dir() else [place])]
        seen = ((file.resolve(), file.stat()) for file in files if file.is_file())
        return [*how, *([str(file), stat.st_size, stat.st_mtime_ns] for file, stat in seen)]

    def __str__(self) -> str:
        return self.where if self.part == "all" else f"{self.where} ({self.part})"


def _corpus(where: str, role: Role) -> Iterator[Entry]:
    for row, one in enumerate(load_pictures(where, role)):
        yield Entry(f"{where}#{row}", one.image, one.texts, where, row + 1, one.nouns)


def _class_folders(root: Path, name: str) -> Iterator[Entry | Bad]:
    """A sub-folder for each class, with pictures anywhere below it; hidden files are left alone."""
    classes = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not classes:
        raise CallError(f"{name}: the folder has no sub-folders; put the pictures of each class into one of its own")
    for folder in classes:
        for file in sorted(folder.rglob("*")):
            inside = file.relative_to(root)
            if file.is_file() and not any(part.startswith(".") for part in inside.parts):
                yield Entry(str(inside), Bytes(str(file)), (folder.name,), str(file))


def _arrays(path: Path, role: Role) -> Iterator[Entry | Bad]:
    """x_train and y_train (or x_valid, x_test, ...; or x and y), and `classes`, names for labels that are numbers."""
    names = [name for split in SPLIT_NAMES[role] for name in (f"x_{split}", f"{split}_images", f"x{split}")] + ["x"]
    where = f"data.{role}={path}"
    with _open_arrays(path, where) as arrays:
        found = next((name for name in names if name in arrays.files), None)
        if found is None:
            raise CallError(f"{where}: it has no array {names[0]}; it has {', '.join(arrays.files)}")
        labels_name = found.replace("x", "y", 1) if found.startswith("x") else found.replace("images", "labels")
        if labels_name not in arrays.files:
            raise CallError(f"{where}: it has {found} but no {labels_name}")
        wanted = [found, labels_name, *(["classes"] if "classes" in arrays.files else [])]
        try:
            images, labels, *classes = [arrays[name] for name in wanted]
        except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as problem:
            raise RegardError(f"{where}: is not a complete .npz file of plain arrays ({problem})") from None
    if len(images) != len(labels):
        raise RegardError(f"{where}: {len(images):,} pictures but {len(labels):,} labels")
    for row, (image, label) in enumerate(zip(images, labels, strict=True)):
        text = str(label)
        if classes:
            number, called = int(label), classes[0]
            if not 0 <= number < len(called):
                yield Bad(str(path), row + 1, "columns", f"label {number} is not one of the {len(called)} classes")
                continue
            text = str(called[number])
        yield Entry(f"{path.name}#{row}", image, (text,), str(path), row + 1)


def _open_arrays(path: Path, where: str) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, BadZipFile) as problem:
        raise RegardError(f"{where}: is not a complete .npz file of plain arrays ({problem})") from None


# ------------------------------------------------------------------------------------------------------------- archives
class Tar:
    """The members of a .tar: where their bytes are, so that they can be read without unpacking."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def members(self) -> dict[str, Bytes]:
        try:
            with tarfile.open(self.path, "r:") as archive:
                return {m.name: Bytes(str(self.path), m.offset_data, m.size, m.name) for m in archive if m.isfile()}
        except tarfile.TarError as problem:
            raise CallError(
                f"{self.path}: cannot be read as a plain .tar ({problem}); unpack it, and name the folder"
            ) from None
        except OSError as problem:
            raise CallError(f"{self.path}: {problem.strerror or problem}") from None

    @cached_property
    def by_last_part(self) -> dict[str, Bytes]:
        """For lists that name files without their folder. A name that occurs twice is not in it."""
        found: dict[str, Bytes | None] = {}
        for name, place in self.members.items():
            last = PurePosixPath(name).name
            found[last] = None if last in found else place
        return {name: place for name, place in found.items() if place is not None}

    def find(self, name: str) -> Bytes | None:
        return self.members.get(name.removeprefix("./")) or self.by_last_part.get(name)


@lru_cache(maxsize=8)
def _tar(path: str, changed: int) -> Tar:
    return Tar(Path(path))


def open_tar(path: Path) -> Tar:
    """Its index, read once as long as the file stays as it is."""
    try:
        return _tar(str(path), path.stat().st_mtime_ns)
    except OSError as problem:
        raise CallError(f"{path}: {problem.strerror or problem}") from None


def _finder(listed: Path, images: str | None) -> Callable[[str], Bytes | None]:
    where = listed.parent if images is None else Path(images).expanduser()
    if where.is_dir():

        def in_folder(name: str) -> Bytes | None:
            file = where / name
            return Bytes(str(file), name=name) if "\0" not in name and file.is_file() else None

        return in_folder
    if not where.exists():
        raise CallError(f"data.images={images}: there is no such folder or .tar")
    if where.suffix != ".tar":
        raise CallError(f"data.images={images}: give a folder or a plain .tar; unpack other archives first")
    return open_tar(where).find


def find_input(word: str) -> Bytes | np.ndarray:
    """What a word on the command line stands for: a file, a member of a tar (images.tar/a.jpg), corpus:shapes#7."""
    if word.startswith(PREFIX):
        name, _, row = word.removeprefix(PREFIX).partition("#")
        if not row.isdecimal():
            raise CallError(f"{word}: say which picture of the test part, such as {PREFIX}{name}#0")
        for number, one in enumerate(load_pictures(name, "test")):
            if number == int(row):
                return one.image
        raise CallError(f"{word}: the test part of {name} has no picture {row}")
    path = Path(word).expanduser()
    if path.is_file():
        return Bytes(str(path), name=word)
    for parent in path.parents:
        if parent.suffix == ".tar" and parent.is_file():
            member = open_tar(parent).find(str(path.relative_to(parent)))
            if member is None:
                raise CallError(f"{word}: there is no such file in {parent}")
            return member
    raise CallError(f"{word}: there is no such picture")
