"""Find the weight of a model behind a cell of a record.

A job may drop rows and columns, transpose a table or average it (`Case.place`). So weights are replaced by their
numbers, and the same placement is applied: the cell then contains the number of its weight.
"""

import math
from typing import NamedTuple

import numpy as np
import torch

from regard.attention import Trace
from regard.errors import CallError
from regard.look.asking import evaluating
from regard.look.attribution import placed, turned
from regard.look.case import WHOLE, Case
from regard.look.placing import Table, with_heads
from regard.look.records import ORDER, Attention, Kind
from regard.look.tables import NOTHING


class PlacedWeight(NamedTuple):
    """A cell of a record, with the trace of its weight and its position: `query` and `key` of `shown.name`.

    `key_labels`: labels of the keys of this query in the record, by position.
    """

    case: Case
    seen: Trace
    shown: Attention
    cell: tuple[int, int, int]  # head, row, column of the shown table
    query: int
    key: int
    key_labels: dict[int, str]


class _Numbered(NamedTuple):
    case: Case
    seen: Trace
    shown: Attention
    numbers: np.ndarray  # in a head, from 1, in the order of the model; 0: no weight
    marks: np.ndarray  # random, placed in the same way
    marked: np.ndarray  # the same before placement, by number


def find_weight(
    case: Case, row: int, column: int, kind: Kind | None, layer: int | None, head: int | None
) -> PlacedWeight:
    """Find the weight of a cell. By default layer and head with the largest weight of this cell."""
    found = [one for side in (case, *case.beside) for one in _numbered(side)]
    if not found:
        raise CallError(NOTHING)
    one, cell = _chosen(found, row, column, kind, layer, head)
    rows, columns = (one.case.axes[name].labels for name in (one.shown.rows, one.shown.columns))
    numbers, keys = one.numbers.astype(int) - 1, one.seen[one.shown.name].shape[-1]
    number = int(numbers[cell[1:]])
    if number >= 0 and one.marks[cell[1:]] != one.marked[number]:
        raise CallError(
            f"the row {rows[cell[1]]!r} is the mean over all vectors, as they are pooled alike, and a mean has no "
            "score of its own: kind='encoder' (--kind encoder) asks about one of them, where it is shown"
        )
    if number < 0:
        raise CallError(f"{rows[cell[1]]!r} cannot look at {columns[cell[2]]!r}: there is no such weight")
    query, key = divmod(number, keys)
    same = list(zip(*np.nonzero((numbers >= 0) & (numbers // keys == query)), strict=True))
    along_rows = len({int(i) for i, _ in same}) > 1  # a transposed table has one query per column
    labels = {int(numbers[i, j]) % keys: rows[i] if along_rows else columns[j] for i, j in same}
    return PlacedWeight(one.case, one.seen, one.shown, cell, query, key, labels)


def _numbered(case: Case) -> list[_Numbered]:
    with evaluating(case.model), torch.no_grad(), Trace(case.model, scores=True) as seen:
        case.ask([WHOLE])
    try:
        names = [name for name in seen.names if seen.role(name).kind != "gate"]
    except RuntimeError:  # no attention here
        return []
    weights = {name: with_heads(seen[name][case.row].float().cpu().numpy()) for name in names}
    sizes = {name: (1, *one.shape[1:]) for name, one in weights.items()}  # all heads have the same placement
    numbers = {name: np.arange(1.0, math.prod(size) + 1).reshape(size) for name, size in sizes.items()}
    random = np.random.default_rng(0)
    marks = {name: random.random(size, dtype=np.float32) for name, size in sizes.items()}

    def shown(tables: dict[str, np.ndarray]) -> list[Attention]:
        ready = [Table(name, seen.role(name), table) for name, table in tables.items()]
        return [turned(case, one) for one in placed(case, ready)]

    found = zip(shown(weights), shown(numbers), shown(marks), strict=True)
    return [
        _Numbered(case, seen, one, number.weights[0], mark.weights[0], marks[one.name].ravel())
        for one, number, mark in found
    ]


def _chosen(
    found: list[_Numbered], row: int, column: int, kind: Kind | None, layer: int | None, head: int | None
) -> tuple[_Numbered, tuple[int, int, int]]:
    kinds: list[Kind] = [one for one in ORDER if any(table.shown.kind == one for table in found)]
    kind = kinds[0] if kind is None else kind
    if kind not in kinds:
        raise CallError(f"kind={kind!r} is not shown here; there are: {', '.join(kinds)}")
    tables = sorted((one for one in found if one.shown.kind == kind), key=lambda one: one.shown.layer)
    layers = [one.shown.layer for one in tables]
    if layer is not None:
        if layer not in layers and not -len(tables) <= layer < 0:
            raise CallError(f"layer={layer} is not one of {', '.join(map(str, layers))} ({kind})")
        tables = [tables[layer] if layer < 0 else tables[layers.index(layer)]]
    heads, rows, columns = tables[0].shown.weights.shape
    for name, value, most in (("head", head, heads), ("row", row, rows), ("column", column, columns)):
        if value is not None and not -most <= value < most:
            raise CallError(f"{name}={value} is not one of 0 to {most - 1}")
    if head is not None and len(tables) > 1:
        raise CallError(f"head={head} of which layer? say layer=0 to {layers[-1]}")
    row, column = row % rows, column % columns
    of = range(heads) if head is None else [head % heads]
    choices = [(one, (number, row, column)) for one in tables for number in of]
    return max(choices, key=lambda choice: choice[0].shown.weights[choice[1]])
