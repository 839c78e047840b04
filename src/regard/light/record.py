"""Attention records from the outputs of graphs, by the same rules as with torch (`look/placing.py`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from regard.errors import CallError
from regard.light.session import Arrays
from regard.look.axis import Axis
from regard.look.placing import AxisPair, PlacedTable, apply_gate, by_role, transpose_table, with_heads
from regard.look.records import ORDER, Attention, AttentionRecord, Kind

Place = Callable[[AxisPair, Sequence[PlacedTable]], list[Attention]]
UNSEEN = (
    "this export has no attention weights: export the run again, without --no-attention (or the model has no attention)"
)


class LightRole(NamedTuple):
    """The counterpart of `attention.role.Role`."""

    kind: str
    layer: int


@dataclass(frozen=True)
class Between:
    axes: Mapping[str, Axis]
    rows: str = "target"
    columns: str = "source"
    kind: Kind = "cross"


class Side(NamedTuple):
    """`seen`: the weights of each attention of one input, (heads ×) queries × keys. `place`: which of them are shown,
    and between which axes. `turned`: transposed (`look.placing.turned`).
    """

    seen: Arrays
    between: Between
    place: Place = by_role
    turned: bool = False


def record_of(
    arrays: Arrays, roles: Mapping[str, tuple[str, int]], between: Between, place: Place = by_role, **told: Any
) -> AttentionRecord:
    return record_of_sides([Side(arrays, between, place)], roles, **told)


def record_of_sides(
    sides: Sequence[Side], roles: Mapping[str, tuple[str, int]], **told: Any
) -> AttentionRecord:  # fmt: skip
    """Return the record of the same output from several sides (a picture, a text) that have attention."""
    shown = [
        transpose_table(side.between, one) if side.turned else one
        for side in sides
        for one in side.place(side.between, apply_gate(_tables(side.seen, roles)))
    ]
    if not shown:
        raise CallError(UNSEEN)
    ready = (replace(one, weights=np.ascontiguousarray(one.weights, np.float32)) for one in shown)
    found = tuple(sorted(ready, key=lambda one: ORDER.index(one.kind)))
    method = "raw, times the gate" if any(kind == "gate" for kind, _ in roles.values()) else "raw"
    return AttentionRecord(found, sides[0].between.axes, method=method, **told)


def _tables(arrays: Arrays, roles: Mapping[str, tuple[str, int]]) -> list[PlacedTable]:
    return [
        PlacedTable(name, LightRole(*roles[name]), with_heads(weights))  # pyright: ignore[reportArgumentType]
        for name, weights in arrays.items()
    ]


def join_steps(steps: Sequence[Arrays]) -> Arrays:
    """Join the steps of decoding, with zero for keys that did not exist yet."""
    found: Arrays = {}
    for name in steps[0] if steps else ():
        weights = [step[name][0] for step in steps]
        longest = max(one.shape[-1] for one in weights)
        padded = [np.pad(one, [(0, 0)] * (one.ndim - 1) + [(0, longest - one.shape[-1])]) for one in weights]
        found[name] = np.concatenate(padded, axis=-2)
    return found
