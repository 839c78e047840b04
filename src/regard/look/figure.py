"""Pictures of attention as PNG, SVG and PDF, by matplotlib. Needs no display and changes no global state."""

import io
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FormatStrFormatter

from regard.files import atomic
from regard.look.figure_layout import (
    APART,
    BLUES,
    FAINT,
    HEADS,
    INK,
    LOWEST,
    draw_overlay,
    families,
    inches,
    length,
    short,
    tell_missing,
    titles,
    with_card,
)
from regard.look.head_figures import head_figures
from regard.look.records import Node, beam_tree
from regard.look.views import DECADES, ShownView, joint_labels, strength, top_weight

# The tree of a search's hypotheses, drawn from left to right.

BEAM_INK, BEAM_FAINT, BEST = "#1c1f2b", "#8a8fa0", "#3b53cf"


def draw_tree(axes: Axes, nodes: Sequence[Node], scores: Sequence[float | None], inches: float) -> None:
    """Draw one line per hypothesis, best at the top, with shared prefixes once.

    One unit of x is the width of a character, so that edges start where the text ends.
    """
    axes.set_axis_off()
    axes.set_ylim(len(scores) - 0.4, -0.6)
    reach = max(_reach(node) for node in nodes) + 22
    size = min(9.5, inches * 72 / (0.6 * reach))
    axes.set_xlim(0, inches * 72 / (0.62 * size))
    lines = iter(range(len(scores)))
    for node in nodes:
        _draw(axes, node, 0.5, lines, scores, size)


def _reach(node: Node) -> int:
    return _width(node) + max((_reach(child) for child in node.children), default=0)


def _width(node: Node) -> int:
    return 4 + sum(1 + len(token) for token in node.tokens)


def _draw(axes: Axes, node: Node, x: float, lines: Iterator[int], scores: Sequence[float | None], size: float) -> float:
    """Draw a node and return its height, the middle of its leaves."""
    end = x + _width(node)
    ink = BEST if 0 in node.hypotheses else BEAM_INK
    if node.children:
        heights = [_draw(axes, child, end, lines, scores, size) for child in node.children]
        y = sum(heights) / len(heights)
        for child, height in zip(node.children, heights, strict=True):
            line = BEST if 0 in child.hypotheses else BEAM_FAINT
            axes.plot([end - 3.6, end - 2, end - 0.6], [y, height, height], color=line, linewidth=1.3)
    else:
        y = float(next(lines))
        best = node.hypotheses[0]
        score = "" if scores[best] is None else f"   score {scores[best]:.3f}"
        axes.text(end - 3, y, f"#{best + 1}{score}", fontsize=size - 1, color=BEAM_FAINT, va="center")
    axes.text(x, y, " ".join(node.tokens), fontsize=size, color=ink, va="center", family="monospace")
    axes.text(x, y + 0.34, f"log p {node.log_probability:.2f}", fontsize=size - 3, color=BEAM_FAINT, va="center")
    return y


SMALL_CELL = 0.1  # inches, in the grid of heads
MOST_LINES = 1500  # of a head, in the view of lines; the faintest are dropped
DRAWING = threading.Lock()  # matplotlib's settings and Python's warnings belong to the whole process
MOST_LABELS = 90  # on a side; of more, only every second, third, ... is drawn


def write_figure(shown: ShownView, path: Path) -> Path:
    """Write the picture; the suffix of the path gives the format."""
    return atomic.write_bytes(path, figure_bytes(shown, path.suffix[1:]))


def figure_bytes(shown: ShownView, form: str) -> bytes:
    """Return the picture as PNG, SVG or PDF. Thread-safe: a lock serializes the calls."""
    return as_bytes(lambda: draw(shown), form)


def as_bytes(draw: Callable[[], Canvas], form: str) -> bytes:
    """Render a figure with these fonts. One warning lists characters without an installed font."""
    style: dict[Any, Any] = {
        "font.family": families(), "text.parse_math": False,
        "svg.fonttype": "path", "svg.hashsalt": "regard",  # text as paths, reproducible
    }  # fmt: skip
    file = io.BytesIO()
    with DRAWING, rc_context(style), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        draw().savefig(file, format=form, dpi=160, facecolor="white", metadata=date)
    tell_missing(caught)
    return file.getvalue()


def draw(shown: ShownView) -> Canvas:
    if shown.against is not None:
        return _comparison(shown)
    if shown.view == "grid":
        return _grid(shown)
    if shown.view == "beams":
        return _beams(shown)
    if shown.view == "overlay":
        return draw_overlay(shown)
    table = shown.matrix
    rows, columns = table.weights.shape
    if shown.view == "lines":
        canvas, axes = with_card(shown, 5.2, max(2.4, 0.3 * max(rows, columns)))
        _lines(axes, shown)
    elif shown.view == "text":
        canvas, axes = with_card(shown, 9.0, _text_lines(shown, 9.0) * 0.3 + 0.2)
        _text(axes, shown, 9.0)
    else:
        beside = max(map(length, short(table.rows.labels)))
        canvas, axes = with_card(shown, inches(columns) + beside + 0.8, inches(rows) + 1.2)
        top = top_weight(table.weights)
        _matrix(axes, table.weights, table.rows.labels, table.columns.labels, top=top, log=shown.log)
    return canvas


