"""Positional encodings: the classic heat map (positions × dimensions), and the similarity of two positions by distance.

    similarity(k) = mean over t of  PE(t) · PE(t + k) / (‖PE(t)‖ ‖PE(t + k)‖)

For sinusoids the product depends only on the distance, Σ_i cos(k / 10000^{2i/d}), and decreases with it
(Vaswani et al. 2017, section 3.5, arXiv:1706.03762). From left to right, the map resembles the bits of a counter: the
first dimensions change with every position, the last hardly at all. For learned tables,
the picture shows whether they encode an order.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure as Canvas
from rich.console import Console, Group, RenderableType
from rich.text import Text

from regard.errors import CallError
from regard.files import atomic
from regard.look.figure_layout import APART, FAINT, INK
from regard.look.terminal import signed_map

Table = Float[np.ndarray, "T D"]


def similarity_by_distance(table: Table) -> Float[np.ndarray, " T"]:
    """Return the mean cosine of positions at distance k, for k = 0 … T − 1."""
    table = _check_table(table)
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    alike = unit @ unit.T
    return np.array([np.diagonal(alike, offset=k).mean() for k in range(len(table))])


def draw_positions(table: Table, title: str, console: Console) -> RenderableType:
    """Draw the map and some of the similarities in the terminal."""
    table = _check_table(table)
    alike = similarity_by_distance(table)
    steps = [k for k in (1, 2, 5, 10, 20, 50, 100) if k < len(alike)]
    line = "similarity at distance  " + "   ".join(f"{k}: {alike[k]:.2f}" for k in steps)
    told = f"{len(table)} positions (down) × {table.shape[1]} dimensions (across)"
    most = max(8, min(console.width, 160))
    if table.shape[1] > most:
        told += f", one of {1 + (table.shape[1] - 1) // most} drawn"
    return Group(Text(title, style="bold"), Text(told, style="dim"), signed_map(table, console, most=most), Text(line))


def write_positions(table: Table, title: str, path: Path) -> Path:
    """Write PNG, SVG, PDF or an HTML page."""
    table = _check_table(table)
    if path.suffix == ".html":
        from regard.look.html import whole_page

        told = {"title": title, "table": table.tolist(), "similarity": similarity_by_distance(table).tolist()}
        return atomic.write_text(path, whole_page({"positions": told}, title))
    canvas = Canvas(figsize=(11.5, 5.4), layout="constrained", facecolor="white")
    canvas.suptitle(title, fontsize=12, color=INK, x=0.01, ha="left")
    heat, curve = canvas.subplots(1, 2, width_ratios=[2.3, 1])
    top = float(np.abs(table).max()) or 1.0
    image = heat.imshow(table, cmap=APART, vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
    heat.set_xlabel("dimension", color=INK)
    heat.set_ylabel("position", color=INK)
    rod = canvas.colorbar(image, ax=heat, fraction=0.04, pad=0.02)
    rod.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    alike = similarity_by_distance(table)
    curve.axhline(0, color="#d8dae2", linewidth=1)
    curve.plot(alike, color="#3b53cf", linewidth=2)
    curve.set_xlabel("distance between two positions", color=INK)
    curve.set_title("similarity (mean cosine)", fontsize=10, color=INK, loc="left")
    curve.set_ylim(min(-0.05, float(alike.min()) * 1.1), 1.05)
    for axes in (heat, curve):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0, colors=FAINT)
    return atomic.write_with(path, lambda part: canvas.savefig(part, format=path.suffix[1:], dpi=150))


def _check_table(table: Table) -> Table:
    table = np.asarray(table, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise CallError(f"positions are a table of positions × dimensions, not of shape {table.shape}")
    return table
