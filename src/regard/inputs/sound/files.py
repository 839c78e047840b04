"""The user's recordings with their texts, one after the other: from a list, a folder, a tar or a corpus of ours.

    data.train=list.tsv     a path and a text a line          data.train=calls/        x.wav, and x.txt beside it
    data.train=calls.tar    the same, packed                  data.train=corpus:tones
    of classes: a path and a label a line                     data.train=sounds/       dog/1.wav, cat/1.wav, ...

Sound is not read before it is asked for. What is no recording with a text becomes a `Bad` with its file and line.
"""

import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from regard.corpora.one_key import one_key
from regard.corpora.tones import Call, Segment, tones
from regard.data.files import PairSource
from regard.data.pairs import Bad
from regard.data.tables import Role, corpora_version
from regard.data.text_hash import text_hash
from regard.errors import CallError, RegardError, nearest
from regard.files.lines import LONGEST_LINE
from regard.inputs.sound.recording import ENDINGS, Sound, SoundError, read_sound, sound_files
from regard.inputs.sound.settings import RecordingSettings

LARGEST = 512 << 20  # bytes of a recording in an archive, which is unpacked into memory
CORPORA: dict[str, Callable[[str], Iterator[Call]]] = {"tones": tones, "one-key": one_key}


@dataclass(frozen=True)
class Recording:
    """A text and the sound of it; `name` is unique in its source, `file` and `line` are where it was found.

    `load` works while its source is being read: a tar is then open.
    """

    name: str
    text: str
    file: str
    line: int
    load: Callable[[], Sound]
    segments: tuple[Segment, ...] = ()  # when each piece of the text is heard, where that is known
    path: Path | None = None  # of a file of its own


@dataclass(frozen=True)
class SpeechSplit:
    """One of train, valid and test: all recordings of a source, or those that names or a hash of the name choose."""

    where: str
    role: Role
    settings: RecordingSettings
    part: Literal["all", "kept", "held out"] = "all"
    share: float = 0.0

    def read(self) -> Iterator[Recording | Bad]:
        limit = int(self.share * 2**64)
        for item in _read(self.where, self.role, self.settings):
            if isinstance(item, Bad):
                if self.part != "held out":  # once is enough
                    yield item
            elif self._takes(item.name) and (
                self.part == "all" or (text_hash(item.name, b"held out") < limit) == (self.part == "held out")
            ):
                yield item

    def _takes(self, name: str) -> bool:
        """Files that are named for one role serve no other."""
        names = {"valid": self.settings.valid_names, "test": self.settings.test_names}
        wanted = names.get(self.role)
        if wanted is not None:
            return re.search(wanted, name) is not None
        others = (pattern for role, pattern in names.items() if role != self.role and pattern is not None)
        return not any(re.search(pattern, name) for pattern in others)

    def inputs(self) -> list[Any]:
        """What the recordings depend on, for the cache."""
        s = self.settings
        how = [self.where, self.role, self.part, self.share, s.format, repr(s.columns)]
        how += [s.name_text, s.valid_names, s.test_names]
        if self.where.startswith("corpus:"):
            return [*how, corpora_version()]
        place = Path(self.where).expanduser()
        files = sorted(place.rglob("*")) if place.is_dir() else [place, *self._listed()]
        seen = ((path, path.stat()) for path in files if path.is_file())
        return [*how, *([str(path.resolve()), stat.st_size, stat.st_mtime_ns] for path, stat in seen)]

    def _listed(self) -> list[Path]:
        """The recordings of a list: the cache is old when one of them has changed."""
        items = _read(self.where, self.role, self.settings)
        return [item.path for item in items if isinstance(item, Recording) and item.path is not None]

    def __str__(self) -> str:
        return self.where if self.part == "all" else f"{self.where} ({self.part})"


def speech_split(settings: RecordingSettings, role: Role) -> SpeechSplit | None:
    """Where the settings say that recordings of a role come from. A corpus brings all three."""
    wheres = {"train": settings.train, "valid": settings.valid, "test": settings.test}
    names = {"train": None, "valid": settings.valid_names, "test": settings.test_names}
    where = wheres[role]
    if where is None and (names[role] is not None or settings.train.startswith("corpus:")):
        where = settings.train
    return None if where is None else SpeechSplit(where, role, settings)


def speech_splits(settings: RecordingSettings) -> dict[Role, SpeechSplit]:
    """The splits there are. Without validation data, a part of the training data is held out."""
    train, valid, test = (speech_split(settings, role) for role in ("train", "valid", "test"))
    assert train is not None
    if valid is None:
        count = sum(isinstance(item, Recording) for item in train.read())
        share = min(settings.valid_share, settings.valid_most / max(1, count))
        valid = replace(train, part="held out", share=share)
        train = replace(train, part="kept", share=share)
    found: dict[Role, SpeechSplit] = {"train": train, "valid": valid}
    return found if test is None else {**found, "test": test}