# --------------------------------------------------------------------------------------------------------------- views
def _matrix(
    axes: Axes,
    weights: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    top: float | None,
    log: bool = False,
    apart: bool = False,
    bar: bool = True,
) -> None:
    top = float(np.abs(weights).max()) if top is None else top
    if apart:
        scale = Normalize(-top or -1, top or 1)
    elif log:
        scale = LogNorm((top or 1) * 10.0**-DECADES, top or 1, clip=True)
    else:
        scale = Normalize(0, top or 1)
    rows, columns = short(rows), short(columns)
    image = axes.imshow(weights, cmap=APART if apart else BLUES, norm=scale, aspect="auto", interpolation="nearest")
    size = 10 if max(len(rows), len(columns)) <= 40 else 6
    every = [1 + len(labels) // MOST_LABELS for labels in (rows, columns)]
    axes.set_yticks(range(0, len(rows), every[0]), rows[:: every[0]], fontsize=size)
    axes.set_xticks(
        range(0, len(columns), every[1]), columns[:: every[1]], fontsize=size, rotation=50, ha="left",
        rotation_mode="anchor",
    )  # fmt: skip
    axes.xaxis.tick_top()
    axes.tick_params(length=0, colors=INK)
    axes.spines[:].set_visible(False)
    if max(len(rows), len(columns)) <= 60:  # thin lines between cells
        axes.set_xticks(np.arange(-0.5, len(columns)), minor=True)
        axes.set_yticks(np.arange(-0.5, len(rows)), minor=True)
        axes.grid(which="minor", color="white", linewidth=1.2)
        axes.tick_params(which="minor", length=0)
    if bar and axes.figure is not None:
        more = "max" if not apart and weights.max() > top * (1 + 1e-6) else "neither"  # and stronger ones
        rod = axes.figure.colorbar(image, ax=axes, fraction=0.035, pad=0.02, aspect=30, extend=more)
        rod.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
        rod.ax.tick_params(which="both", length=0, labelsize=8, colors=FAINT)
        if log:  # 0.01, not 10 with an exponent: tokens may have $ in them, so formulas are off
            rod.ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))


def _lines(axes: Axes, shown: ShownView) -> None:
    table = shown.matrix
    rows, columns = short(table.rows.labels), short(table.columns.labels)
    longest = max(len(rows), len(columns))
    left, right = (np.linspace(0, longest - 1, 2 * n + 1)[1::2] for n in (len(rows), len(columns)))
    for number, (name, weights) in enumerate(shown.heads):
        painted = strength(weights, top_weight(weights), shown.log)
        ink = HEADS[number % len(HEADS)]
        faintest = np.partition(painted, -MOST_LINES, axis=None)[-MOST_LINES] if painted.size > MOST_LINES else 0.0
        for i, j in np.argwhere(painted > max(0.03, faintest)):
            curve = np.linspace(0, 1, 24)
            bend = curve * curve * (3 - 2 * curve)  # horizontal at both ends
            height = left[i] + (right[j] - left[i]) * bend + 0.06 * (number - len(shown.heads) / 2)
            axes.plot(curve, height, color=ink, alpha=0.85 * painted[i, j], linewidth=0.4 + 2.2 * painted[i, j])
        axes.plot([], [], color=ink, linewidth=2.5, label=name)
    for labels, heights, x, side in ((rows, left, -0.03, "right"), (columns, right, 1.03, "left")):
        for label, height in zip(labels, heights, strict=True):
            axes.text(x, height, label, ha=side, va="center", fontsize=11, color=INK)
    axes.set_xlim(-0.45, 1.45)
    axes.set_ylim(longest - 0.3, -0.7)
    axes.set_axis_off()
    if len(shown.heads) > 1:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4, frameon=False, fontsize=8)


def _text(axes: Axes, shown: ShownView, width: float) -> None:
    """Draw rows of words, each on a patch as dark as its weight, with the query at the left."""
    table = shown.matrix
    painted = strength(table.weights, top_weight(table.weights), shown.log)
    axes.set_xlim(0, width)
    axes.set_ylim(max(_text_lines(shown, width), LOWEST / 0.3), 0)
    axes.set_axis_off()
    y, left = 0.0, _text_left(shown)
    for row, values in zip(short(table.rows.labels), painted, strict=True):
        x = left
        axes.text(x - 0.15, y + 0.5, row, ha="right", va="center", fontsize=10, weight="bold", color=INK)
        for token, value in zip(short(table.columns.labels), values, strict=True):
            if x + length(token) > width:
                x, y = left, y + 1
            box = {"boxstyle": "round,pad=0.18", "facecolor": BLUES(value), "edgecolor": "none"}
            ink = "white" if value > 0.55 else INK
            axes.text(x, y + 0.5, token, va="center", fontsize=10, color=ink, bbox=box)
            x += length(token)
        y += 1


