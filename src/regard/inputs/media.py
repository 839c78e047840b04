"""Base of picture and recording inputs: files, a store of each split, and inputs of the user."""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.corpora import PREFIX
from regard.data.check import DataCheck, Listing, unknown_advice
from regard.data.check_report import CheckReport
from regard.data.examples import Example, Examples
from regard.data.pairs import ReadCounts, SkippedLine
from regard.data.prepare import PrepareCache, Split, find_test, showing_progress
from regard.data.store import HASHES, LINES, Array, Store, StoreWriter, text_hash
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.errors import RegardError
from regard.inputs.base import Input
from regard.inputs.column import ColumnExamples, InputColumn, TargetRow
from regard.inputs.media_files import Bytes, Entry, MediaSource, files_named, files_root

# Decoded pictures or recordings of a split on disk, in the form that models read.
#
#     values         pixels or samples, mapped into memory when they are read
#     scale          factor of the values of each item; float32
#     store.json     names, texts, lines and gold of all entries, and counts
#
# Broken files are found here, before training, and skipped, so every batch contains valid data.


class Loaded(NamedTuple):
    """Entry and its values. `notes`: conversions and oddities that the user may want to know."""

    entry: Entry
    values: NDArray[Any]
    notes: tuple[str, ...] = ()
    scale: float = 1.0


def write_media(
    folder: Path,
    name: str,
    loaded: Iterable[Loaded | SkippedLine],
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


class MediaColumn(InputColumn):
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
        column: InputColumn,
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
            TargetRow((number,), text, entry.line, entry.gold or None)
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
        counts: ReadCounts = replace(store.counts, sides=self.sides(), odd=dict(store.counts.odd))
        for number in sorted({one.numbers[0] for one in self.beyond_limits()}):
            counts.note("overlong", store.entries[number].line, store.entries[number].name)
        return Listing(self.name, counts, store.lines, store.hashes, store.names)


LISTED, OPENED = 2000, 50  # files whose names and texts are read, and files that are opened, to decide on sizes


@lru_cache(maxsize=8)
def _of_corpus(source: type[MediaSource], where: str) -> list[Entry]:
    """First items of a corpus: a corpus is generated while it is read, and its items are similar."""
    return list(islice(source(where).corpus(), OPENED))


class MediaInput(Input):
    takes_files: ClassVar[bool] = True
    source: ClassVar[type[MediaSource]]
    opened: ClassVar[type[MediaStore]]

    # ------------------------------------------------------------------------------------------------------- the files
    @abstractmethod
    def write(self, folder: Path, name: str, items: Iterable[Entry | SkippedLine]) -> None:
        """Write the store of the entries."""

    @property
    @abstractmethod
    def form(self) -> list[Any]:
        """Return what a store depends on in addition to the files."""

    @abstractmethod
    def examples(
        self, stores: dict[Role, Any], vocabulary: Vocabulary | None, cache: Path | None
    ) -> Mapping[Role, MediaExamples]:
        """Return the stores of all splits; `cache` is None if they are only counted or scored."""

    def open_store(self, steps: PrepareCache, role: Role, split: Split[Entry], *, refuse: bool = True) -> Any:
        return steps.store(self.opened, role, split, self.form, self.write, refuse=refuse)

    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        steps = PrepareCache.of(self.data, cache, strict=strict)
        splits = steps.splits(self.source.by_role(self.data))
        stores: dict[Role, Any] = {role: self.open_store(steps, role, split) for role, split in splits.items()}
        with showing_progress("learning the vocabulary of the targets"):
            vocabulary = targets.learn(self.texts(stores["train"]))
        found = self.examples(stores, vocabulary, steps.cache if strict else None)
        if strict and not len(found["train"]):
            all_of_them = f"all {len(stores['train']):,} {self.source.what}s"
            raise RegardError(f"data.train={splits['train']}: {all_of_them} are longer than {self.limits}: raise this")
        return {**found}

    def sample_examples(self, most: int = OPENED) -> list[Entry]:
        """Return a few training items, from the first part of the data."""
        source = self.source.by_role(self.data)["train"]
        if source.where.startswith(PREFIX):
            return _of_corpus(self.source, source.where)
        entries = [one for one in islice(source.read(), LISTED) if isinstance(one, Entry)]
        return entries[:: max(1, len(entries) // most)]

    def target_texts(self) -> list[str]:
        return [text for entry in self.sample_examples(LISTED) for text in entry.texts]

    def texts(self, train: MediaStore) -> Iterable[str]:
        """Return the texts that a vocabulary is learned from."""
        return (text for entry in train.entries for text in entry.texts)

    def test(self) -> tuple[list[Example], str]:
        """Map the values lazily: the mapping outlives the folder of the file."""
        split: Split[Entry] = find_test(self.source.by_role(self.data), self.data.test_share)
        with TemporaryDirectory(prefix="regard-test-", ignore_cleanup_errors=True) as folder:
            store = self.open_store(PrepareCache.of(self.data, Path(folder), strict=False), "test", split)
        examples, bad = self.examples({"test": store}, None, None)["test"], store.counts.read.bad
        note = f"{bad} {self.source.what}s of {split} cannot be used: regard check lists them" if bad else ""
        return examples.every(), note

    def check(self, splits: dict[Role, Any], vocabulary: Vocabulary) -> CheckReport:
        columns = self.data.columns
        check = DataCheck(
            {role: one.listing() for role, one in splits.items()},
            noun=self.source.what, sides=columns.sides, max_bad=self.data.max_bad, contradicts=columns.folders,
        )  # fmt: skip
        counts: list[ReadCounts] = [split.counts for split in check.splits.values()]
        notes = {note for count in counts for note in count.odd} - {"overlong"}
        check.odd({note: ("note", note, "no action is needed") for note in sorted(notes)})
        check.overlong(self.limits, "left out of training")
        if "tokenizer" in type(self.data).model_fields:  # not for labels
            check.unknown(1, unknown_advice(self.data.tokenizer, vocabulary.size))
        return check.report({columns.sides[1]: vocabulary.size}, self.look_over(check, splits))

    def look_over(self, check: DataCheck, splits: dict[Role, Any]) -> dict[str, str]:
        """Add checks for this kind of data; returns further figures."""
        return {}

    @property
    def limits(self) -> str:
        """Length above which training skips an item."""
        return f"data.max_length={self.max_length} tokens"

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of a target, including the end token."""
        return self.data.max_length if "max_length" in type(self.data).model_fields else None

    def resolve_cells(self, file: Path, cells: Sequence[str]) -> list[str]:
        root = files_root(self.data.files, file)
        return [str(root / cell) for cell in cells]

    # --------------------------------------------------------------------------------------------------- single inputs
    def parse(self, words: Sequence[str]) -> list[str]:
        """Return inputs for files, all files of a folder or .tar, one of a .tar (all.tar/a.jpg), or rows of a corpus
        (corpus:NAME#7).
        """
        return files_named(words, self.source.is_one, self.source.what)

    def find(self, word: str) -> Bytes | Any:
        """Find what a word names: a file or a corpus item."""
        return self.source.find(word)
