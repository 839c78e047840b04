"""One part of the data in several files: train-00000-of-00003.jsonl, train_1.csv, part-0001.parquet.

A pattern names all of them (data.train='data/train-?????-of-00003.jsonl'). They are read in the order of their numbers.
"""

import glob
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.errors import CallError

_NUMBER = re.compile(r"(\d+)")
_OF = re.compile(r"-of-(\d+)")


def is_pattern(where: Path | str) -> bool:
    """Return whether a path is a pattern, not an existing file or folder, or two parallel files."""
    if not any(mark in str(where) for mark in "*?["):
        return False
    return not any(Path(one).expanduser().exists() for one in (str(where), *str(where).split(",")))


def files_of(where: Path | str) -> list[Path]:
    """Return the files of a pattern in the order of their numbers; a path without a pattern is one file."""
    path = Path(where).expanduser()
    if not is_pattern(path):
        return [path]
    return sorted(
        (found for name in glob.glob(str(path), recursive=True) if (found := Path(name)).is_file()), key=_order
    )


def pattern_of(files: Sequence[Path]) -> Path:
    """Return a pattern that matches exactly these shards; for a single file, the file."""
    names = [_NUMBER.split(file.name) for file in files]
    for digit, digits in (("?", "*"), ("[0-9]", "[0-9]*")):
        parts = [
            glob.escape(parts[0]) if len({*parts}) == 1 else digit * len(parts[0]) if _equally_long(parts) else digits
            for parts in zip(*names, strict=True)
        ]
        pattern = Path(glob.escape(str(files[0].parent))) / "".join(parts)
        if len(files) == 1 or files_of(pattern) == sorted(files, key=_order):
            return files[0] if len(files) == 1 else pattern
    raise CallError(f"{files[0].parent}: no pattern matches only {files[0].name} to {files[-1].name}; rename them")


def grouped(files: Iterable[Path]) -> list[list[Path]]:
    """Group shards, whose names differ in a number that counts from 0 or 1."""
    alike: dict[tuple[str, ...], list[Path]] = {}
    for file in sorted(files, key=_order):
        alike.setdefault((str(file.parent), *_OF.findall(file.name), *_NUMBER.split(file.name)[::2]), []).append(file)
    return [group for same in alike.values() for group in ([same] if _are_shards(same) else [[one] for one in same])]


def _are_shards(files: Sequence[Path]) -> bool:
    if said := _OF.search(files[0].name):
        if len(files) != int(said[1]):
            have = ", ".join(file.name for file in files[:5])
            raise CallError(
                f"{files[0].parent}: {len(files)} of {int(said[1])} shards are present ({have}): add the others"
            )
        return True
    numbers = [tuple(map(int, _NUMBER.findall(file.name))) for file in files]
    varying = [column for column in zip(*numbers, strict=True) if len({*column}) > 1]
    return (
        len(varying) == 1
        and varying[0][0] <= 1
        and [*varying[0]] == [*range(varying[0][0], varying[0][0] + len(files))]
    )


def _equally_long(texts: Sequence[str]) -> bool:
    return len({*map(len, texts)}) == 1


def _order(file: Path) -> list[tuple[int, str]]:
    """Sort by name, with numbers by value: train_2 before train_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBER.split(str(file))]
