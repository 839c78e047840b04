"""BLEU by the length of the source.

Bahdanau, Cho and Bengio 2015, figure 2 (arXiv 1409.0473).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import CallError
from regard.metrics.text import References, bleu, tokenizer_for

EDGES = (1, 6, 11, 16, 21, 31, 41)


@dataclass(frozen=True)
class LengthBin:
    """Sources of `low` to `high` words (both included; None: and longer), how many, and their corpus BLEU."""

    low: int
    high: int | None
    count: int
    bleu: float

    @property
    def label(self) -> str:
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


def bleu_by_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: References, edges: Sequence[int] = EDGES
) -> list[LengthBin]:
    """Return one bin from each edge up to the next, the last one open; words are separated by spaces.

    Sources shorter than the first edge belong to the first bin. Bins without a sentence are left out.
    """
    if not len(sources) == len(hypotheses) == len(references):
        raise CallError(
            f"{len(sources)} sources, {len(hypotheses)} hypotheses, {len(references)} references: must be equal"
        )
    if list(edges) != sorted(set(edges)) or not edges:
        raise CallError(f"edges={list(edges)} must grow from one to the next")
    members: list[list[int]] = [[] for _ in edges]
    for row, source in enumerate(sources):
        length = len(source.split())
        members[max(0, sum(edge <= length for edge in edges) - 1)].append(row)
    bins, tokenizer = [], tokenizer_for(references)  # the same for all bins
    for i, rows in enumerate(members):
        if rows:
            high = edges[i + 1] - 1 if i + 1 < len(edges) else None
            right: References = [references[r] for r in rows]  # pyright: ignore[reportAssignmentType]
            score = bleu([hypotheses[r] for r in rows], right, tokenizer=tokenizer)
            bins.append(LengthBin(edges[i], high, len(rows), score.score))
    return bins
