"""Token ids on disk, mapped into memory when they are read: data may be larger than memory.

A store is a folder of plain arrays, written front to back while pairs stream by:

    source.ids  target.ids   all sentences one after the other, each with its end token; uint16 if the ids fit
    source.at   target.at    where sentence i begins, and where the last one ends; int64
    hashes                   64 bits of the source's and of the target's text, for finding duplicates; uint64
    lines                    the line that the pair was read from; int64
    store.json               what the arrays are, and what was counted on the way; written last

`store.json` holds the size of every array, so that a folder which is not whole is known as such.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.data.cache import store_of
from regard.data.pairs import Bad, Pair
from regard.data.read_report import FIRST
from regard.data.store_counts import SideCounts, StoreCounts
from regard.data.text_hash import text_hash
from regard.errors import CallError
from regard.inputs.base import Vocabulary

VERSION = 1
_AT_ONCE = 2048  # pairs tokenized together; what is held in memory


class PairStore:
    """The pairs of a folder that `write_store` made. Nothing is read before it is asked for."""

    def __init__(self, folder: Path) -> None:
        about = store_of(folder, VERSION, "token ids")
        self.name: str = about["name"]
        self.counts = StoreCounts.from_dict(about["counts"])
        self._size: int = about["pairs"]

        def mapped(name: str, kind: str) -> NDArray[Any]:
            if not self._size:
                return np.empty(1 if name.endswith(".at") else 0, kind)
            return np.asarray(np.memmap(folder / name, kind, mode="r"))

        self.source_ids = mapped("source.ids", about["kinds"]["source"])
        self.target_ids = mapped("target.ids", about["kinds"]["target"])
        self.source_at = mapped("source.at", "int64")
        self.target_at = mapped("target.at", "int64")
        self.hashes = mapped("hashes", "uint64").reshape(-1, 2)
        self.lines = mapped("lines", "int64")

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, row: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The ids of a pair, source and target, both with their end token."""
        if not 0 <= row < len(self):
            raise IndexError(row)
        source = self.source_ids[self.source_at[row] : self.source_at[row + 1]]
        return source, self.target_ids[self.target_at[row] : self.target_at[row + 1]]

    def digest(self) -> str:
        """Tells whether two stores hold the same text, whatever their files are called."""
        return blake2b(np.ascontiguousarray(self.hashes).tobytes(), digest_size=10).hexdigest()

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Tokens of every source and of every target, end tokens included: eight bytes a pair."""
        return np.diff(self.source_at).astype(np.int32), np.diff(self.target_at).astype(np.int32)


def write_store(
    folder: Path,
    items: Iterable[Pair | Bad],
    source: Vocabulary,
    target: Vocabulary,
    *,
    name: str,
    max_length: int,
    overlong: Literal["skip", "cut"],
) -> None:
    """Tokenize all pairs into `folder`, which must exist. Memory does not grow with the number of pairs."""
    counts = StoreCounts()
    kinds = {"source": _id_kind(source), "target": _id_kind(target)}
    end = {"source": _end(source), "target": _end(target)}
    ends = {"source": 0, "target": 0}
    pairs = 0
    with ExitStack() as stack:
        names = ("source.ids", "source.at", "target.ids", "target.at", "hashes", "lines")
        files = {name: stack.enter_context((folder / name).open("wb")) for name in names}
        for side in ends:
            files[f"{side}.at"].write(bytes(8))
        for some in _in_batches(counts.read.only_pairs(items)):
            sides = {
                "source": _tokenized(source, [pair.source for pair in some], counts.source),
                "target": _tokenized(target, [pair.target for pair in some], counts.target),
            }
            too_long = [max(len(one), len(other)) > max_length for one, other in zip(*sides.values(), strict=True)]
            counts.overlong += sum(too_long)
            room = FIRST - len(counts.overlong_first)
            counts.overlong_first += [pair.line for pair, long in zip(some, too_long, strict=True) if long][:room]
            if overlong == "skip":
                some = [pair for pair, long in zip(some, too_long, strict=True) if not long]
                sides = {
                    side: [ids for ids, long in zip(sentences, too_long, strict=True) if not long]
                    for side, sentences in sides.items()
                }
            else:
                sides = {
                    side: [ids if len(ids) <= max_length else [*ids[: max_length - 1], end[side]] for ids in sentences]
                    for side, sentences in sides.items()
                }
            for side, sentences in sides.items():
                at = ends[side] + np.cumsum([len(ids) for ids in sentences], dtype=np.int64)
                ends[side] = int(at[-1]) if len(at) else ends[side]
                files[f"{side}.at"].write(at.tobytes())
                files[f"{side}.ids"].write(np.fromiter(chain.from_iterable(sentences), kinds[side]).tobytes())
            hashes = [(text_hash(pair.source), text_hash(pair.target)) for pair in some]
            files["hashes"].write(np.array(hashes, np.uint64).tobytes())
            files["lines"].write(np.array([pair.line for pair in some], np.int64).tobytes())
            pairs += len(some)
        sizes = {name: file.tell() for name, file in files.items()}
    about = {"version": VERSION, "name": name, "pairs": pairs, "kinds": kinds, "sizes": sizes}
    (folder / "store.json").write_text(json.dumps(about | {"counts": counts.as_dict()}), encoding="utf-8")


def _id_kind(vocabulary: Vocabulary) -> Literal["uint16", "uint32"]:
    return "uint16" if vocabulary.size <= 1 << 16 else "uint32"


def _end(vocabulary: Vocabulary) -> int:
    if vocabulary.specials.end is None:
        raise CallError("this vocabulary has no token that ends a text, which training needs")
    return vocabulary.specials.end


def _in_batches(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    while some := list(islice(pairs, _AT_ONCE)):
        yield some


def _tokenized(vocabulary: Vocabulary, texts: list[str], counts: SideCounts) -> list[list[int]]:
    sentences, unknown, end = vocabulary.encode_batch(texts), vocabulary.specials.unk, _end(vocabulary)
    for ids in sentences:
        counts.tokens += len(ids)
        counts.unknown += 0 if unknown is None else ids.count(unknown)
        ids.append(end)
    counts.lengths.update(map(len, sentences))
    return sentences
