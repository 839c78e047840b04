"""The check of an export: the same inputs give the same results in the run and in the export.

    logits    |ours − theirs| ≤ 1e-4, everywhere
    outputs   equal; or the model finds both equally good, within the same 1e-4: a tie, which may fall either way

Numbers of another type than float32 are others: there the differences are told, and nothing is refused.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from regard.data.pairs import excerpt
from regard.errors import RegardError
from regard.exporters.base import Compared

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Proof:
    inputs: int
    largest_difference: float
    equal_outputs: float  # the share
    ties: int  # of those that are not equal
    texts: int  # outputs that have words, and not numbers alone

    def sentence(self) -> str:
        said = f"checked on {self.inputs} inputs: largest difference {self.largest_difference:.2g}"
        if not self.texts:
            return f"{said}; no output has words to compare"
        ties = f" (and {self.ties} ties)" if self.ties else ""
        return f"{said}, {self.equal_outputs:.1%} of outputs equal{ties}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def prove(compared: Iterable[Compared], *, exact: bool) -> Proof:
    """`exact`: refuse what differs."""
    largest, equal, ties, texts, count = 0.0, 0, 0, 0, 0
    for one in compared:
        if math.isnan(one.difference):
            raise RegardError(f"the export gives no numbers (NaN): {one.place} of {excerpt(one.input)!r}")
        if exact and one.difference > TOLERANCE:
            raise RegardError(
                f"the export is not the same: {one.place} of {excerpt(one.input)!r} differs by {one.difference:.2g}, "
                f"more than {TOLERANCE:g}; nothing was written"
            )
        if exact and one.ours != one.theirs and not one.tied:
            raise RegardError(
                f"the export says something else of {excerpt(one.input)!r}: {one.theirs!r} in the place of "
                f"{one.ours!r}; nothing was written"
            )
        largest, ties = max(largest, one.difference), ties + one.tied
        equal, texts, count = equal + (one.ours == one.theirs), texts + bool(one.ours), count + 1
    if not count:
        raise RegardError("there was no input to check the export with")
    return Proof(count, largest, equal / count, ties, texts)
