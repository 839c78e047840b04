"""Pictures of one form on disk, mapped into memory when they are read: decoded once, by all cores, and never again.

    pixels        all pictures one after the other, C × H × W bytes each
    hashes        64 bits of each picture's pixels, for finding those that occur twice; uint64
    entries.json  names, texts, lines and boxes
    store.json    the form, and what was counted on the way; written last

A broken file is found here, before training, and is skipped: batches are made of pictures that are known to be good.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray

from regard.corpora.pictures import Noun
from regard.data.pairs import Bad
from regard.data.read_report import FIRST, ReadReport
from regard.errors import RegardError
from regard.inputs.image.decode import BadPictureError, Decoded, Form, from_array
from regard.inputs.image.sources import Entry
from regard.inputs.image.worker import Bytes, decode_all

VERSION = 1
_AT_ONCE = 4096  # pictures between two looks at the workers; what is held in memory is far less


@dataclass(frozen=True)
class Kept:
    """A picture of the store, without its pixels."""

    name: str
    texts: tuple[str, ...]
    file: str
    line: int
    nouns: tuple[tuple[Noun, ...], ...] = ()


@dataclass
class Notes:
    """What was done to pictures that their owner may want to know: how often, and the first few names."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, notes: Iterable[str]) -> None:
        for note in notes:
            self.counts[note] = self.counts.get(note, 0) + 1
            if len(names := self.first.setdefault(note, [])) < FIRST:
                names.append(name)


class PictureStore:
    """The pictures of a folder that `write_pictures` made. No pixel is read before it is asked for."""

    def __init__(self, folder: Path) -> None:
        try:
            about = json.loads((folder / "store.json").read_text(encoding="utf-8"))
            entries = json.loads((folder / "entries.json").read_text(encoding="utf-8"))
            self.form = Form(**about["form"])
            self._shape = (len(entries), *self.form.shape)
            if about["version"] != VERSION or (folder / "pixels").stat().st_size != int(np.prod(self._shape)):
                raise ValueError("not of this version, or not complete")
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise RegardError(f"{folder}: is no usable store of pictures ({problem})") from None
        self.folder, self.name = folder, str(about["name"])
        self.read, self.notes = ReadReport.from_dict(about["read"]), Notes(**about["notes"])
        self.mean: list[float] = about["mean"]
        self.deviation: list[float] = about["deviation"]
        self.entries = [_kept(*entry) for entry in entries]
        self.hashes: NDArray[np.uint64] = np.fromfile(folder / "hashes", np.uint64)
        empty = np.empty(self._shape, np.uint8)
        self.pixels: NDArray[np.uint8] = (
            np.memmap(folder / "pixels", np.uint8, mode="r", shape=self._shape) if entries else empty
        )

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, row: int) -> UInt8[np.ndarray, "C H W"]:
        return self.pixels[row]

    def digest(self) -> str:
        """Tells whether two stores hold the same pictures and texts, whatever their files are called."""
        texts = json.dumps([entry.texts for entry in self.entries]).encode()
        return blake2b(self.hashes.tobytes() + texts, digest_size=10).hexdigest()


def write_pictures(folder: Path, items: Iterable[Entry | Bad], form: Form, *, name: str, workers: int = 0) -> None:
    """Decode all pictures into `folder`, which must exist. Memory does not grow with their number."""
    read, notes, entries = ReadReport(), Notes(), []
    hashes: list[int] = []
    sums, squares = np.zeros(form.channels), np.zeros(form.channels)
    with (folder / "pixels").open("wb") as file:
        for item in read.only_pairs(_decoded(items, form, workers)):
            entry, found = item
            file.write(found.pixels.tobytes())
            hashes.append(int.from_bytes(blake2b(found.pixels.tobytes(), digest_size=8).digest(), "little"))
            values = found.pixels.reshape(form.channels, -1) / 255
            sums += values.mean(1)
            squares += (values**2).mean(1)
            notes.add(entry.name, found.notes)
            nouns = [[[noun.word, noun.box] for noun in one] for one in entry.nouns]
            entries.append([entry.name, entry.texts, entry.file, entry.line, nouns])
    np.array(hashes, np.uint64).tofile(folder / "hashes")
    count = max(1, len(entries))
    mean = sums / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 1e-6))
    (folder / "entries.json").write_text(json.dumps(entries), encoding="utf-8")
    about = {
        "version": VERSION, "name": name, "form": asdict(form), "read": read.as_dict(), "notes": asdict(notes),
        "mean": mean.tolist(), "deviation": deviation.tolist(),
    }  # fmt: skip
    (folder / "store.json").write_text(json.dumps(about), encoding="utf-8")


def _decoded(items: Iterable[Entry | Bad], form: Form, workers: int) -> Iterator[tuple[Entry, Decoded] | Bad]:
    rest = iter(items)
    while some := list(islice(rest, _AT_ONCE)):
        entries = [item for item in some if not isinstance(item, Bad)]
        yield from (item for item in some if isinstance(item, Bad))
        files = [entry.place for entry in entries if isinstance(entry.place, Bytes)]
        from_files = decode_all(files, form, workers)
        for entry in entries:
            try:
                found = next(from_files) if isinstance(entry.place, Bytes) else from_array(entry.place, form)
            except BadPictureError as problem:
                found = problem
            if isinstance(found, BadPictureError):
                yield Bad(entry.file, entry.line, "unreadable", f"{entry.name}: {found}", lines=len(entry.texts))
            else:
                yield entry, found


def _kept(name: str, texts: list[str], file: str, line: int, nouns: list[list[list[Any]]]) -> Kept:
    named = tuple(tuple(Noun(word, (box[0], box[1], box[2], box[3])) for word, box in one) for one in nouns)
    return Kept(name, tuple(texts), file, line, named)