def _text_left(shown: ShownView) -> float:
    return 0.3 + 1.1 * max(map(length, short(shown.matrix.rows.labels)))  # bold is wider


def _text_lines(shown: ShownView, width: float) -> int:
    needed = sum(map(length, short(shown.matrix.columns.labels)))
    return len(shown.matrix.rows) * (1 + int(needed / (width - _text_left(shown) - 0.6)))


def _grid(shown: ShownView) -> Canvas:
    """Draw every layer and head with its figures."""
    layers = shown.layers
    heads = max(len(layer.weights) for layer in layers)
    rows, columns = layers[0].weights.shape[1:]
    wide, high = (min(2.2, max(1.3, SMALL_CELL * size)) for size in (columns, rows))
    size = (max(6.5, heads * (wide + 0.25) + 0.6), len(layers) * (high + 0.6) + 1.1)
    canvas = Canvas(figsize=size, layout="constrained")
    titles(canvas, shown, shown.caption)
    table = canvas.subplots(len(layers), heads, squeeze=False)
    for layer, line in zip(layers, table, strict=True):
        for axes in line:
            axes.set_axis_off()
        told = head_figures(shown.record, layer)
        for number, (axes, weights, figures) in enumerate(zip(line, layer.weights, told, strict=False)):
            axes.imshow(strength(weights, top_weight(weights), shown.log), cmap=BLUES, aspect="auto", vmin=0, vmax=1)
            entropy, *rest = figures.parts
            name = f"{layer.layer}·{number}   {entropy}\n{', '.join(rest)}"
            axes.set_title(name, fontsize=8, color=INK, pad=3)
    return canvas


def _comparison(shown: ShownView) -> Canvas:
    """Draw both tables on one scale, and their difference if their tokens are the same."""
    mine, other = shown.matrix, shown.other
    assert other is not None
    assert shown.against is not None
    same = mine.weights.shape == other.weights.shape
    top = max(top_weight(mine.weights), top_weight(other.weights))
    wide, high = inches(mine.weights.shape[1]) + 1.5, inches(max(len(mine.rows), len(other.rows))) + 1.9
    canvas = Canvas(figsize=(min((2 + same) * wide, 26), high), layout="constrained")
    titles(canvas, shown, mine.title + ".")
    panels = canvas.subplots(1, 2 + same)
    labels = [(joint_labels(mine.rows, other.rows), joint_labels(mine.columns, other.columns))] * 2 if same else [
        (one.rows.labels, one.columns.labels) for one in (mine, other)
    ]  # fmt: skip
    for axes, table, (rows, columns), name in zip(
        panels, (mine, other), labels, (shown.record.model or "first", shown.against.model or "second"), strict=False
    ):
        _matrix(axes, table.weights, rows, columns, top=top, log=shown.log)
        axes.set_xlabel(f"{name} ({table.method})", fontsize=11, color=INK, labelpad=8)
    if same:
        _matrix(panels[2], mine.weights - other.weights, *labels[0], top=None, apart=True)
        panels[2].set_xlabel("first minus second", fontsize=11, color=INK, labelpad=8)
    return canvas


def _beams(shown: ShownView) -> Canvas:
    """Draw the tree of hypotheses, and below it the attention of each."""
    hypotheses = [shown.record, *shown.record.beams]
    tables = [one.matrix(shown.kind, shown.layer, shown.head) for one in hypotheses]
    rows, columns = (max(table.weights.shape[side] for table in tables) for side in (0, 1))
    width = min(26.0, max(10.0, len(tables) * (inches(columns) * 0.8 + 1.3)))
    tree_height = 0.45 * len(hypotheses) + 0.4
    canvas = Canvas(figsize=(width, tree_height + inches(rows) * 0.8 + 2.2), layout="constrained")
    titles(canvas, shown, f"The hypotheses of the search, with the attention of each. {shown.caption}")
    ratios = [tree_height, inches(rows) * 0.8 + 1.3]
    upper, lower = cast(Sequence[Canvas], canvas.subfigures(2, 1, height_ratios=ratios))
    draw_tree(upper.subplots(), beam_tree(shown.record), [one.score for one in hypotheses], width)
    top = max(top_weight(table.weights) for table in tables)
    panels = lower.subplots(1, len(tables), squeeze=False)[0]
    for number, (axes, table) in enumerate(zip(panels, tables, strict=True)):
        _matrix(axes, table.weights, table.rows.labels, table.columns.labels, top=top, log=shown.log, bar=False)
        axes.set_xlabel(f"#{number + 1}", fontsize=11, color=INK)
    return canvas
