"""Pictures or recordings and their targets, from the user's files. Nothing is decoded here.

    data.train=sounds/            a folder (or .tar, .tar.gz) with a sub-folder for each class: classify
    data.train=calls/             a folder (or .tar, ...) of x.wav with its text in x.txt next to it, or in a line of
                                  any *.trans.txt that starts with x
      data.name_text=REGEX        ... or in the name of the file
    data.train=captions.tsv       a list: a file name and a text a line (.tsv, .csv, .jsonl, .parquet)
      data.files=images.tar       ... whose files are in a folder or a .tar, if not next to the list
      data.split=split            ... where one list has all splits, and a column with train, valid or test
    data.train=corpus:shapes      a corpus of regard

Several lines on one file become one entry with several texts.
"""

import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from regard.corpora import PREFIX
from regard.data.files import PairSource, Source
from regard.data.pairs import Bad
from regard.data.tables import SPLIT_NAMES, Role
from regard.errors import CallError
from regard.files.shards import files_of, is_pattern
from regard.inputs.media_files import TARS, Beside, Bytes, find_file, find_member, is_tar, members
from regard.inputs.media_settings import MediaSettings

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
class MediaSource(Source[Entry]):
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

    def read(self) -> Iterator[Entry | Bad]:
        """Yield each item once, with all its texts, and all bad ones."""
        for item in self._all():
            if isinstance(item, Bad) or self._takes(item.name):
                yield item

    def _takes(self, name: str) -> bool:
        """Return the files that are already used by another role."""
        names = {"valid": self.valid_names, "test": self.test_names}
        if (wanted := names.get(self.role)) is not None:
            return re.search(wanted, name) is not None
        others = (pattern for role, pattern in names.items() if role != self.role and pattern is not None)
        return not any(re.search(pattern, name) for pattern in others)

    def _all(self) -> Iterable[Entry | Bad]:
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

    def _called(self, items: Iterable[Entry | Bad]) -> Iterator[Entry | Bad]:
        """Normalize texts (`data.spoken` and the like) in folders; lists do so line by line."""
        called = self.columns.target_text
        for item in items:
            if called is None or isinstance(item, Bad):
                yield item
            else:
                yield replace(item, texts=tuple(str(called(text)) for text in item.texts))

    # --------------------------------------------------------------------------------------------------------- folders
    def _folder(self, path: Path) -> Iterator[Entry | Bad]:
        files = members(path)
        wanted = [name for name in files if self.may_be_one(name)]
        if self.columns.folders and self.name_text is None:
            self._require_classes({PurePosixPath(name).parts[0] for name in wanted if "/" in name})
        beside = Beside(files)
        return self._called(self._entry(str(path / name), name, files, beside) for name in wanted)

    def _require_classes(self, classes: Collection[str]) -> None:
        if not classes:
            raise CallError(f"{self.name}: a folder needs a sub-folder for each class, with {self.what}s in it")
        roles = {role: name for role, names in SPLIT_NAMES.items() for name in classes if name.lower() in names}
        if len(classes) > 1 and len(roles) == len(classes):
            inside = " ".join(f"data.{role}={self.where.rstrip('/')}/{name}" for role, name in roles.items())
            raise CallError(f"{self.name}: its classes are called {' and '.join(sorted(classes))}: give {inside}")

    def _entry(self, file: str, name: str, files: Mapping[str, Bytes], beside: Beside) -> Entry | Bad:
        """Return an entry: its text is in its name or in a neighboring file, its class is the sub-folder."""
        if self.name_text is not None:
            match = re.search(self.name_text, name)
            if match is None:
                return Bad(file, 0, "columns", f"data.name_text={self.name_text!r} finds no text in its name")
            text = match["text"]
        elif self.columns.folders:
            if "/" not in name:
                return Bad(file, 0, "columns", "is in no sub-folder; put it in the sub-folder of its class")
            text = PurePosixPath(name).parts[0]
        else:
            try:
                text = beside.text(name)
            except UnicodeDecodeError as problem:
                return Bad(file, 0, "encoding", f"byte {problem.start + 1} of its .txt is not UTF-8")
            if text is None:
                return Bad(file, 0, "empty", "it has no text: add a .txt file of the same name")
        return Entry(name, (text,), file, place=files[name]) if text.strip() else Bad(file, 0, "empty", "has no text")

    # ----------------------------------------------------------------------------------------------------------- lists
    def _list(self, path: Path) -> Iterator[Entry | Bad]:
        root = files_root(self.files, path)
        texts: dict[str, list[str]] = {}
        lines: dict[str, int] = {}
        for item in PairSource(self.where, self.role, self.columns, self.format).read():
            if isinstance(item, Bad):
                yield item
            else:
                name = _NUMBER.sub("", item.source)
                texts.setdefault(name, []).append(item.target)
                lines.setdefault(name, item.line)
        for name, said in texts.items():
            place = find_member(root, name)
            if place is None:
                reason = f"there is no {self.what} {name!r} in {root}"
                yield Bad(str(path), lines[name], "not found", reason, lines=len(said))
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
