"""What one vector sees that was pooled from many: how a classifier's label, or a matched text, looks at the input.

    attention pooling     the weights of the pooling
    a class token         the row of that token, in every layer and head
    else                  the mean over all rows of self-attention, as all of them are pooled alike

Self-attention itself, token by token or region by region, is shown beside it as the encoder's.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from regard.look.placing import Sides, Table
from regard.look.records import Attention


def pooled(first: bool) -> Callable[[Sides, Sequence[Table]], list[Attention]]:
    """For `Case.place`. `first`: the pooled vector is that of a class token, see `encoders/class_token.py`."""

    def place(case: Sides, tables: Sequence[Table]) -> list[Attention]:
        length, own = len(case.axes[case.columns]), any(table.role.kind == "pooling" for table in tables)
        seen: list[Attention] = []
        inside: list[Attention] = []
        for name, role, weights in tables:
            before = weights.shape[-1] - length  # a class token that the axis does not name
            if before not in (0, 1):  # another grid than the one that the axis names
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
    """For outputs that say one thing of each of the vectors at these places: they see what its own row sees."""

    def place(case: Sides, tables: Sequence[Table]) -> list[Attention]:
        own = [
            Attention(name, "encoder", role.layer, weights, case.columns, case.columns)
            for name, role, weights in tables
            if weights.shape[-1] == len(case.axes[case.columns])
        ]
        seen = [replace(one, kind="cross", weights=one.weights[:, list(places)], rows=case.rows) for one in own]
        return [*seen, *own]

    return place
