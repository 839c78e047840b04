"""From the weights of each attention to the tables of a record: which of them are shown, and between which axes.

Nothing here needs torch: an export that runs without it makes its record by the same rules.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from regard.look.axis import Axis
from regard.look.records import Attention, Kind

if TYPE_CHECKING:
    from regard.attention.role import Role


@runtime_checkable
class Sides(Protocol):
    """What tables stand between; see `Case`."""

    @property
    def axes(self) -> Mapping[str, Axis]: ...

    @property
    def rows(self) -> str: ...

    @property
    def columns(self) -> str: ...

    @property
    def kind(self) -> Kind: ...


class Table(NamedTuple):
    """The weights of one attention, H Q K, as a method has them."""

    name: str
    role: "Role"
    weights: np.ndarray


def by_role(case: Sides, tables: Sequence[Table]) -> list[Attention]:
    """An encoder's tables stand between the input and itself, a decoder's between what is written and what was read
    before it, cross-attention between what is written and the input.

    A class token that the encoder put before the regions of its input is not shown; nor is attention inside the
    encoder over something else than what the axis names.
    """
    found = []
    for name, role, weights in tables:
        kind: Kind = "cross" if role.kind == "pooling" else role.kind  # pyright: ignore[reportAssignmentType]
        rows, columns = {"encoder": ("source", "source"), "decoder": ("target", "read")}.get(kind, ("target", "source"))
        if kind == "encoder" and weights.shape[-1] == len(case.axes[columns]) + 1:
            weights = weights[:, 1:, 1:]
        if kind != "encoder" or weights.shape[-1] == len(case.axes[columns]):
            found.append(Attention(name, kind, role.layer, weights, rows, columns))
    return found


def gated(tables: Sequence[Table]) -> list[Table]:
    """A decoder that can look away says how much of what it saw it let through: weights are shown times that."""
    gates = [table.weights for table in tables if table.role.kind == "gate"]  # 1 T 1
    rest = [table for table in tables if table.role.kind != "gate"]
    if not gates:
        return rest
    return [table._replace(weights=table.weights * gates[0]) if table.role.kind == "cross" else table for table in rest]


def with_heads(table: np.ndarray) -> np.ndarray:
    """Attention of one head has no dimension for it."""
    return table[None] if table.ndim == 2 else table


def turned(case: Sides, one: Attention) -> Attention:
    """A table between rows and columns the other way round; twice is as it was."""
    if {one.rows, one.columns} != {case.rows, case.columns}:
        return one
    return replace(one, weights=one.weights.swapaxes(1, 2), rows=one.columns, columns=one.rows)
