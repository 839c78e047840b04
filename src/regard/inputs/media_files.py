"""Files of a folder or a .tar by name, and the location of their bytes. Nothing is unpacked."""

import re
import tarfile
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from regard.corpora import PREFIX
from regard.data.files import FileSource, PairSource
from regard.data.pairs import Columns, SkippedLine
from regard.data.settings import FilesSettings, Testing, held_out
from regard.data.tables import SPLIT_NAMES, Role
from regard.errors import CallError
from regard.files.lines import files_of, is_pattern

TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
TRANSCRIPTS = ".trans.txt"  # one name and its text per line
LARGEST = 512 << 20  # largest member of an archive in bytes; it is unpacked into memory
_LOCK = Lock()


class Bytes(NamedTuple):
    """Location of the bytes of a picture or recording: a whole file, or a part of an archive. `name` is the user's
    name for it.
    """

    path: str
    start: int = 0
    size: int | None = None
    name: str = ""

    def read(self) -> bytes:
        """Read the bytes; raises OSError with the reason."""
        if self.size is not None and self.size > LARGEST:
            raise OSError(f"has {self.size:,} bytes, more than {LARGEST:,}: unpack the archive")
        if self.size is not None and not self.path.endswith(".tar"):
            with _LOCK:  # a packed archive is read forward from the last member
                return _part(_unpack_index(self.path, Path(self.path).stat().st_mtime_ns), self)
        with open(self.path, "rb") as file:
            return _part(file, self)


def _part(file: Any, place: Bytes) -> bytes:
    file.seek(place.start)
    return file.read() if place.size is None else file.read(place.size)


def is_tar(path: Path) -> bool:
    return path.name.lower().endswith(TARS) and path.is_file()


def members(path: Path) -> Mapping[str, Bytes]:
    """Return all files below a folder or in a .tar, sorted by name, without hidden files."""
    if is_tar(path):
        found = _tar(str(path), path.stat().st_mtime_ns)
    else:
        files = ((file, file.relative_to(path).as_posix()) for file in path.rglob("*") if file.is_file())
        found = {name: Bytes(str(file), name=name) for file, name in files}
    parts = {name: PurePosixPath(name).parts for name in found}
    shown = [name for name in found if not any(part.startswith(".") and part != "." for part in parts[name])]
    return {name: found[name] for name in sorted(shown, key=lambda name: parts[name])}


def find_member(path: Path, name: str) -> Bytes | None:
    """Find a file by name or, in a .tar, by the last part of its name if that is unique. In a folder, the ending may
    be missing (a for a.wav).
    """
    if not is_tar(path):
        file = path / Path(name).expanduser()
        if "\0" in name or file.is_dir():
            return None
        if not file.is_file():
            folder = file.parent
            named = _by_stem(str(folder), folder.stat().st_mtime_ns).get(file.name) if folder.is_dir() else None
            return Bytes(named, name=name) if named else None
        return Bytes(str(file), name=name)
    changed = path.stat().st_mtime_ns
    return _tar(str(path), changed).get(name.removeprefix("./")) or _by_last_part(str(path), changed).get(name)


def find_file(word: str, what: str) -> Bytes:
    """Return the location of a file, or of a member of a .tar (all.tar/a.jpg)."""
    path = Path(word).expanduser()
    if path.is_file():
        return Bytes(str(path), name=word)
    for parent in path.parents:
        if is_tar(parent):
            if (member := find_member(parent, path.relative_to(parent).as_posix())) is None:
                raise CallError(f"{word}: there is no such file in {parent}")
            return member._replace(name=word)
    raise CallError(f"{word}: there is no such {what}")


def files_named(words: Iterable[str], is_one: Callable[[str], bool], what: str) -> list[str]:
    """Replace folders and .tar files in a list of words by all files that they contain."""
    found: list[str] = []
    for word in filter(str.strip, words):
        path = Path(word).expanduser()
        if not path.is_dir() and not is_tar(path):
            found.append(word)
        elif inside := [str(Path(word) / name) for name in members(path) if is_one(name)]:
            found += inside
        else:
            raise CallError(f"{word}: there is no {what} in it")
    return found


