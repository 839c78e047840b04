"""Cells with several labels: a;b, a|b, a, b, or a list as written by a program.

A separator is accepted if the parts are short, rarely repeat within a cell, and occur in other combinations elsewhere.
"Jamaica, West Indies" is one label if no other cell has either part.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from regard.data.label_writing import list_in

SEPARATORS = "|;,"
LABEL_WORDS = 6  # a label is short
_FEWEST = 2  # cells with several parts
_REPEATED = 3  # average occurrences of a label
_LISTS = 0.95  # of all cells
_TWICE = 0.05  # of all cells may have a part twice


def find_separator(cells: Sequence[str]) -> str:
    """Return the separator of the labels in these non-empty cells; empty if each cell is one label."""
    lists = [found for cell in cells if (found := list_in(cell)) is not None]
    if lists and len(lists) >= _LISTS * len(cells):
        return separator_of(lists) if holds_labels(lists) else ""
    return next((one for one in SEPARATORS if _separates(one, cells)), "")


def separator_of(lists: Iterable[Iterable[str]]) -> str:
    """Return a separator that does not occur in these labels."""
    used = {letter for labels in lists for label in labels for letter in label}
    return next((one for one in SEPARATORS + "\x1f" if one not in used), "\x1f")


def label_counts(cells: Iterable[Sequence[str]]) -> tuple[Counter[str], int]:
    """Return how often each label occurs, and how many cells have none."""
    counts, none = Counter[str](), 0
    for labels in cells:
        counts.update({*labels})
        none += not labels
    return counts, none


def _separates(separator: str, cells: Sequence[str]) -> bool:
    if sum(separator in cell for cell in cells) < _FEWEST:
        return False
    parts = [[part for one in cell.split(separator) if (part := one.strip())] for cell in cells]
    company: dict[str, set[frozenset[str]]] = defaultdict(set)
    for some in parts:
        group = frozenset(some)  # once: a cell may be a long document
        for part in group:
            company[part].add(group)
    joined = {part for part, sets in company.items() if any(len(one) > 1 for one in sets)}
    shared = sum(len(company[part]) > 1 for part in joined)
    if not shared or (separator == "," and shared < len(joined) / 2):
        return False
    return holds_labels(parts) and (separator != "," or len(company) <= len({*map(frozenset, parts)}))


def holds_labels(parts: Sequence[Sequence[str]]) -> bool:
    """Return whether there are few different parts, which are short and rarely repeat within a cell."""
    counts = Counter(part for some in parts for part in some)
    twice = sum(len({*some}) < len(some) for some in parts)
    if not counts or twice > _TWICE * len(parts) or max(len(part.split()) for part in counts) > LABEL_WORDS:
        return False
    return len(counts) > 1 and counts.total() >= _REPEATED * len(counts)
