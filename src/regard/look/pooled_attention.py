"""Attention of one pooled vector: how the label of a classifier, or a matched text, looks at the input.

    attention pooling     the weights of the pooling
    a class token         the row of that token, in every layer and head
    else                  the mean over all rows of self-attention (mean pooling)

The record also contains self-attention itself, as the encoder's.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from regard.look.placing import Sides, Table
from regard.look.records import Attention


def pooled(first: bool) -> Callable[[Sides, Sequence[Table]], list[Attention]]:
    """Place the tables of a pooled vector, for `Case.place`. `first`: a class token (`encoders/class_token.py`)."""

    def place(case: Sides, tables: Sequence[Table]) -> list[Attention]:
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


def rows_at(places: Sequence[int]) -> Callable[[Sides, Sequence[Table]], list[Attention]]:
    """Place the tables of outputs that predict one value for each of the vectors at these positions."""

    def place(case: Sides, tables: Sequence[Table]) -> list[Attention]:
        own = [
            Attention(name, "encoder", role.layer, weights, case.columns, case.columns)
            for name, role, weights in tables
            if weights.shape[-1] == len(case.axes[case.columns])
        ]
        seen = [replace(one, kind="cross", weights=one.weights[:, list(places)], rows=case.rows) for one in own]
        return [*seen, *own]

    return place
