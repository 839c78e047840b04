"""Select the tables of a record from the attention weights, and assign their axes.

This module does not need torch, so exports without torch follow the same rules.
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
    """Axes of the tables; see `Case`."""

    @property
    def axes(self) -> Mapping[str, Axis]: ...

    @property
    def rows(self) -> str: ...

    @property
    def columns(self) -> str: ...

    @property
    def kind(self) -> Kind: ...


class Table(NamedTuple):
    """The weights of one attention (H Q K) by some method."""

    name: str
    role: "Role"
    weights: np.ndarray


def by_role(case: Sides, tables: Sequence[Table]) -> list[Attention]:
    """Assign axes by role: encoder tables are input × input, decoder tables output × previous tokens, cross-attention
    tables output × input.

    A class token that the encoder adds before image regions is not shown. Encoder attention over other vectors than
    those of the axis is not shown either.
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
    """Multiply weights by the gate of a decoder that has one."""
    gates = [table.weights for table in tables if table.role.kind == "gate"]  # 1 T 1
    rest = [table for table in tables if table.role.kind != "gate"]
    if not gates:
        return rest
    return [table._replace(weights=table.weights * gates[0]) if table.role.kind == "cross" else table for table in rest]


def with_heads(table: np.ndarray) -> np.ndarray:
    """Add the head dimension to attention with a single head."""
    return table[None] if table.ndim == 2 else table


def turned(case: Sides, one: Attention) -> Attention:
    """Transpose a table between rows and columns."""
    if {one.rows, one.columns} != {case.rows, case.columns}:
        return one
    return replace(one, weights=one.weights.swapaxes(1, 2), rows=one.columns, columns=one.rows)
