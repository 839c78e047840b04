"""What lies in a folder or an archive: its files by what they are, and the parts that their names speak of."""

import re
import tarfile
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from regard.auto.columns import PICTURES, RECORDINGS, SPLITS
from regard.data.conll import is_conll
from regard.errors import CallError
from regard.files.lines import ending
from regard.files.shards import grouped, pattern_of

MOST = 200_000  # files that are listed; a folder that has more is looked at no further
_TABLES = frozenset((".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet", ".tmx"))
_TEXTS = frozenset((".txt", ".text", ".md"))
_OTHERS = frozenset((".conll", ".conllu", ".iob", ".bio", ".json"))
#: What is fetched of a data set of the hub: its card (README.md) and its scripts are no data.
DATA_FILES = sorted(f"*{ending}" for ending in (_TABLES | _TEXTS | _OTHERS | PICTURES | RECORDINGS) - {".md"})
_WORD = re.compile(r"[-_.]")
_LETTERS = re.compile(r"[a-z]+")
_ROLES = SPLITS | {"testa": "valid", "testb": "test"}  # as CoNLL-2002 and -2003 call them
_RANKS = ("", ".parquet", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".text", ".txt", ".md")


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


def parts_of(place: Path) -> tuple[dict[str, Path], list[Path]]:
    """train, valid and test, where a folder has sub-folders or files of such names; else nothing. And what is not used:
    more files for validation or testing.

    A file may have its part anywhere in its name: train.tsv, test-00000-of-00001.parquet, en_ewt-ud-dev.conllu,
    wnut17train.conll. Shards of a part come as one pattern. A folder that has nothing but a folder is that folder.
    """
    inside = [path for path in sorted(place.iterdir()) if not path.name.startswith(".")] if place.is_dir() else []
    if len(inside) == 1 and inside[0].is_dir():
        return parts_of(inside[0])
    lists = {path.stem for path in inside if path.is_file() and ending(path) in _TABLES}
    if any(path.name in lists and _is_flat(path) for path in inside):  # files, and a list of them under the same name
        return {}, []
    found: dict[str, list[Path]] = {}
    for path in inside:
        role = SPLITS.get(_WORD.split(path.name)[0].lower())
        if role is not None and (path.is_dir() or _may_be_part(path)):
            found.setdefault(role, []).append(path)
    if "train" not in found and not any(path.is_dir() for path in inside):
        found = {}
        for path in inside:
            roles = {_ROLES[word] for word in _LETTERS.findall(path.name.lower()) if word in _ROLES}
            if len(roles) == 1 and _may_be_part(path):
                found.setdefault(roles.pop(), []).append(path)
    if "train" not in found:
        return {}, []
    each = {role: _groups(paths) for role, paths in found.items()}
    if len(each["train"]) > 1:
        several = "".join(f"\n  regard train {pattern_of(group)}" for group in each["train"][:8])
        raise CallError(
            f"{place}: several files have 'train' in their names, and are no shards of one; say which:{several}"
        )
    parts = {role: pattern_of(groups[0]) for role, groups in each.items()}
    return parts, [file for groups in each.values() for group in groups[1:] for file in group]


def _may_be_part(path: Path) -> bool:
    return path.is_file() and (ending(path) in _TABLES | _TEXTS | _OTHERS or is_conll(path))


def _groups(paths: list[Path]) -> list[list[Path]]:
    """A folder, or files with their shards together. Of one text in several formats, that which says most is taken."""
    if folders := [path for path in paths if path.is_dir()]:
        return [folders[:1]]
    groups = grouped(paths)
    ranks = [_RANKS.index(end) if (end := ending(group[0])) in _RANKS else 0 for group in groups]
    return [group for group, rank in zip(groups, ranks, strict=True) if rank == min(ranks)]


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
