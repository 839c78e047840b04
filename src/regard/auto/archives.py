"""Unpack a .zip or .tar that is given as data into the folder of its run, to read it like any other folder.

Nothing is written outside that folder: links, devices and names that lead out of it are skipped. An archive with too
many files or too high a compression ratio, or one that would fill the disk, is refused before anything is written.
"""

import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from regard.errors import CallError
from regard.files import atomic
from regard.inputs.media_files import TARS

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


def unpacked(archive: Path, into: Path, tell: Callable[[str], None] = lambda message: None) -> Path:
    """Unpack the archive and return the folder with its files. An existing folder is returned unchanged. If the archive
    holds only one folder, that folder is returned."""
    if into.is_dir():
        return _inner(into)
    tell(f"unpacking {archive} into {into}")
    try:
        with zipfile.ZipFile(archive) if archive.suffix.lower() == ".zip" else tarfile.open(archive) as opened:
            found = _bounded(_zip(opened) if isinstance(opened, zipfile.ZipFile) else _tar(opened), archive, into)
            atomic.write_folder(into, lambda folder: _write(found, folder))
    except (tarfile.TarError, zipfile.BadZipFile, NotImplementedError, EOFError, OSError, RuntimeError) as problem:
        raise CallError(f"{archive}: cannot be unpacked ({problem})") from None
    return _inner(into)


def _bounded(members: Iterator[Member], archive: Path, into: Path) -> list[Member]:
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
