"""Select the tables of a record from the attention weights, and assign their axes.

This module does not need torch, so exports without torch follow the same rules.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from regard.look.axis import Axis
from regard.look.records import Attention, Kind

if TYPE_CHECKING:
    from regard.attention.score import Role


@runtime_checkable
class AxisPair(Protocol):
    """Axes of the tables; see `ExplainTarget`."""

    @property
    def axes(self) -> Mapping[str, Axis]: ...

    @property
    def rows(self) -> str: ...

    @property
    def columns(self) -> str: ...

    @property
    def kind(self) -> Kind: ...


class PlacedTable(NamedTuple):
    """The weights of one attention (H Q K) by some method."""

    name: str
    role: "Role"
    weights: np.ndarray


def by_role(case: AxisPair, tables: Sequence[PlacedTable]) -> list[Attention]:
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


def apply_gate(tables: Sequence[PlacedTable]) -> list[PlacedTable]:
    """Multiply weights by the gate of a decoder that has one."""
    gates = [table.weights for table in tables if table.role.kind == "gate"]  # 1 T 1
    rest = [table for table in tables if table.role.kind != "gate"]
    if not gates:
        return rest
    return [table._replace(weights=table.weights * gates[0]) if table.role.kind == "cross" else table for table in rest]


def with_heads(table: np.ndarray) -> np.ndarray:
    """Add the head dimension to attention with a single head."""
    return table[None] if table.ndim == 2 else table


def transpose_table(case: AxisPair, one: Attention) -> Attention:
    """Transpose a table between rows and columns."""
    if {one.rows, one.columns} != {case.rows, case.columns}:
        return one
    return replace(one, weights=one.weights.swapaxes(1, 2), rows=one.columns, columns=one.rows)


# Attention of one pooled vector: how the label of a classifier, or a matched text, looks at the input.
#
#     attention pooling     the weights of the pooling
#     a class token         the row of that token, in every layer and head
#     else                  the mean over all rows of self-attention (mean pooling)
#
# The record also contains self-attention itself, as the encoder's.


def pooled_placement(first: bool) -> Callable[[AxisPair, Sequence[PlacedTable]], list[Attention]]:
    """Place the tables of a pooled vector, for `ExplainTarget.place`. `first`: a class token (`encoders/image.py`)."""

    def place(case: AxisPair, tables: Sequence[PlacedTable]) -> list[Attention]:
        length, own = len(case.axes[case.columns]), any(table.role.kind == "pooling" for table in tables)
        seen: list[Attention] = []
        inside: list[Attention] = []
        for name, role, weights in tables:
            before = weights.shape[-1] - length  # a class token that is not on the axis
            if before not in (0, 1):  # another grid than that of the axis
                continue
            if role.kind == "pooling":
                rows = weights
            else:
                inside.append(
                    Attention(name, "encoder", role.layer, weights[:, before:, before:], case.columns, case.columns)
                )
                rows = weights[:, :1] if first else weights[:, before:].mean(axis=1, keepdims=True)
            if role.kind == "pooling" or not own:
                seen.append(Attention(name, case.kind, role.layer, rows[:, :, before:], case.rows, case.columns))
        return seen + inside if case.kind == "cross" else seen  # a record has one encoder: that of its input

    return place


def rows_at(places: Sequence[int]) -> Callable[[AxisPair, Sequence[PlacedTable]], list[Attention]]:
    """Place the tables of outputs that predict one value for each of the vectors at these positions."""

    def place(case: AxisPair, tables: Sequence[PlacedTable]) -> list[Attention]:
        own = [
            Attention(name, "encoder", role.layer, weights, case.columns, case.columns)
            for name, role, weights in tables
            if weights.shape[-1] == len(case.axes[case.columns])
        ]
        seen = [replace(one, kind="cross", weights=one.weights[:, list(places)], rows=case.rows) for one in own]
        return [*seen, *own]

    return place
