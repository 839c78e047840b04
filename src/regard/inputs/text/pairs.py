"""Pairs of texts as token ids on disk, and as input of an encoder.

source  target                     each sentence with its end token (`data/store.py`)

<s> text </s> <pad> … an encoder whose first vector represents the whole text ([CLS]) text </s> <pad> … the encoders of
sequence to sequence
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import pad_rows, random_generator
from regard.data.examples import Example, Examples
from regard.data.labels import Spread, evenly
from regard.data.pairs import Pair, SideCounts, SkippedLine
from regard.data.prepare import Split, with_progress
from regard.data.store import HASHES, LINES, Store, StoreWriter, ids_array, text_hash
from regard.data.vocabulary import SpecialIds, Vocabulary, target_ids
from regard.errors import CallError


@dataclass(frozen=True)
class Frame:
    """Padding of batches, with `first` (or nothing) before the text and `end` after it."""

    first: int | None
    end: int
    pad: int

    @classmethod
    def of(cls, specials: SpecialIds, *, first: bool) -> "Frame":
        if specials.end is None or specials.pad is None or (first and specials.start is None):
            raise CallError("an encoder needs begin, end and padding tokens, which this vocabulary does not have")
        return cls(specials.start if first else None, specials.end, specials.pad)

    @property
    def before(self) -> int:
        """Number of tokens before the text."""
        return 0 if self.first is None else 1

    def padded(self, ended: Sequence[NDArray | Sequence[int]]) -> Int[Tensor, "B S"]:
        """Pad texts that have their end token."""
        first = [] if self.first is None else [self.first]
        return pad_rows([np.array([*first, *ids], np.int64) for ids in ended], self.pad)

    def read(self, texts: Sequence[Sequence[int]]) -> Int[Tensor, "B S"]:
        """Pad texts as `encode` returns them."""
        return self.padded([[*ids, self.end] for ids in texts])


SHOWN, SHOWN_LETTERS = 2000, 8_000_000  # pairs of a store that are kept as texts, and their total length
_AT_ONCE = 2048  # pairs that are tokenized together and held in memory


def write_pairs(
    folder: Path,
    items: Iterable[Pair | SkippedLine],
    source: Vocabulary,
    target: Vocabulary,
    *,
    name: str,
    max_length: int,
    overlong: Literal["skip", "cut", "windows"],
) -> None:
    """Tokenize all pairs into `folder`, which must exist. Memory does not grow with the number of pairs.

    `overlong`: whether pairs of more than `max_length` tokens are skipped, cut, or stored whole, to be read in windows.
    """
    ids = {"source": ids_array(source.size), "target": ids_array(target.size)}
    with StoreWriter(folder, name, **ids, hashes=HASHES, lines=LINES) as store:
        counts = store.counts
        shown = Spread[Pair](SHOWN, lambda pair: len(pair.source) + len(pair.target), SHOWN_LETTERS)
        pairs = counts.read.only_pairs(items)
        while some := list(islice(pairs, _AT_ONCE)):
            sources = _encode_targets(source, [pair.source for pair in some], counts.sides[0])
            targets = _encode_targets(target, [pair.target for pair in some], counts.sides[1])
            kept: list[tuple[Pair, NDArray[np.int32], NDArray[np.int32]]] = []
            for pair, one, other in zip(some, sources, targets, strict=True):
                if max(len(one), len(other)) > max_length:
                    counts.note("overlong", pair.line)
                    if overlong == "skip":
                        continue
                shown.add(pair)
                most = len(one) if overlong == "windows" else max_length
                kept.append((pair, _cut(one, most), _cut(other, max_length)))
            store.add("source", [one for _, one, _ in kept])
            store.add("target", [other for _, _, other in kept])
            store.add("hashes", [(text_hash(pair.source), text_hash(pair.target)) for pair, _, _ in kept])
            store.add("lines", [pair.line for pair, _, _ in kept])
        store.about = {"shown": shown.items}


def _cut(ended: NDArray[np.int32], most: int) -> NDArray[np.int32]:
    """Return at most `most` ids, the last of which is the end token."""
    return ended if len(ended) <= most else np.append(ended[: most - 1], ended[-1])


def _encode_targets(vocabulary: Vocabulary, texts: list[str], counts: SideCounts) -> list[NDArray[np.int32]]:
    if vocabulary.specials.end is None:
        raise CallError("training needs an end token, which this vocabulary does not have")
    found = target_ids(vocabulary, texts)
    for ids in found:
        counts.add_target(ids, vocabulary.specials)
    return found


T = TypeVar("T")  # item of an input


class PairExamples(Examples):
    def __init__(
        self,
        store: Store,
        split: Split[Pair],
        frame: Frame,
        example: Callable[[Pair], Example] = lambda pair: Example(pair.source, (pair.target,)),
    ) -> None:
        self.store, self._split, self._frame, self._example = store, split, frame, example
        self.name, self.counts = store.name, store.counts.read

    def __len__(self) -> int:
        return len(self.store)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return self.store.row_lengths("source"), self.store.row_lengths("target")

    def source(self, rows: NDArray[np.int64], epoch: int) -> Any:
        return self._frame.padded([self.store.row("source", int(row)) for row in rows])

    def target(self, row: int) -> NDArray[Any]:
        return self.store.row("target", row)

    def digest(self) -> str:
        return self.store.digest()

    def examples(self, most: int) -> list[Example]:
        """Choose pairs spread over the split, ordered by length, so that the middle ones have medium length."""
        shown = evenly([Pair(*one) for one in self.store.about["shown"]], most)
        return [self._example(pair) for pair in sorted(shown, key=lambda pair: len(pair.source))]

    def sample(self, most: int) -> list[Example]:
        split = replace(self._split, sample=min(1.0, most / max(1, len(self))))
        return [self._example(pair) for pair in with_progress(split.good(), f"reading {split}")]

    def targets_read(self) -> Iterator[tuple[str, int]]:
        return ((pair.target, pair.line) for pair in self._split.good())


class LongTextExamples(PairExamples, Generic[T]):
    """Pairs whose input is stored whole. A batch has one window of a long input.

    most      tokens of a window, with its end token
    whole     returns the item of stored ids
    windows   returns the ids of each window of an item, without the end token
    seed      for training, which reads another window in each epoch; None: the first window
    """

    def __init__(
        self,
        pairs: PairExamples,
        most: int,
        whole: Callable[[NDArray[Any]], T],
        windows: Callable[[T], list[list[int]]],
        seed: int | None,
    ) -> None:
        super().__init__(pairs.store, pairs._split, pairs._frame, pairs._example)
        self._most, self._whole, self._windows, self._seed = most, whole, windows, seed

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        source, target = super().lengths()
        return np.minimum(source, self._most), target

    def source(self, rows: NDArray[np.int64], epoch: int) -> Int[Tensor, "B S"]:
        return self._frame.padded([self._window(int(row), epoch) for row in rows])

    def _window(self, row: int, epoch: int) -> NDArray[Any] | list[int]:
        ended = self.store.row("source", row)
        if len(ended) <= self._most:
            return ended
        found = self._windows(self._whole(ended))
        number = 0 if self._seed is None else int(random_generator(self._seed, epoch, row).integers(len(found)))
        return [*found[number], self._frame.end]

    def overlong(self) -> list[tuple[int, T]]:
        rows = np.flatnonzero(self.store.row_lengths("source") > self._most)
        return [(int(row), self._whole(self.store.row("source", int(row)))) for row in rows]
