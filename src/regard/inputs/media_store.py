"""Pictures or recordings of a split on disk, in the form that a model is given them: decoded once, and never again.

    values         pixels or samples, mapped into memory when they are read
    scale          what the values of each are multiplied by; float32
    store.json     names, texts, lines and gold of all entries, and what was counted on the way

A broken file is found here, before training, and is skipped: batches are made of what is known to be good.
"""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.check import Listing
from regard.data.counts import Counts, SideCounts, unknown_in
from regard.data.examples import Example, Examples
from regard.data.pairs import Bad
from regard.data.store import HASHES, LINES, Array, Store, StoreWriter
from regard.data.text_hash import text_hash
from regard.data.vocabulary import Vocabulary, target_ids
from regard.inputs.media_source import Entry


class Loaded(NamedTuple):
    """An entry and its values; `notes`: what was done to it, or is odd, that its owner may want to know."""

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
    """All of it into a folder, which must exist; one at a time is in memory. `about` is asked at the end."""
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
    """Lists of what JSON can hold, of tuples of dataclasses."""
    return [_plain(one) for one in gold] if isinstance(gold, tuple) else astuple(gold)


class MediaStore(Store):
    """What `write_media` wrote. No value is read before it is asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.entries = [
            Entry(name, tuple(texts), file, line, self.gold(gold))
            for name, texts, file, line, gold in self.about["entries"]
        ]

    def gold(self, written: list[Any]) -> tuple[Any, ...]:
        """The gold of an entry, from the lists that were written of it."""
        return tuple(written)

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self.entries]


class MediaExamples(Examples):
    """Stored pictures or recordings: each thing that is said of one is a row of its own."""

    def __init__(
        self,
        store: MediaStore,
        vocabulary: Vocabulary | None,
        *,
        max_length: int | None = None,
        wanted: Iterable[int] | None = None,
    ) -> None:
        """
        vocabulary   of the targets; None for what is only measured on
        max_length   longer targets, the end token included, are left out
        wanted       the entries that are used; None: all
        """
        self._store, self.name, self.counts, self._vocabulary = store, store.name, store.counts.read, vocabulary
        wanted = set(range(len(store)) if wanted is None else wanted)
        said = [(number, text) for number in sorted(wanted) for text in store.entries[number].texts]
        self._all = [] if vocabulary is None else target_ids(vocabulary, [text for _, text in said])
        kept = [row for row, ids in enumerate(self._all) if max_length is None or len(ids) <= max_length]
        self._ids = [self._all[row] for row in kept]
        #: The entry of each row.
        self.entry_of: NDArray[np.int64] = np.array([said[row][0] for row in kept], np.int64)
        long = {
            number for (number, _), ids in zip(said, self._all, strict=False) if len(ids) > (max_length or len(ids))
        }
        self._overlong = long | (set(range(len(store))) - wanted)

    def __len__(self) -> int:
        return len(self._ids)

    def target(self, row: int) -> NDArray[Any]:
        return self._ids[row]

    def digest(self) -> str:
        return self._store.digest()

    def targets_read(self) -> Iterator[tuple[str, int]]:
        return ((text, entry.line) for entry in self._store.entries for text in entry.texts)

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        return np.array([len(ids) for ids in self._ids], np.int32)

    def examples(self, most: int) -> list[Example]:
        """Evenly spread, as neighbors are often alike."""
        rows = range(0, len(self._store), max(1, len(self._store) // most))[:most]
        return [self.example(row) for row in rows]

    def every(self) -> list[Example]:
        return [self.example(row) for row in range(len(self._store))]

    @abstractmethod
    def example(self, number: int) -> Example:
        """That of an entry."""

    @abstractmethod
    def listing(self) -> Listing:
        """What the data check looks at."""

    def listed(self, lengths: Iterable[int]) -> Listing:
        """`lengths`: how many vectors, or frames, each entry is."""
        unknown = None if self._vocabulary is None else self._vocabulary.specials.unk
        source, target = SideCounts(), SideCounts()
        for length in lengths:
            source.add(length)
        for ids in self._all:
            target.add(len(ids) - 1, unknown_in(ids.tolist(), unknown), len(ids))
        store = self._store
        counts: Counts = replace(store.counts, sides=(source, target), odd=dict(store.counts.odd))
        for number in sorted(self._overlong):
            counts.note("overlong", store.entries[number].line, store.entries[number].name)
        return Listing(self.name, counts, store.lines, store.hashes, store.names)
