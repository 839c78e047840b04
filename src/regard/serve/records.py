"""Cache of recent attention records, so that a page can fetch tables one by one from one computation."""

import base64
import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np

from regard.errors import CallError
from regard.look import Attention, AttentionRecord
from regard.look.card import sentence
from regard.look.head_figures import head_figures
from regard.look.html import card_tree, document, page
from regard.look.records import AttentionRecord as records_AttentionRecord
from regard.look.records import Head, Kind, Matrix
from regard.look.views import ShownView, blocks, suitable_view
from regard.serve import schemas

CACHE_NUMBERS = 16_000_000  # 64 MB of weights
MOST_RECORDS = 32


class Recent:
    """Cache of one model. Lanes use it in turn; a query that two lanes run at the same time is computed twice."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, AttentionRecord] = OrderedDict()
        self._lock = Lock()

    def get(self, question: Hashable, ask: Callable[[], AttentionRecord]) -> AttentionRecord:
        with self._lock:
            found = self._kept.get(question)
        record = ask() if found is None else found  # without the lock: the computation may have to wait for its turn
        with self._lock:
            self._kept[question] = record
            self._kept.move_to_end(question)
            while len(self._kept) > 1 and (len(self._kept) > MOST_RECORDS or self._numbers() > CACHE_NUMBERS):
                self._kept.popitem(last=False)
        return record

    def _numbers(self) -> int:
        records = (one for record in self._kept.values() for one in (record, *record.beams))
        return sum(attention.weights.size for record in records for attention in record.attentions)


# Selection of a part of a record: only what is shown is sent.

MOST_NUMBERS = 4_000_000  # in one answer: as JSON, some 80 MB


def require_sendable(tables: Iterable[Any], instead: str) -> None:
    """Raise if the response would be too large, before it is written."""
    numbers = sum(table.size for table in tables)
    if numbers > MOST_NUMBERS:
        raise CallError(f"the answer would hold {numbers:,} weights, more than {MOST_NUMBERS:,}: {instead}")


def select_attentions(
    record: AttentionRecord, kind: Kind | None, layer: int | None, head: Head | None
) -> AttentionRecord:
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
        beams=tuple(select_attentions(beam, kind, layer, head) for beam in record.beams),
    )
    require_sendable(_tables(part), "choose kind, layer and head, or a smaller n_best")
    return part


def token_cell(record: AttentionRecord, request: schemas.WeightOptions) -> tuple[int, int]:
    """Return the token cell of a cell of words, or of a table without special tokens; of several, the largest."""
    one = record.of_kind(request.kind)[0]
    sides = []
    for name, place in ((one.rows, request.row), (one.columns, request.column)):
        axis = record.axes[name]
        groups = axis.words() if request.words else [(number, number + 1) for number in range(len(axis))]
        shown = [group for group in groups if request.specials or not axis.tokens[group[0]].special]
        if not -len(shown) <= place < len(shown):
            raise CallError(f"{place} is not one of the {name} shown, 0 to {len(shown) - 1}")
        sides.append(slice(*shown[place]))
    rows, columns = sides
    weights = record.matrix(request.kind, request.layer, "max" if request.head is None else request.head).weights[
        rows, columns
    ]
    row, column = divmod(int(weights.argmax()), weights.shape[1])
    return rows.start + row, columns.start + column


def as_json(tree: Any) -> bytes:
    """Encode row by row: writing a large table in one call would block all other threads."""
    return "".join(_as_json(tree)).encode()


def _as_json(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for number, (name, value) in enumerate(tree.items()):
            yield f"{',' if number else '{'}{json.dumps(name)}:"
            yield from _as_json(value)
        yield "}" if tree else "{}"
    elif isinstance(tree, list) and tree and isinstance(tree[0], list | dict):
        for number, value in enumerate(tree):
            yield "," if number else "["
            yield from _as_json(value)
        yield "]"
    else:
        yield json.dumps(tree, ensure_ascii=False, allow_nan=False)


def _tables(record: AttentionRecord) -> Iterator[Any]:
    for one in (record, *record.beams):
        yield from (attention.weights for attention in one.attentions)


# Views of a record for the page: an outline first, then the one table, layer or set of small maps that it shows.

MAP = 64  # rows and columns of a head in the view of all heads


def outline(record: records_AttentionRecord) -> dict[str, Any]:
    """Return everything except the weights."""
    return document(ShownView(record, suitable_view(record)), weights=False)


def part(record: records_AttentionRecord, request: schemas.PartOut) -> dict[str, Any]:
    if request.part == "maps":
        return {"layers": _maps(_hypothesis(record, request), request.kind)}
    if request.part == "evidence":
        return {"figures": [vars(figure) for figure in record.evidence], "sentence": sentence(record.evidence)}
    one = _hypothesis(record, request)
    read = _read(one, request)
    if request.part == "heads":
        found = read.of_kind(request.kind)
        read.matrix(request.kind, request.layer)  # raises if there is no such layer
        wanted = found[0].layer if request.layer is None else request.layer
        layer = next(one for one in found if wanted in (one.layer, one.layer - len(found)))
        require_sendable([layer.weights], "choose one head")
        return {"tables": [_table(read.matrix(request.kind, layer.layer, head)) for head in range(len(layer.weights))]}
    head = "mean" if request.head is None else request.head
    table = read.matrix(request.kind, request.layer, head)
    require_sendable([table.weights], "send a shorter text")
    whole = one.matrix(request.kind, request.layer, head)  # figures are those of the tokens, as in an exported page
    return {**_table(table), "card": card_tree(whole, one)}


def draw_record(
    record: records_AttentionRecord, how: schemas.PictureOptions, against: records_AttentionRecord | None = None
) -> bytes:
    """Draw as PNG, SVG, PDF or a page."""
    head = "mean" if how.head is None else how.head
    record = record if how.view == "beams" else _hypothesis(record, how)
    record, against = _read(record, how), None if against is None else _read(against, how)
    shown = ShownView(record, how.view, how.kind, how.layer, head, how.log, against, how.row)
    if how.format == "html":
        return page(shown).encode()
    from regard.look.figure import figure_bytes  # loads matplotlib, which only a picture needs

    return figure_bytes(shown, how.format)


def _read(record: records_AttentionRecord, how: schemas.PartOut | schemas.PictureOptions) -> records_AttentionRecord:
    """Merge sub-words into words and hide special tokens, if requested."""
    record = record.words() if how.words else record
    return record if how.specials else record.without_specials()


def _hypothesis(
    record: records_AttentionRecord, how: schemas.PartOut | schemas.PictureOptions
) -> records_AttentionRecord:
    return [record, *record.beams][min(how.hypothesis, len(record.beams))]


def _table(table: Matrix) -> dict[str, Any]:
    sides = {"rows": table.rows, "columns": table.columns}
    return {name: [vars(token) for token in axis.tokens] for name, axis in sides.items()} | {
        "values": _numbers(table.weights)
    }


def _maps(record: records_AttentionRecord, kind: Kind | None) -> list[dict[str, Any]]:
    layers = []
    for one in record.of_kind(kind):
        heads = []
        for weights, figures in zip(one.weights, head_figures(record, one), strict=True):
            small = blocks(weights, MAP)
            q, k = small.shape
            heads.append({"values": _numbers(small), "q": q, "k": k} | figures.as_dict())
        layers.append({"layer": one.layer, "heads": heads})
    return layers


def _numbers(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()
