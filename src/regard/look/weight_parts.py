"""Where the score of a weight comes from: parts of the query, or of the key, that add up to it.

    e_tj + b_tj = Σ_a a-part of the query at t · key at j = Σ_b query at t · b-part of the key at j

Parts are those of `methods/scores.py`: the token itself, its position, every head and feed-forward of the layers
before. A decoder's attention over what it has written can be taken apart, where its score is linear in both.
"""

from typing import NamedTuple

from regard.errors import CallError
from regard.look.asking import evaluating
from regard.look.methods.scores import Side, score_parts
from regard.look.stream import Block, read_stream
from regard.look.weight_place import PlacedWeight

ScoreParts = tuple[tuple[str, float], ...]  # a name, and what it adds to the score


class WeightParts(NamedTuple):
    """Both empty, where a score cannot be taken apart."""

    query: ScoreParts = ()
    key: ScoreParts = ()


def weight_parts(found: PlacedWeight) -> WeightParts:
    stream, (head, _, _) = found.case.stream, found.cell
    if stream is None or found.shown.kind != "decoder" or found.key > found.query:
        return WeightParts()
    block: Block = stream.layers[found.shown.layer]  # pyright: ignore[reportAssignmentType]

    def parts(side: Side) -> ScoreParts:
        names, values = score_parts(reading, block, found.shown.layer, head, found.query, side, each_head=True)
        return tuple(zip(names, values[:, found.key].double().tolist(), strict=True))

    with evaluating(found.case.model):
        reading = read_stream(found.case, stream)
        try:
            return WeightParts(parts("queries"), parts("keys"))
        except CallError:  # a score that is not linear
            return WeightParts()
