"""Views of a record for the page: an outline first, then the one table, layer or set of small maps that it shows."""

import base64
from typing import Any

import numpy as np

from regard.look.card import sentence
from regard.look.head_figures import head_figures
from regard.look.html import card_tree, document, page
from regard.look.records import AttentionRecord, Kind, Matrix
from regard.look.views import Shown, blocks, suitable_view
from regard.serve import schemas
from regard.serve.record_selection import require_sendable

MAP = 64  # rows and columns of a head in the view of all heads


def outline(record: AttentionRecord) -> dict[str, Any]:
    """Return everything except the weights."""
    return document(Shown(record, suitable_view(record)), weights=False)


def part(record: AttentionRecord, wish: schemas.Part) -> dict[str, Any]:
    if wish.part == "maps":
        return {"layers": _maps(_hypothesis(record, wish), wish.kind)}
    if wish.part == "evidence":
        return {"figures": [vars(figure) for figure in record.evidence], "sentence": sentence(record.evidence)}
    one = _hypothesis(record, wish)
    read = _read(one, wish)
    if wish.part == "heads":
        found = read.of_kind(wish.kind)
        read.matrix(wish.kind, wish.layer)  # raises if there is no such layer
        wanted = found[0].layer if wish.layer is None else wish.layer
        layer = next(one for one in found if wanted in (one.layer, one.layer - len(found)))
        require_sendable([layer.weights], "choose one head")
        return {"tables": [_table(read.matrix(wish.kind, layer.layer, head)) for head in range(len(layer.weights))]}
    head = "mean" if wish.head is None else wish.head
    table = read.matrix(wish.kind, wish.layer, head)
    require_sendable([table.weights], "send a shorter text")
    whole = one.matrix(wish.kind, wish.layer, head)  # figures are those of the tokens, as in an exported page
    return {**_table(table), "card": card_tree(whole, one)}


def drawn(record: AttentionRecord, how: schemas.Picture, against: AttentionRecord | None = None) -> bytes:
    """Draw as PNG, SVG, PDF or a page."""
    head = "mean" if how.head is None else how.head
    record = record if how.view == "beams" else _hypothesis(record, how)
    record, against = _read(record, how), None if against is None else _read(against, how)
    shown = Shown(record, how.view, how.kind, how.layer, head, how.log, against, how.row)
    if how.format == "html":
        return page(shown).encode()
    from regard.look.figure import figure_bytes  # loads matplotlib, which only a picture needs

    return figure_bytes(shown, how.format)


def _read(record: AttentionRecord, how: schemas.Part | schemas.Picture) -> AttentionRecord:
    """Merge sub-words into words and hide special tokens, if requested."""
    record = record.words() if how.words else record
    return record if how.specials else record.without_specials()


def _hypothesis(record: AttentionRecord, how: schemas.Part | schemas.Picture) -> AttentionRecord:
    return [record, *record.beams][min(how.hypothesis, len(record.beams))]


def _table(table: Matrix) -> dict[str, Any]:
    sides = {"rows": table.rows, "columns": table.columns}
    return {name: [vars(token) for token in axis.tokens] for name, axis in sides.items()} | {
        "values": _numbers(table.weights)
    }


def _maps(record: AttentionRecord, kind: Kind | None) -> list[dict[str, Any]]:
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