class SiblingFiles:
    """Return the texts for media files: x.txt for x.wav, or a line of any *.trans.txt that starts with x."""

    def __init__(self, files: Mapping[str, Bytes]) -> None:
        self._files = files
        self._lines: dict[str, str] = {}
        for name, place in files.items():
            if name.endswith(TRANSCRIPTS):
                try:
                    lines = place.read().decode("utf-8-sig").split("\n")
                except UnicodeDecodeError as problem:
                    raise CallError(f"{place.path}: byte {problem.start + 1} of {name} is not UTF-8") from None
                for line in filter(str.strip, lines):
                    stem, _, text = line.strip().partition(" ")
                    self._lines[str(PurePosixPath(name).parent / stem)] = text

    def text(self, name: str) -> str | None:
        """Decode as UTF-8; raises UnicodeDecodeError."""
        place = self._files.get(str(PurePosixPath(name).with_suffix(".txt")))
        if place is None:
            return self._lines.get(str(PurePosixPath(name).with_suffix("")))
        return " ".join(place.read().decode("utf-8-sig").split())


@lru_cache(maxsize=8)
def _tar(path: str, changed: int) -> dict[str, Bytes]:
    try:
        with tarfile.open(path) as archive:
            return {
                one.name.removeprefix("./"): Bytes(path, one.offset_data, one.size, one.name)
                for one in archive
                if one.isreg() and not one.sparse
            }
    except (tarfile.TarError, EOFError, OSError) as problem:
        raise CallError(f"{path}: cannot be read as a .tar ({problem}); copy or download it again") from None


@lru_cache(maxsize=8)
def _by_last_part(path: str, changed: int) -> dict[str, Bytes]:
    """Map names without folders to files, for lists that omit the folder. Duplicate names are left out."""
    found: dict[str, Bytes | None] = {}
    for name, place in _tar(path, changed).items():
        last = PurePosixPath(name).name
        found[last] = None if last in found else place
    return {name: place for name, place in found.items() if place is not None}


@lru_cache(maxsize=8)
def _by_stem(path: str, changed: int) -> dict[str, str]:
    """Map names without endings to the files of a folder. Duplicate names are left out."""
    found: dict[str, str | None] = {}
    for file in Path(path).iterdir():
        if file.is_file():
            found[file.stem] = None if file.stem in found else str(file)
    return {stem: file for stem, file in found.items() if file is not None}


@lru_cache(maxsize=2)
def _unpack_index(path: str, changed: int) -> Any:
    opened = tarfile.open(path).fileobj  # noqa: SIM115 (it stays open for the next member)
    assert opened is not None
    return opened


# Settings of pictures and recordings in files, with their targets.


class MediaSettings(FilesSettings):
    """Where pictures or recordings and their targets are, how many may be bad, and how many are held out."""

    testing: ClassVar[Testing] = Testing(most=1000)

    files: str | None = Field(None, description="lists: folder or .tar of the files; by default the list's folder")
    split: str | None = Field(None, description="lists: column with train, valid or test, if one list has all splits")
    name_text: str | None = Field(
        None, description="folders and tars: regular expression for the text in a file name: (?P<text>...)"
    )
    valid_names: str | None = Field(None, description="regular expression for names of validation files")
    test_names: str | None = Field(None, description="regular expression for names of test files")
    valid_share: float = held_out(0.05)
    valid_most: int = Field(500, ge=1, description="about how many training items to hold out for validation at most")

    @property
    @abstractmethod
    def columns(self) -> Columns:
        """Columns of lists. `folders`: in folders and tars, the sub-folders name the classes."""

    @property
    def brings(self) -> tuple[Literal["valid", "test"], ...]:
        names: dict[Literal["valid", "test"], str | None] = {"valid": self.valid_names, "test": self.test_names}
        return tuple(role for role, pattern in names.items() if self.split or pattern)

    def problems(self) -> Iterator[tuple[str, str]]:
        patterns = {"name_text": self.name_text, "valid_names": self.valid_names, "test_names": self.test_names}
        for name, pattern in patterns.items():
            try:
                groups = re.compile(pattern or "").groupindex
            except re.error as problem:
                yield name, f"is no regular expression: {problem}"
            else:
                if name == "name_text" and pattern is not None and "text" not in groups:
                    yield name, "must have a group (?P<text>...): that is the text"


