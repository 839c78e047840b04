"""Pictures of records for the report of a run: heat map of words, filmstrip over an image, lines under sound."""

from html import escape
from typing import NamedTuple

import numpy as np

from regard.errors import CallError
from regard.look.backdrop import to_png
from regard.look.records import AttentionRecord, Matrix
from regard.look.svg import heat_map
from regard.look.views import top_weight

WIDEST = 160  # columns of a heat map
MOST_PANELS, SIDE = 24, 112  # pictures of a filmstrip, and their pixels at the most
SHADES = 10  # of painted words, as in `report.css`: served pages allow no inline style


class Picture(NamedTuple):
    """A picture for the report of a run or the page of its scores. `html` is inserted unescaped."""

    title: str
    html: str
    note: str = ""


def picture_of(record: AttentionRecord, right: str = "") -> Picture:
    """Draw a record. `right` is the correct output, if known."""
    matrix = record.matrix()
    title = f"{record.input} → {record.output}" if record.output else record.input
    note = f"{matrix.title}; method: {record.method}."
    if matrix.columns.image is not None:
        note += f" Looked at alike, each region would have {1 / len(matrix.columns.upon()):.2g}."
    note += f" Right would be: {right}" if right and record.output else ""
    if matrix.columns.image is not None:
        return Picture(title, _filmstrip(matrix), note)
    if len(matrix.rows) == 1 and matrix.columns.times is None:
        return Picture(title, _painted(matrix), note)
    if len(matrix.columns) > WIDEST or len(matrix.rows) > WIDEST:
        raise CallError("too wide for a report")
    names = matrix.rows.labels, matrix.columns.labels
    return Picture(title, heat_map(matrix.weights, *names, record.output, top_weight(matrix.weights)), note)


def _filmstrip(matrix: Matrix) -> str:
    """Draw the image, then a copy for each row with its weights as heat."""
    from regard.look.figure_overlay import OPACITY, heat  # loads drawing code, which predictions do not need

    image, grid = matrix.columns.image, matrix.columns.grid
    assert image is not None
    assert grid is not None
    image = image[:: -(-max(image.shape) // SIDE), :: -(-max(image.shape) // SIDE)]
    down, across = (np.arange(pixels) * parts // pixels for pixels, parts in zip(image.shape, grid, strict=False))
    panels = [_panel(image, "the picture", "")]
    for place in range(min(len(matrix.rows), MOST_PANELS)):
        weights = matrix.weights[place]
        hot = 255 * heat(weights, matrix.columns, log=False)[np.ix_(down, across)][:, :, :3]
        mixed = ((1 - OPACITY) * image + OPACITY * hot).round().astype(np.uint8)
        panels.append(_panel(mixed, matrix.rows.labels[place], f"largest {weights[matrix.columns.upon()].max():.2g}"))
    return f'<div class="strip">{"".join(panels)}</div>'


def _panel(image: np.ndarray, name: str, told: str) -> str:
    source = f"data:image/png;base64,{to_png(np.ascontiguousarray(image))}"
    words = f"<b>{escape(name)}</b><small>{told}</small>"
    return f'<figure class="bare"><img alt="" src="{source}"><figcaption>{words}</figcaption></figure>'


def _painted(matrix: Matrix) -> str:
    """Paint the words themselves, for tables with one row."""
    weights = matrix.weights[0]
    top = top_weight(weights)
    words = " ".join(
        f'<mark class="w{round(SHADES * min(1.0, float(weight) / top))}">{escape(token)}</mark>'
        for token, weight in zip(matrix.columns.labels, weights, strict=True)
    )
    return f'<p class="text">{words}</p>'