def _read(where: str, role: Role, settings: RecordingSettings) -> Iterator[Recording | Bad]:
    if where.startswith("corpus:"):
        return _corpus(where, role)
    place = Path(where).expanduser()
    if not place.exists():
        raise CallError(f"data.{role}={where}: there is no such file or folder")
    if place.is_dir():
        return _folder(place, settings)
    if tarfile.is_tarfile(place):
        return _tar(place, settings)
    if place.suffix.lower() in ENDINGS:
        raise CallError(f"data.{role}={where}: is one recording; give a list of paths and texts, a folder or a tar")
    return _list(where, role, settings)


def _corpus(where: str, role: Role) -> Iterator[Recording]:
    name = where.removeprefix("corpus:")
    if name not in CORPORA:
        raise CallError(f"there is no corpus of recordings {name!r}{nearest(name, CORPORA)}")
    for row, call in enumerate(CORPORA[name](role), start=1):
        sound = Sound(call.samples, call.rate)
        yield Recording(f"{role} {row}", call.text, where, row, lambda sound=sound: sound, call.segments)


def _list(where: str, role: Role, settings: RecordingSettings) -> Iterator[Recording | Bad]:
    """Paths are taken from the folder that the list is in."""
    base = Path(where).expanduser().parent
    for item in PairSource(where, role, settings.format, settings.columns).read():
        if isinstance(item, Bad):
            yield item
        else:
            path = base / Path(item.source).expanduser()
            yield Recording(
                item.source, item.target, item.file, item.line, lambda path=path: read_sound(path), path=path
            )


def _folder(folder: Path, settings: RecordingSettings) -> Iterator[Recording | Bad]:
    by_class = settings.columns.folders and settings.name_text is None
    if by_class and all(path.parent == folder for path in sound_files(folder)):
        raise CallError(f"{folder}: a folder needs a sub-folder for each class, with recordings in it")
    for row, path in enumerate(sound_files(folder), start=1):
        name, beside = path.relative_to(folder).as_posix(), path.with_suffix(".txt")
        told = beside.read_bytes() if beside.is_file() else None
        text = _text(settings, name, told, str(path), row)
        yield (
            text if isinstance(text, Bad) else Recording(name, text, str(path), row, lambda path=path: read_sound(path))
        )


def _tar(file: Path, settings: RecordingSettings) -> Iterator[Recording | Bad]:
    try:
        with tarfile.open(file) as packed:
            members = {member.name: member for member in packed if member.isreg() and not member.sparse}

            def content(name: str) -> bytes:
                if members[name].size > LARGEST:
                    raise SoundError(f"has {members[name].size:,} bytes, more than {LARGEST:,}: unpack the archive")
                handle = packed.extractfile(members[name])
                assert handle is not None  # it is a file
                return handle.read()

            names = sorted(name for name in members if PurePosixPath(name).suffix.lower() in ENDINGS)
            for row, name in enumerate(names, start=1):
                beside = str(PurePosixPath(name).with_suffix(".txt"))
                told = content(beside) if beside in members and members[beside].size <= LONGEST_LINE else None
                text = _text(settings, name, told, f"{file}:{name}", row)
                yield (
                    text
                    if isinstance(text, Bad)
                    else Recording(name, text, f"{file}:{name}", row, lambda name=name: read_sound(content(name)))
                )
    except (tarfile.TarError, EOFError, OSError) as problem:
        raise RegardError(f"{file}: cannot be unpacked ({problem}); copy or download it again") from None


def _text(settings: RecordingSettings, name: str, told: bytes | None, file: str, row: int) -> str | Bad:
    """The text of a recording in a folder or tar: in its name, or in the file beside it; its class: the sub-folder."""
    columns = settings.columns
    if settings.name_text is not None:
        match = re.search(settings.name_text, name)
        if match is None:
            return Bad(file, row, "columns", f"data.name_text={settings.name_text!r} finds no text in its name")
        text = match["text"]
    elif columns.folders:
        if len(PurePosixPath(name).parts) < 2:
            return Bad(file, row, "columns", "is in no sub-folder; there has to be one for each class")
        text = PurePosixPath(name).parts[0]
    elif told is None:
        return Bad(file, row, "empty", "there is no text beside it: give it a .txt of the same name")
    else:
        try:
            text = " ".join(told.decode("utf-8-sig").split())
        except UnicodeDecodeError as problem:
            return Bad(file, row, "encoding", f"byte {problem.start + 1} of its .txt is not UTF-8")
    if not text.strip():
        return Bad(file, row, "empty", "its text is empty")
    return text if columns.target_text is None else str(columns.target_text(text))