# Pictures or recordings and their targets, from the user's files. Nothing is decoded here.
#
#     data.train=sounds/            a folder (or .tar, .tar.gz) with a sub-folder for each class: classify
#     data.train=calls/             a folder (or .tar, ...) of x.wav with its text in x.txt next to it, or in a line
#     of
#                                   any *.trans.txt that starts with x
#       data.name_text=REGEX        ... or in the name of the file
#     data.train=captions.tsv       a list: a file name and a text a line (.tsv, .csv, .jsonl, .parquet)
#       data.files=images.tar       ... whose files are in a folder or a .tar, if not next to the list
#       data.split=split            ... where one list has all splits, and a column with train, valid or test
#     data.train=corpus:shapes      a corpus of regard
#
# Several lines on one file become one entry with several texts.

_NUMBER = re.compile(r"#\d+$")  # in a.jpg#0: number of the text, as in Flickr's lists


@dataclass(frozen=True)
class Entry:
    """Picture or recording with its targets. Line `line` of `file` named it first; 0 if no line did.

    `gold`: annotations of a corpus. `place`: its location, or the item itself; None once it is in a store.
    """

    name: str
    texts: tuple[str, ...]
    file: str
    line: int = 0
    gold: tuple[Any, ...] = ()
    place: Any = None

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True)
class MediaSource(FileSource[Entry]):
    """Source of `data.train` (or valid, or test); the fields are those of `MediaSettings`."""

    files: str | None = None
    name_text: str | None = None
    valid_names: str | None = None
    test_names: str | None = None

    what: ClassVar[str]  # picture, recording

    @classmethod
    def of(cls, settings: MediaSettings, where: str, role: Role) -> Any:
        s, columns = settings, replace(settings.columns, split=settings.split)
        return cls(where, role, columns, s.format, s.files, s.name_text, s.valid_names, s.test_names)

    @classmethod
    @abstractmethod
    def is_one(cls, name: str) -> bool:
        """Whether a file of this name is a picture or recording."""

    @classmethod
    def may_be_one(cls, name: str) -> bool:
        """Like `is_media`, in a folder that contains only data."""
        return cls.is_one(name)

    @abstractmethod
    def corpus(self) -> Iterator[Entry]:
        """Return the items of `corpus:NAME`."""

    @classmethod
    def find(cls, word: str) -> Bytes | Any:
        """Find what a word of a command line names: a file or a corpus item (corpus:NAME#7)."""
        if not word.startswith(PREFIX):
            return find_file(word, cls.what)
        name, _, row = word.partition("#")
        if not row.isdecimal():
            raise CallError(f"{word}: give the number of a {cls.what} of the test part, such as {name}#0")
        for entry in islice(cls(name, "test").corpus(), int(row), None):
            return entry.place
        raise CallError(f"{word}: the test part of {name} has no {cls.what} {row}")

    def read(self) -> Iterator[Entry | SkippedLine]:
        """Yield each item once, with all its texts, and all bad ones."""
        for item in self._all():
            if isinstance(item, SkippedLine) or self._takes(item.name):
                yield item

    def _takes(self, name: str) -> bool:
        """Return the files that are already used by another role."""
        names = {"valid": self.valid_names, "test": self.test_names}
        if (wanted := names.get(self.role)) is not None:
            return re.search(wanted, name) is not None
        others = (pattern for role, pattern in names.items() if role != self.role and pattern is not None)
        return not any(re.search(pattern, name) for pattern in others)

    def _all(self) -> Iterable[Entry | SkippedLine]:
        if self.where.startswith(PREFIX):
            return self._called(self.corpus())
        path = files_of(self.where)[0] if is_pattern(self.where) else Path(self.where).expanduser()
        if not path.exists():
            raise CallError(f"{self.name}: there is no such file or folder")
        if path.is_dir() or is_tar(path):
            return self._folder(path)
        if path.suffix and self.is_one(path.name):
            raise CallError(f"{self.name}: is one {self.what}; give a list of files and texts, a folder or a .tar")
        return self._list(path)

    def _called(self, items: Iterable[Entry | SkippedLine]) -> Iterator[Entry | SkippedLine]:
        """Normalize texts (`data.spoken` and the like) in folders; lists do so line by line."""
        called = self.columns.target_text
        for item in items:
            if called is None or isinstance(item, SkippedLine):
                yield item
            else:
                yield replace(item, texts=tuple(str(called(text)) for text in item.texts))

    # --------------------------------------------------------------------------------------------------------- folders
    def _folder(self, path: Path) -> Iterator[Entry | SkippedLine]:
        files = members(path)
        wanted = [name for name in files if self.may_be_one(name)]
        if self.columns.folders and self.name_text is None:
            self._require_classes({PurePosixPath(name).parts[0] for name in wanted if "/" in name})
        beside = SiblingFiles(files)
        return self._called(self._entry(str(path / name), name, files, beside) for name in wanted)

    def _require_classes(self, classes: Collection[str]) -> None:
        if not classes:
            raise CallError(f"{self.name}: a folder needs a sub-folder for each class, with {self.what}s in it")
        roles = {role: name for role, names in SPLIT_NAMES.items() for name in classes if name.lower() in names}
        if len(classes) > 1 and len(roles) == len(classes):
            inside = " ".join(f"data.{role}={self.where.rstrip('/')}/{name}" for role, name in roles.items())
            raise CallError(f"{self.name}: its classes are called {' and '.join(sorted(classes))}: give {inside}")

    def _entry(self, file: str, name: str, files: Mapping[str, Bytes], beside: SiblingFiles) -> Entry | SkippedLine:
        """Return an entry: its text is in its name or in a neighboring file, its class is the sub-folder."""
        if self.name_text is not None:
            match = re.search(self.name_text, name)
            if match is None:
                return SkippedLine(file, 0, "columns", f"data.name_text={self.name_text!r} finds no text in its name")
            text = match["text"]
        elif self.columns.folders:
            if "/" not in name:
                return SkippedLine(file, 0, "columns", "is in no sub-folder; put it in the sub-folder of its class")
            text = PurePosixPath(name).parts[0]
        else:
            try:
                text = beside.text(name)
            except UnicodeDecodeError as problem:
                return SkippedLine(file, 0, "encoding", f"byte {problem.start + 1} of its .txt is not UTF-8")
            if text is None:
                return SkippedLine(file, 0, "empty", "it has no text: add a .txt file of the same name")
        return (
            Entry(name, (text,), file, place=files[name])
            if text.strip()
            else SkippedLine(file, 0, "empty", "has no text")
        )

    # ----------------------------------------------------------------------------------------------------------- lists
    def _list(self, path: Path) -> Iterator[Entry | SkippedLine]:
        root = files_root(self.files, path)
        texts: dict[str, list[str]] = {}
        lines: dict[str, int] = {}
        for item in PairSource(self.where, self.role, self.columns, self.format).read():
            if isinstance(item, SkippedLine):
                yield item
            else:
                name = _NUMBER.sub("", item.source)
                texts.setdefault(name, []).append(item.target)
                lines.setdefault(name, item.line)
        for name, said in texts.items():
            place = find_member(root, name)
            if place is None:
                reason = f"there is no {self.what} {name!r} in {root}"
                yield SkippedLine(str(path), lines[name], "not found", reason, lines=len(said))
            else:
                yield Entry(name, tuple(said), str(path), lines[name], place=place)

    def paths(self) -> list[Path]:
        """Return the files that a list names as well; a change to one invalidates the cache."""
        found = super().paths()
        if not found or Path(self.where).expanduser().is_dir():
            return found
        places = (item.place for item in self.read() if isinstance(item, Entry))
        return [*found, *sorted({Path(place.path) for place in places if isinstance(place, Bytes)})]


def files_root(files: str | None, listed: Path) -> Path:
    """Folder or .tar of the files of a list: data.files, or the list's folder."""
    if files is None:
        return listed.parent
    root = Path(files).expanduser()
    if not root.is_dir() and not is_tar(root):
        wrong = f"give a folder or a {', '.join(TARS)}" if root.exists() else "there is no such folder or .tar"
        raise CallError(f"data.files={files}: {wrong}")
    return root
