"""English-Spanish sentence pairs from a grammar, with gold word alignments.

The grammar builds both sides together (`both.py`), so the links are right by construction. A source sentence has one
translation, and each side has a few hundred words, so that a small model can learn all of it.

A sentence belongs to a split by a hash of its *target*. Sources that share a target ("he is eating", "she is eating",
"está comiendo") stay together, so no split shares a source or a target with another, whatever the seed and sizes.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path

from regard.corpora.loading import SentencePair, words
from regard.corpora.pocket.choices import Draw
from regard.corpora.pocket.sentences import EXAMPLES, sentence
from regard.errors import CallError, nearest
from regard.metrics.alignment import Gold, write_pharaoh

SIZES = {"train": 30_000, "valid": 500, "test": 1_000}
EXAMPLE_TARGETS = {pair.target for pair in EXAMPLES}
LONGEST = 42  # words of a source sentence


def split_of(target: str) -> str:
    """Return the split of a target: 85% train, 5% valid, 10% test. The displayed examples are in test."""
    if target in EXAMPLE_TARGETS:
        return "test"
    bucket = zlib.crc32(target.encode()) % 100
    return "valid" if bucket < 5 else "test" if bucket < 15 else "train"


def stream(split: str, seed: int = 0) -> Iterator[SentencePair]:
    """Yield distinct pairs of a split without end. A longer reading begins with the shorter one."""
    if split not in SIZES:
        raise CallError(f"pocket has no split {split!r}{nearest(split, SIZES)}")
    draw = Draw(seed)
    seen: set[str] = set()
    if split == "test":
        yield from EXAMPLES
        seen |= {pair.source for pair in EXAMPLES}
    while True:
        pair = sentence(draw)
        if split_of(pair.target) != split or pair.source in seen or pair.source.count(" ") >= LONGEST:
            continue
        seen.add(pair.source)
        yield pair


def pocket(split: str, size: int | None = None, seed: int = 0) -> list[SentencePair]:
    """Return the first `size` pairs of a split; by default 30,000, 500 and 1,000 for train, valid and test."""
    wanted = SIZES.get(split, 0) if size is None else size
    if wanted < 0:
        raise CallError(f"size={wanted} must not be negative")
    return [pair for pair, _ in zip(stream(split, seed), range(wanted), strict=False)]


def phrases(split: str) -> list[SentencePair]:
    """Return the English sentences as words, with the tags of noun phrases: B-PER, I-PER for people, B-THING, I-THING
    for everything else, O. "them" may be either, depending on the context."""
    sizes = {"train": 6_000, "valid": 500, "test": 1_000}
    pairs = pocket(split, sizes.get(split))
    return [SentencePair(" ".join(words(pair.source)), " ".join(pair.phrases)) for pair in pairs]


def write(folder: Path | str, sizes: dict[str, int] | None = None, seed: int = 0) -> None:
    """Write train.tsv, valid.tsv, test.tsv (source, tab, target), each with a file of gold links in Pharaoh format."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in (sizes or SIZES).items():
        pairs = pocket(split, size, seed)
        lines = (f"{pair.source}\t{pair.target}\n" for pair in pairs)
        (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
        gold = (Gold(frozenset(pair.alignment), frozenset(pair.possible)) for pair in pairs)
        write_pharaoh(folder / f"{split}.align", gold)
