"""Hypotheses of a beam search as a tree of their shared prefixes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.look.records import AttentionRecord


@dataclass
class Node:
    """Tokens up to the next fork, their log-probability, and the hypotheses that contain them (0 is the best)."""

    tokens: list[str]
    log_probability: float
    hypotheses: list[int]
    children: "list[Node]" = field(default_factory=list)


def beam_tree(record: AttentionRecord) -> list[Node]:
    """Return the root nodes: one if all hypotheses start with the same token."""
    hypotheses = [record, *record.beams]
    sequences = [
        list(zip(one.axes["target"].labels, one.scores or [0.0] * len(one.axes["target"]), strict=True))
        for one in hypotheses
    ]
    return _grow(sequences, list(range(len(hypotheses))), 0)


def _grow(sequences: Sequence[Sequence[tuple[str, float]]], numbers: list[int], place: int) -> list[Node]:
    forks: dict[str, list[int]] = {}
    for number in numbers:
        if place < len(sequences[number]):
            forks.setdefault(sequences[number][place][0], []).append(number)
    nodes = []
    for group in forks.values():
        stop = place + 1
        longest = min(len(sequences[number]) for number in group)
        while stop < longest and len({sequences[number][stop][0] for number in group}) == 1:
            stop += 1
        part = sequences[group[0]][place:stop]
        children = _grow(sequences, group, stop)
        nodes.append(Node([label for label, _ in part], sum(score for _, score in part), group, children))
    return nodes
