"""Small pictures as SVG text for pages and files: no script, no network, all labels escaped."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from regard.errors import CallError
from regard.look.axis import to_png
from regard.look.records import AttentionRecord, Matrix
from regard.look.views import top_weight
from regard.metrics.classes import Bin

CELL = 22


def heat_map(
    weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str, strongest: float = 1.0
) -> str:
    """Draw weights (rows × columns) as a labeled matrix, relative to `strongest`, with values on hover."""
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (len(rows), len(columns)):
        raise ValueError(f"weights of shape {weights.shape} do not fit {len(rows)} rows and {len(columns)} columns")
    left = 12 + 8 * max((len(row) for row in rows), default=0)
    top = 12 + 7 * max((len(column) for column in columns), default=0)
    slanting = max((CELL * j + 4 * len(column) + 20 for j, column in enumerate(columns)), default=0)  # to its end
    width, height = left + max(CELL * len(columns), slanting) + 8, top + CELL * len(rows) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" font-family="system-ui, sans-serif" font-size="13" fill="currentColor">',
        f"<title>{escape(title)}</title>",
    ]
    for j, column in enumerate(columns):
        x, y = left + CELL * j + CELL / 2 + 4, top - 6
        parts.append(f'<text x="{x}" y="{y}" transform="rotate(-60 {x} {y})">{escape(column)}</text>')
    for i, row in enumerate(rows):
        y = top + CELL * i
        parts.append(f'<text x="{left - 8}" y="{y + 16}" text-anchor="end">{escape(row)}</text>')
        for j, column in enumerate(columns):
            value = float(weights[i, j])
            parts.append(
                f'<rect x="{left + CELL * j}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" rx="2" fill="#2563eb"'
                f' fill-opacity="{0.06 + 0.94 * min(max(value / strongest, 0.0), 1.0):.3f}">'
                f"<title>{escape(row)} ← {escape(column)}: {value:.3f}</title></rect>"
            )
    return "".join(parts) + "</svg>"


def reliability_diagram(bins: Sequence[Bin], size: int = 220) -> str:
    """Draw the accuracy of each bin as bars, with the diagonal of perfect calibration."""
    width, left, base = size / 10, 34, size + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size + 50} {size + 44}" width="{size + 50}" '
        f'height="{size + 44}" role="img" font-family="system-ui, sans-serif" font-size="11" fill="currentColor">'
        "<title>Reliability of probabilities</title>"
    ]
    for one in bins:
        x, height = left + one.low * size, one.right / 100 * size
        sure = base - one.confidence / 100 * size
        parts.append(
            f'<rect x="{x + 1:.1f}" y="{base - height:.1f}" width="{width - 2:.1f}" height="{height:.1f}" '
            f'fill="#2563eb" fill-opacity="0.55">'
            f"<title>{one.low:.0%} to {one.high:.0%}: {one.right:.1f}% right of {one.count}</title>"
            f'</rect><line x1="{x + 1:.1f}" x2="{x + width - 1:.1f}" y1="{sure:.1f}" y2="{sure:.1f}" '
            'stroke="currentColor" stroke-width="2"/>'
        )
    parts.append(
        f'<line x1="{left}" y1="{base}" x2="{left + size}" y2="{base - size}" stroke="currentColor" '
        f'stroke-dasharray="3 3" opacity="0.5"/><line x1="{left}" y1="{base}" x2="{left + size}" y2="{base}" '
        f'stroke="currentColor"/><text x="{left + size / 2}" y="{base + 28}" text-anchor="middle">probability</text>'
    )
    for share in (0, 0.5, 1):
        parts.append(f'<text x="{left + share * size}" y="{base + 14}" text-anchor="middle">{share:g}</text>')
        parts.append(f'<text x="{left - 6}" y="{base - share * size + 4}" text-anchor="end">{share:g}</text>')
    return "".join(parts) + "</svg>"


# Pictures of records for the report of a run: heat map of words, filmstrip over an image, lines under sound.

WIDEST = 160  # columns of a heat map
MOST_PANELS, SIDE = 24, 112  # pictures of a filmstrip, and their pixels at the most
SHADES = 10  # of painted words, as in `report.css`: served pages allow no inline style


class ReportPicture(NamedTuple):
    """A picture for the report of a run or the page of its scores. `html` is inserted unescaped."""

    title: str
    html: str
    note: str = ""


def picture_of(record: AttentionRecord, right: str = "") -> ReportPicture:
    """Draw a record. `right` is the correct output, if known."""
    matrix = record.matrix()
    title = f"{record.input} → {record.output}" if record.output else record.input
    note = f"{matrix.title}; method: {record.method}."
    if matrix.columns.image is not None:
        note += f" Looked at alike, each region would have {1 / len(matrix.columns.upon()):.2g}."
    note += f" Right would be: {right}" if right and record.output else ""
    if matrix.columns.image is not None:
        return ReportPicture(title, _filmstrip(matrix), note)
    if len(matrix.rows) == 1 and matrix.columns.times is None:
        return ReportPicture(title, _paint(matrix), note)
    if len(matrix.columns) > WIDEST or len(matrix.rows) > WIDEST:
        raise CallError("too wide for a report")
    names = matrix.rows.labels, matrix.columns.labels
    return ReportPicture(title, heat_map(matrix.weights, *names, record.output, top_weight(matrix.weights)), note)


def _filmstrip(matrix: Matrix) -> str:
    """Draw the image, then a copy for each row with its weights as heat."""
    from regard.look.figure_layout import OPACITY, heat  # loads drawing code, which predictions do not need

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


def _paint(matrix: Matrix) -> str:
    """Paint the words themselves, for tables with one row."""
    weights = matrix.weights[0]
    top = top_weight(weights)
    words = " ".join(
        f'<mark class="w{round(SHADES * min(1.0, float(weight) / top))}">{escape(token)}</mark>'
        for token, weight in zip(matrix.columns.labels, weights, strict=True)
    )
    return f'<p class="text">{words}</p>'
