"""An alignment matrix as SVG text, for pages and files: no script, no network, every label escaped."""

from collections.abc import Sequence
from html import escape

import numpy as np

CELL = 22


def heat_map(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str) -> str:
    """Weights (rows × columns) as a labeled matrix; each cell tells its value on hover."""
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (len(rows), len(columns)):
        raise ValueError(f"weights of shape {weights.shape} do not fit {len(rows)} rows and {len(columns)} columns")
    left = 12 + 8 * max((len(row) for row in rows), default=0)
    top = 12 + 7 * max((len(column) for column in columns), default=0)
    width, height = left + CELL * len(columns) + 8, top + CELL * len(rows) + 8
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
                f' fill-opacity="{0.06 + 0.94 * min(max(value, 0.0), 1.0):.3f}">'
                f"<title>{escape(row)} ← {escape(column)}: {value:.3f}</title></rect>"
            )
    return "".join(parts) + "</svg>"
