"""What lies in a folder or an archive: its files by what they are, and the parts that their names speak of."""

import re
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Generic, TypeVar

from regard.auto.columns import PICTURES, RECORDINGS, SPLITS
from regard.data.columns import LANGUAGES
from regard.data.conll import is_conll
from regard.data.tables import SPLIT_NAMES, Role
from regard.errors import CallError
from regard.files.lines import PACKED, ending, raw_lines
from regard.files.shards import grouped, pattern_of

MOST = 200_000  # files that are listed; a folder that has more is looked at no further
TABLES = frozenset((".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet", ".arrow", ".tmx", ".ts", ".tsf", ".arff"))
_TEXTS = frozenset((".txt", ".text", ".md", ".tokens"))
ROWS = frozenset((".conll", ".conllu", ".iob", ".bio", ".json", ".npz", ".npy"))
#: What is fetched of a data set of the hub: its card (README.md) and its scripts are no data.
DATA_FILES = sorted(f"*{ending}" for ending in (TABLES | _TEXTS | ROWS | PICTURES | RECORDINGS) - {".md"})
T = TypeVar("T")
#: Words of names, and the part that they speak of; CoNLL calls the second test set testb, and validates on testa.
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
        return self.of(TABLES)

    @cached_property
    def others(self) -> list[str]:
        """Files of words and tags, and objects."""
        return self.of(ROWS)

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


def role_of(name: str) -> Role | None:
    """The part that a name speaks of, alone or inside a longer one: train.csv, wnut17train.conll, ECG200_TEST.ts."""
    found: set[Role] = {_ROLES[word] for word in _words(name) if word in _ROLES}
    return found.pop() if len(found) == 1 else None


def _words(name: str) -> list[str]:
    """The words of a name, which digits, marks and capitals separate, without what is added to train and test."""
    words = [word.lower() for word in _WORD.findall(name)]
    return [_ADDED.sub("", word) if _ADDED.sub("", word) in _ROLES else word for word in words]


def _family(name: str) -> tuple[str, ...]:
    """What files of one data set have in common: their names without numbers and the part that each of them is."""
    return tuple(word for word in _words(name) if word not in _ROLES)


@dataclass(frozen=True)
class Parts(Generic[T]):
    """train, valid and test of a folder; nothing, if no name speaks of train. `unused`: more of valid or test."""

    by_role: dict[Role, T]
    unused: Sequence[T] = ()


def _parts(place: Path, named: Mapping[str, T], called: Callable[[T], str]) -> Parts[T]:
    """What names say. `called`: what a command calls each of them. Several for training are refused with a command for
    each, which has the others of its family."""
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
    return Parts(found, unused)


def parts_of(place: Path) -> Parts[Path]:
    """Sub-folders or files that are train, valid and test, by their names; shards of a part come as one pattern. A
    folder that has nothing but a folder is that folder."""
    inside = [path for path in sorted(place.iterdir()) if not path.name.startswith(".")] if place.is_dir() else []
    if len(inside) == 1 and inside[0].is_dir():
        return parts_of(inside[0])
    lists = {path.stem for path in inside if path.is_file() and ending(path) in TABLES}
    if any(path.name in lists and _is_flat(path) for path in inside):  # files, and a list of them under the same name
        return Parts({})
    parts = [path for path in inside if _may_be_part(path)]
    if any(path.is_file() and role_of(path.name) == "train" for path in parts):  # a list, and what it lists
        parts = [path for path in parts if not _is_flat(path)]
    groups = [group for role in SPLIT_NAMES for group in _groups([one for one in parts if role_of(one.name) == role])]
    return _parts(place, {group[0].name: pattern_of(group) for group in groups}, str)


def _groups(paths: list[Path]) -> list[list[Path]]:
    """A folder, or files with their shards together. Of one text in several formats, that which says most is taken."""
    if folders := [path for path in paths if path.is_dir()]:
        return [folders[:1]]
    groups = grouped(paths)
    ranks = [_RANKS.index(end) if (end := ending(group[0])) in _RANKS else 0 for group in groups]
    return [group for group, rank in zip(groups, ranks, strict=True) if rank == min(ranks)]


def _may_be_part(path: Path) -> bool:
    """Whether it is data: what has an unknown ending is so if it holds words with a tag a line (eng.train)."""
    if (role := role_of(path.name)) is None:
        return False
    if path.is_dir():  # of a longer name, one of pictures alone belongs to a list elsewhere: train2017
        return path.name.lower() in SPLIT_NAMES[role] or not _is_flat(path)
    known = TABLES | _TEXTS | ROWS
    return ending(path) in known or (ending(path) not in PICTURES | RECORDINGS and is_conll(path))


def _is_flat(path: Path) -> bool:
    return path.is_dir() and not any(inner.is_dir() for inner in path.iterdir())


def parallel_files(place: Path) -> Parts[tuple[Path, Path]]:
    """Files that come in two, whose names differ in a language or a side alone: train.en and train.de, src-val.txt and
    tgt-val.txt; and with them valid and test."""
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
    return Parts({"train": next(iter(pairs.values()))}) if len(pairs) == 1 and not found.by_role else found


def _side(path: Path) -> tuple[str, int] | None:
    """The name without the language or side that it speaks of, and the place of that side: 1 of targets."""
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
    """Whether a name ends in a language that is known, or in a code of two letters."""
    name = path.name.removesuffix(path.suffix) if path.suffix.lower() in PACKED else path.name
    last = name.rpartition(".")[2]
    return last.lower() in LANGUAGES | _SIDES.keys() or bool(re.fullmatch(r"[a-z]{2}([-_][A-Za-z]{2,4})?", last))


def _as_long(one: Path, other: Path) -> bool:
    first, second = (sum(1 for _ in raw_lines(path)) for path in (one, other))
    return first == second
