"""Attention records from arrays of any library: `regard.look.record(weights=..., rows=..., columns=...)`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.errors import CallError
from regard.look.axis import Axis, axis
from regard.look.records import KINDS, Attention, AttentionRecord, Kind

Labels = Sequence[str] | Axis


def record(
    weights: Any,
    rows: Labels,
    columns: Labels | None = None,
    *,
    kind: Kind | None = None,
    method: str = "raw",
    model: str = "",
    input: str = "",
    output: str = "",
    scores: Sequence[float] = (),
) -> AttentionRecord:
    """Make an attention record from the weights of any model and the tokens on both sides.

    weights   T × S or heads × T × S (numpy, torch or lists); a leading batch dimension of 1 is removed. A list or
              tuple has one table per layer, a mapping one per name
    rows      queries: labels, or an `axis(...)` with words, a grid or times
    columns   keys; by default the rows (self-attention)
    kind      "cross", "encoder" or "decoder"; by default cross if there are columns, else encoder
    method    name of the numbers for the caption; "raw" is attention as the model computed it
    """
    if kind is not None and kind not in KINDS:
        raise CallError(f"kind={kind!r} must be one of {', '.join(KINDS)}")
    kind = kind or ("encoder" if columns is None else "cross")
    row_axis, column_axis = axis_of("rows", rows), None if columns is None else axis_of("columns", columns)
    axes = {"source": row_axis} if column_axis is None else {"target": row_axis, "source": column_axis}
    side = "source" if column_axis is None else "target"
    if scores and len(scores) != len(row_axis):
        raise CallError(f"{len(scores)} scores do not fit {len(row_axis)} rows")
    if scores and column_axis is None:
        raise CallError("scores belong to rows that were written: give columns, too")
    attentions = [
        Attention(name, kind, number, _table(name, table), side, "source")
        for number, (name, table) in enumerate(_named(weights).items())
    ]
    return AttentionRecord(
        tuple(attentions), axes, method=method, model=model, input=input, output=output, scores=tuple(scores)
    )


def axis_of(name: str, labels: Labels) -> Axis:
    if isinstance(labels, Axis):
        return labels
    if isinstance(labels, str):
        raise CallError(f"{name} must be a list of tokens, not one text: {name}=text.split() for words")
    return axis(labels)


def _named(weights: Any) -> dict[str, Any]:
    if isinstance(weights, Mapping):
        found = {str(name): table for name, table in weights.items()}
    elif isinstance(weights, tuple | list) and any(one is None or np.ndim(_array(one)) >= 2 for one in weights):
        found = {f"layer {number}": table for number, table in enumerate(weights)}
    else:
        found = {"attention": weights}
    if not found:
        raise CallError("no weights were given: a model may have to be asked for them (output_attentions=True)")
    return found


def _table(name: str, table: Any) -> np.ndarray:
    """Return heads × rows × columns as float32."""
    if table is None:
        raise CallError(f"{name} has no weights: a fused kernel returns none, ask the model for them")
    try:
        array = np.asarray(_array(table), dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise CallError(f"{name} is no table of numbers: {error}") from None
    if array.ndim == 4:
        if len(array) != 1:
            raise CallError(f"{name} has the weights of {len(array)} sentences: give those of one, weights[i]")
        array = array[0]
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3:
        raise CallError(f"{name} has {array.ndim} dimensions; weights are rows × columns or heads × rows × columns")
    return array


def _array(table: Any) -> Any:
    """Convert to numpy, also from a torch tensor with gradient, in half precision or on a GPU."""
    if hasattr(table, "detach"):
        return table.detach().float().cpu().numpy()
    return table
