"""Selection of a part of a record: only what is shown is sent."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from regard.errors import CallError
from regard.look import Attention, AttentionRecord
from regard.look.records import Head, Kind
from regard.serve import schemas

MOST_NUMBERS = 4_000_000  # in one answer: as JSON, some 80 MB


def require_sendable(tables: Iterable[Any], instead: str) -> None:
    """Raise if the response would be too large, before it is written."""
    numbers = sum(table.size for table in tables)
    if numbers > MOST_NUMBERS:
        raise CallError(f"the answer would hold {numbers:,} weights, more than {MOST_NUMBERS:,}: {instead}")


def chosen(record: AttentionRecord, kind: Kind | None, layer: int | None, head: Head | None) -> AttentionRecord:
    """Return the attentions of a kind and a layer, or the one table of a head (or of the mean or max of heads)."""
    if kind is None and layer is None and head is None:
        require_sendable(_tables(record), "choose kind, layer and head")
        return record
    found = record.of_kind(kind)
    if head is not None:
        matrix = record.matrix(kind, layer, head)
        number = 0 if layer is None else layer % len(found) if layer < 0 else layer
        like = found[0]
        attentions = [Attention(matrix.title, like.kind, number, matrix.weights[None], like.rows, like.columns)]
    elif layer is not None:
        record.matrix(kind, layer)  # raises if there is no such layer
        attentions = [one for one in found if one.layer == layer] or [found[layer]]
    else:
        attentions = found
    used = {"target", *(side for one in attentions for side in (one.rows, one.columns))}
    part = replace(
        record,
        attentions=tuple(attentions),
        axes={name: axis for name, axis in record.axes.items() if name in used},
        beams=tuple(chosen(beam, kind, layer, head) for beam in record.beams),
    )
    require_sendable(_tables(part), "choose kind, layer and head, or a smaller n_best")
    return part


def token_cell(record: AttentionRecord, wish: schemas.Weight) -> tuple[int, int]:
    """Return the token cell of a cell of words, or of a table without special tokens; of several, the largest."""
    one = record.of_kind(wish.kind)[0]
    sides = []
    for name, place in ((one.rows, wish.row), (one.columns, wish.column)):
        axis = record.axes[name]
        groups = axis.words() if wish.words else [(number, number + 1) for number in range(len(axis))]
        shown = [group for group in groups if wish.specials or not axis.tokens[group[0]].special]
        if not -len(shown) <= place < len(shown):
            raise CallError(f"{place} is not one of the {name} shown, 0 to {len(shown) - 1}")
        sides.append(slice(*shown[place]))
    rows, columns = sides
    weights = record.matrix(wish.kind, wish.layer, "max" if wish.head is None else wish.head).weights[rows, columns]
    row, column = divmod(int(weights.argmax()), weights.shape[1])
    return rows.start + row, columns.start + column


def as_json(tree: Any) -> bytes:
    """Encode row by row: writing a large table in one call would block all other threads."""
    return "".join(_written(tree)).encode()


def _written(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for number, (name, value) in enumerate(tree.items()):
            yield f"{',' if number else '{'}{json.dumps(name)}:"
            yield from _written(value)
        yield "}" if tree else "{}"
    elif isinstance(tree, list) and tree and isinstance(tree[0], list | dict):
        for number, value in enumerate(tree):
            yield "," if number else "["
            yield from _written(value)
        yield "]"
    else:
        yield json.dumps(tree, ensure_ascii=False, allow_nan=False)


def _tables(record: AttentionRecord) -> Iterator[Any]:
    for one in (record, *record.beams):
        yield from (attention.weights for attention in one.attentions)
