"""Files of a folder or a .tar by name, and the location of their bytes. Nothing is unpacked."""

import tarfile
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any, NamedTuple

from regard.errors import CallError

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
                return _part(_unpacked(self.path, Path(self.path).stat().st_mtime_ns), self)
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


class Beside:
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
def _unpacked(path: str, changed: int) -> Any:
    opened = tarfile.open(path).fileobj  # noqa: SIM115 (it stays open for the next member)
    assert opened is not None
    return opened
