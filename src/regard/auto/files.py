"""What lies in a folder or an archive: its files by what they are, and the parts that their names speak of."""

import re
import tarfile
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from regard.auto.columns import PICTURES, RECORDINGS, SPLITS
from regard.errors import CallError
from regard.files.lines import ending

MOST = 200_000  # files that are listed; a folder that has more is looked at no further
_TABLES = frozenset((".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet", ".tmx"))
_TEXTS = frozenset((".txt", ".text", ".md"))
_OTHERS = frozenset((".conll", ".iob", ".bio", ".json"))
#: What is fetched of a data set of the hub: its card (README.md) and its scripts are no data.
DATA_FILES = sorted(f"*{ending}" for ending in (_TABLES | _TEXTS | _OTHERS | PICTURES | RECORDINGS) - {".md"})
_WORD = re.compile(r"[-_.]")


@dataclass(frozen=True)
class Files:
    """A folder or a tar, by the paths of what is in it."""

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
        return self.of(_TABLES)

    @cached_property
    def texts(self) -> list[str]:
        """Also those without an ending, in sub-folders."""
        return [name for name in self.names if (end := ending(Path(name))) in _TEXTS or (not end and "/" in name)]

    def classes(self, names: list[str]) -> Counter[str]:
        """How many of these files lie in each sub-folder, if all of them lie in one, and there are two at least."""
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


def parts_of(place: Path) -> dict[str, Path]:
    """train, valid and test, where a folder has sub-folders or files of such names, as train.tsv or
    test-00000-of-00001.parquet; else nothing. A folder that has nothing but a folder is that folder."""
    inside = [path for path in sorted(place.iterdir()) if not path.name.startswith(".")] if place.is_dir() else []
    if len(inside) == 1 and inside[0].is_dir():
        return parts_of(inside[0])
    found: dict[str, Path] = {}
    lists = {path.stem for path in inside if path.is_file() and ending(path) in _TABLES}
    if any(path.name in lists and _is_flat(path) for path in inside):  # files, and a list of them under the same name
        return {}
    for path in inside:
        role = SPLITS.get(_WORD.split(path.name)[0].lower())
        if role is None or not (path.is_dir() or ending(path) in _TABLES | _TEXTS | _OTHERS):
            continue
        if path.is_file() and role in found and ending(path) == ".parquet":
            raise CallError(
                f"{place}: {role} is in several files ({found[role].name}, {path.name}): join them, or say one"
            )
        found.setdefault(role, path)
    return found if "train" in found else {}


def _is_flat(path: Path) -> bool:
    return path.is_dir() and not any(inner.is_dir() for inner in path.iterdir())


def parallel_files(place: Path) -> dict[str, tuple[Path, Path]]:
    """Files that come in two: train.en and train.de, and with them valid and test; else nothing."""
    by_stem: dict[str, list[Path]] = {}
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        stem = path.name.partition(".")[0]
        if path.is_file() and ending(path) not in _TABLES | _TEXTS | PICTURES | RECORDINGS | {".json", ""}:
            by_stem.setdefault(stem, []).append(path)
    pairs = {stem: files for stem, files in by_stem.items() if len(files) == 2}
    found: dict[str, tuple[Path, Path]] = {}
    for stem, files in pairs.items():
        role = SPLITS.get(stem.split("_")[0].split("-")[0].lower(), "train" if len(pairs) == 1 else None)
        if role is not None:
            found.setdefault(role, (files[0], files[1]))
    return found if "train" in found else {}
