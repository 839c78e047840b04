"""Overlapping windows of an input that is longer than a model's limit. No torch.

    window w of n tokens:  w·(size − overlap) ≤ t < w·(size − overlap) + size,   until one reaches n

so that any text no longer than the overlap is entirely in at least one window. Devlin et al. 2018 (arXiv:1810.04805),
whose code cuts SQuAD's documents in this way (`doc_stride` there is size − overlap).
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

SENTENCES, WORDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+"), re.compile(r"\s+")
OVERLAP = 4  # overlap of windows by default: one in this many of their tokens


def windows(tokens: int, size: int, overlap: int | None = None) -> list[tuple[int, int]]:
    """Return first token and end of each window; a short text has one window. By default a quarter of a window
    overlaps."""
    step = max(1, size - (size // OVERLAP if overlap is None else overlap))
    found = [(0, min(size, tokens))]
    while found[-1][1] < tokens:
        start = found[-1][0] + step
        found.append((start, min(start + size, tokens)))
    return found


def owners(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return first and end of the part that each window decides. Neighbors meet in the middle of their overlap, so that
    each part has context on both sides."""
    meets = [(one[1] + other[0]) // 2 for one, other in pairwise(spans)]
    return list(zip([spans[0][0], *meets], [*meets, spans[-1][1]], strict=True))


def in_pieces(text: str, length: Callable[[str], int], most: int) -> list[str]:
    """Split a text into pieces of at most `most` tokens, counted by `length`: at sentences, else words or letters."""
    if length(text) <= most or len(text) < 2:
        return [text]
    for ends in (SENTENCES, WORDS):
        parts = [part for part in ends.split(text) if part.strip()]
        if len(parts) > 1:
            groups = _packed(parts, [length(part) for part in parts], most)
            return [piece for group in groups for piece in in_pieces(" ".join(group), length, most)]
    middle = len(text) // 2
    return [*in_pieces(text[:middle], length, most), *in_pieces(text[middle:], length, most)]


def _packed(parts: list[str], lengths: list[int], most: int) -> list[list[str]]:
    """Group neighbors while they fit, into at least two groups."""
    groups: list[list[str]] = [[]]
    total = 0
    for part, length in zip(parts, lengths, strict=True):
        if groups[-1] and total + length > most:
            groups.append([])
            total = 0
        groups[-1].append(part)
        total += length
    return groups if len(groups) > 1 else [parts[: len(parts) // 2], parts[len(parts) // 2 :]]
