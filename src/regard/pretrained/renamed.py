"""The same weights under two names: a table that import reads from left to right, and export from right to left.

    ours = [theirs_1; theirs_2; …]        one below the other: queries, keys and values are one product of ours
    ours = theirsᵀ                        GPT-2's linear layers hold input × output
    ours = theirs[rows][:, columns]       another order of features

Each of these loses nothing, so that `to_theirs(table, to_ours(table, weights))` is what went in.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.pretrained.weights import Weights


@dataclass(frozen=True)
class Renamed:
    """One weight of ours, and those of their file that it is made of."""

    ours: str
    theirs: tuple[str, ...]
    sizes: tuple[int, ...] = ()  # rows of each of theirs; by default they have equally many
    turned: bool = False  # theirs hold input × output
    ones: int = 0  # dimensions of size 1 that theirs have in front
    skipped: int = 0  # first rows of theirs that nothing reads
    rows: Tensor | None = None  # ours[i] = theirs[rows[i]]
    columns: Tensor | None = None

    def prefixed(self, ours: str, theirs: str) -> "Renamed":
        """The same below other names."""
        return replace(self, ours=ours + self.ours, theirs=tuple(theirs + name for name in self.theirs))

    def read(self, weights: Weights) -> Tensor:
        parts = [weights.take(name).flatten(0, self.ones) for name in self.theirs]
        whole = torch.cat([part.T for part in parts] if self.turned else parts)[self.skipped :]
        whole = whole if self.rows is None else whole[self.rows]
        return (whole if self.columns is None else whole[:, self.columns]).contiguous()

    def write(self, tensor: Tensor) -> dict[str, Tensor]:
        if self.columns is not None:
            tensor = tensor[:, self.columns.argsort()]
        if self.rows is not None:
            tensor = tensor[self.rows.argsort()]
        if self.skipped:
            tensor = torch.cat([tensor.new_zeros(self.skipped, *tensor.shape[1:]), tensor])
        sizes = list(self.sizes) or [len(tensor) // len(self.theirs)] * len(self.theirs)
        parts = [part.T if self.turned else part for part in tensor.split(sizes)]
        shaped = (part[(None,) * self.ones].contiguous() for part in parts)
        return dict(zip(self.theirs, shaped, strict=True))


def linear(
    ours: str,
    *theirs: str,
    bias: bool = True,
    sizes: Sequence[int] = (),
    turned: bool = False,
    rows: Tensor | None = None,
    columns: Tensor | None = None,
) -> list[Renamed]:
    """A linear layer or a norm; several of theirs become one of ours."""

    def named(part: str) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
        return f"{ours}.{part}", tuple(f"{name}.{part}" for name in theirs), tuple(sizes)

    weight = Renamed(*named("weight"), turned=turned, rows=rows, columns=columns)
    return [weight, Renamed(*named("bias"), rows=rows)] if bias else [weight]


def to_ours(table: Iterable[Renamed], weights: Weights) -> dict[str, Tensor]:
    return {one.ours: one.read(weights) for one in table}


def to_theirs(table: Iterable[Renamed], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for one in table:
        found |= one.write(weights[one.ours])
    return found
