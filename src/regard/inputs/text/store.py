"""Pairs of texts as token ids on disk: `source` and `target`, each sentence with its end token (`data/store.py`)."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Literal

from regard.data.counts import SideCounts, unknown_in
from regard.data.pairs import Bad, Pair
from regard.data.store import HASHES, LINES, StoreWriter, ids_array, text_hash
from regard.data.vocabulary import Vocabulary
from regard.errors import CallError

_AT_ONCE = 2048  # pairs tokenized together; what is held in memory


def write_pairs(
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
    ids = {"source": ids_array(source.size), "target": ids_array(target.size)}
    with StoreWriter(folder, name, **ids, hashes=HASHES, lines=LINES) as store:
        counts = store.counts
        pairs = counts.read.only_pairs(items)
        while some := list(islice(pairs, _AT_ONCE)):
            sources = _tokenized(source, [pair.source for pair in some], counts.sides[0])
            targets = _tokenized(target, [pair.target for pair in some], counts.sides[1])
            kept: list[tuple[Pair, list[int], list[int]]] = []
            for pair, one, other in zip(some, sources, targets, strict=True):
                if max(len(one), len(other)) > max_length:
                    counts.note("overlong", pair.line)
                    if overlong == "skip":
                        continue
                kept.append((pair, _cut(one, max_length), _cut(other, max_length)))
            store.add("source", [one for _, one, _ in kept])
            store.add("target", [other for _, _, other in kept])
            store.add("hashes", [(text_hash(pair.source), text_hash(pair.target)) for pair, _, _ in kept])
            store.add("lines", [pair.line for pair, _, _ in kept])


def _cut(ended: list[int], most: int) -> list[int]:
    """At most so many ids, the last of them the end."""
    return ended if len(ended) <= most else [*ended[: most - 1], ended[-1]]


def _end(vocabulary: Vocabulary) -> int:
    if vocabulary.specials.end is None:
        raise CallError("this vocabulary has no token that ends a text, which training needs")
    return vocabulary.specials.end


def _tokenized(vocabulary: Vocabulary, texts: list[str], counts: SideCounts) -> list[list[int]]:
    end, unknown = _end(vocabulary), vocabulary.specials.unk
    sentences = vocabulary.encode_batch(texts)
    for ids in sentences:
        counts.add(len(ids), unknown_in(ids, unknown), len(ids) + 1)
        ids.append(end)
    return sentences
