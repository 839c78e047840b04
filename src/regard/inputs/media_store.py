"""Decoded pictures or recordings of a split on disk, in the form that models read.

    values         pixels or samples, mapped into memory when they are read
    scale          factor of the values of each item; float32
    store.json     names, texts, lines and gold of all entries, and counts

Broken files are found here, before training, and skipped, so every batch contains valid data.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import astuple, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.check import Listing
from regard.data.counts import Counts
from regard.data.pairs import Bad
from regard.data.store import HASHES, LINES, Array, Store, StoreWriter, text_hash
from regard.data.vocabulary import Vocabulary
from regard.inputs.column import Column, ColumnExamples, Said
from regard.inputs.media_source import Entry


class Loaded(NamedTuple):
    """Entry and its values. `notes`: conversions and oddities that the user may want to know."""

    entry: Entry
    values: NDArray[Any]
    notes: tuple[str, ...] = ()
    scale: float = 1.0


def write_media(
    folder: Path,
    name: str,
    loaded: Iterable[Loaded | Bad],
    array: Array,
    about: Callable[[], dict[str, Any]] = dict,
) -> None:
    """Write all items to a folder, which must exist, one at a time in memory. `about` is called at the end."""
    arrays = {"values": array, "scale": Array("float32"), "hashes": HASHES, "lines": LINES}
    entries: list[list[Any]] = []
    with StoreWriter(folder, name, **arrays) as store:
        for entry, values, notes, scale in store.counts.read.only_pairs(loaded):
            store.add("values", [values])
            store.add("scale", [scale])
            seen = blake2b(values.tobytes(), digest_size=8).digest()
            store.add("hashes", [[int.from_bytes(seen, "little"), text_hash(json.dumps(entry.texts))]])
            store.add("lines", [entry.line])
            for note in notes:
                store.counts.note(note, entry.line, entry.name)
            entries.append([entry.name, entry.texts, entry.file, entry.line, _plain(entry.gold)])
        store.about = {**about(), "entries": entries}


def _plain(gold: Any) -> Any:
    """Convert tuples of dataclasses to lists that JSON can hold."""
    return [_plain(one) for one in gold] if isinstance(gold, tuple) else astuple(gold)


class MediaStore(Store):
    """Store that `write_media` wrote. Values are read lazily."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.entries = [
            Entry(name, tuple(texts), file, line, self.gold(gold))
            for name, texts, file, line, gold in self.about["entries"]
        ]

    def gold(self, written: list[Any]) -> tuple[Any, ...]:
        """Restore the gold annotations of an entry from JSON lists."""
        return tuple(written)

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self.entries]


class MediaColumn(Column):
    """Pictures or recordings of a store."""

    def __init__(self, store: MediaStore) -> None:
        self.numbers = {entry.name: number for number, entry in enumerate(store.entries)}
        self._store = store

    def why(self, name: str) -> str:
        first = (bad for bads in self._store.counts.read.first.values() for bad in bads)  # only these are remembered
        return next((bad.reason for bad in first if bad.file == name), f"{name}: cannot be read")

    def hash(self, number: int) -> int:
        return int(self._store.hashes[number, 0])


class MediaExamples(ColumnExamples):
    """Stored pictures or recordings with their targets."""

    def __init__(
        self,
        store: MediaStore,
        column: Column,
        vocabulary: Vocabulary | None,
        *,
        max_length: int | None = None,
        longest: float | int = np.inf,
        scored: bool = False,
    ) -> None:
        """Create examples. Targets longer than `max_length` and media longer than `longest` are left out; if `scored`,
        nothing is left out and longer targets are cut.
        """
        said = [
            Said((number,), text, entry.line, entry.gold or None)
            for number, entry in enumerate(store.entries)
            for text in entry.texts
        ]
        limits = (longest, np.inf if max_length is None else max_length)
        super().__init__(store.name, store.counts, [column], said, vocabulary, limits, scored=scored)
        self.store = store

    def digest(self) -> str:
        return self.store.digest()

    def listing(self) -> Listing:
        """Return the data for the data check."""
        store = self.store
        counts: Counts = replace(store.counts, sides=self.sides(), odd=dict(store.counts.odd))
        for number in sorted({one.numbers[0] for one in self.beyond_limits()}):
            counts.note("overlong", store.entries[number].line, store.entries[number].name)
        return Listing(self.name, counts, store.lines, store.hashes, store.names)
