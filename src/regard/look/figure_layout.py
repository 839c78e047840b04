"""Shared layout of figures: colors, titles, card, and fonts for all characters."""

import re
import textwrap
import warnings
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure as Canvas
from matplotlib.figure import SubFigure
from matplotlib.font_manager import fontManager
from matplotlib.patches import Rectangle

from regard.look.axis import Axis
from regard.look.card import Figure, column, columns
from regard.look.records import OutputView
from regard.look.views import ShownView, range_line, strength, top_weight

CELL, WIDEST, LOWEST = 0.34, 18.0, 2.6  # inches
LONGEST = 22  # characters of a label; longer ones are cut
INK, FAINT = "#1c1f2b", "#6b7080"
BLUES = LinearSegmentedColormap.from_list("regard", ["#f6f7fb", "#c5d0f7", "#7c97f0", "#3b53cf", "#171c6b"])
APART = LinearSegmentedColormap.from_list("regard-apart", ["#a3460b", "#f0b27a", "#f7f7f8", "#8fa6f2", "#26329e"])
HEADS = ["#3b53cf", "#d1495b", "#2a9d5c", "#e08e1b", "#7b4bb7", "#1795a8", "#a3460b", "#5c6470"]

#: Fonts for characters that DejaVu lacks; the first font with a character is used.
FALLBACKS = (
    "DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC",
    "Source Han Sans", "IPAexGothic", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Hiragino Sans", "PingFang SC",
    "Yu Gothic",
    "Microsoft YaHei", "Malgun Gothic", "Noto Sans Arabic", "Noto Naskh Arabic", "Noto Sans Hebrew",
    "Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji", "Segoe UI Symbol", "Symbola", "Unifont",
)  # fmt: skip


def inches(cells: int) -> float:
    return min(WIDEST, max(1.2, cells * (CELL if cells <= 40 else CELL / 2 if cells <= 90 else 0.02)))


def short(labels: Sequence[str], longest: int = LONGEST) -> list[str]:
    return [label if len(label) <= longest else label[: longest - 1] + "…" for label in labels]


def length(token: str) -> float:
    """Estimate the width of a word in inches; East Asian characters count twice."""
    return 0.16 + 0.088 * sum(1.9 if ord(character) > 0x2E7F else 1.0 for character in token)


def with_card(shown: ShownView, width: float, height: float) -> tuple[Canvas, Axes]:
    """Make a figure with the picture at the left and the card at the right."""
    side, height = 4.0, max(height, LOWEST)
    canvas = Canvas(figsize=(width + side, height + 1.0), layout="constrained")
    titles(canvas, shown, shown.caption)
    axes, beside = canvas.subplots(1, 2, width_ratios=[width, side])
    _card(beside, shown.figures, shown.matrix.title, height)
    return canvas, axes


def above_card(shown: ShownView, width: float, height: float) -> tuple[Canvas, SubFigure]:
    """Make a figure with several pictures and the card below them."""
    card = 0.8 + 0.27 * (len(shown.figures) + 1)
    canvas = Canvas(figsize=(width, height + card + 0.9), layout="constrained")
    titles(canvas, shown, shown.caption)
    pictures, beneath = canvas.subfigures(2, 1, squeeze=False, height_ratios=[height, card])[:, 0]
    axes = beneath.subplots(1, 2, width_ratios=[4.0, max(width - 4.0, 0.1)])
    _card(axes[0], shown.figures, shown.matrix.title, card)
    axes[1].set_axis_off()
    return canvas, pictures


def titles(canvas: Canvas, shown: ShownView, caption: str) -> None:
    wide = int(canvas.get_figwidth() * 13)
    # Left-to-right marks: the arrow points from input to output for right-to-left texts, too.
    title = shown.title.replace(" → ", "\u200e → \u200e")
    lines = [*("\u200e" + line for line in _wrap(title, wide)), *_wrap(caption, wide)]
    canvas.suptitle("\n".join(lines), fontsize=10, color=INK, x=0.01, ha="left", linespacing=1.4)


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(30, width)) or [""]


def _card(axes: Axes, card: Sequence[Figure], title: str, height: float) -> None:
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(height, 0)
    axes.text(0.0, 0.15, "Reliability", fontsize=10, weight="bold", color=INK, va="center")
    places = dict(zip(columns(card), (0.66, 0.83, 1.0), strict=False))
    for name, x in places.items():
        axes.text(x, 0.45, name, fontsize=8, color=FAINT, ha="right", va="center")
    wish = {"low": " ↓", "high": " ↑", "": ""}
    for line, figure in enumerate(card):
        y = 0.72 + 0.27 * line
        other = "*" if figure.about not in ("", title) else ""
        axes.text(0.0, y, figure.name + wish[figure.better] + other, fontsize=8.5, color=INK, va="center")
        for name, x in places.items():
            value = column(figure, name)
            if value is not None:
                axes.text(x, y, f"{value:.2f}", fontsize=8.5, color=INK, ha="right", va="center")
    others = dict.fromkeys(figure.about for figure in card if figure.about not in ("", title))
    if others:
        note = "\n".join(textwrap.wrap(f"* measured on: {'; '.join(others)}", 60))
        axes.text(0.0, 0.7 + 0.27 * len(card), note, fontsize=7.5, color=FAINT, va="top")


def families() -> list[str]:
    installed = {font.name for font in fontManager.ttflist}
    return [name for name in FALLBACKS if name in installed] or ["DejaVu Sans"]


def tell_missing(caught: Sequence[warnings.WarningMessage]) -> None:
    missing = {}
    for warning in caught:
        found = re.match(r"Glyph (\d+) ", str(warning.message))
        if found:
            missing[chr(int(found[1]))] = None
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if missing:
        warnings.warn(
            f"no installed font has {' '.join(missing)}; boxes stand for them. Install a font that does "
            "(Noto Sans covers most), or write .html, which uses the browser's",
            stacklevel=4,
        )


# Attention over the input: a filmstrip over an image, or rows below a spectrogram or a series.
#
# Over an image, heat from dark violet to light yellow:
#
#     pixel = (1 − o) · image + o · heat(weight),     o the opacity
#
# The colors are visible on light and on dark regions. Regions are not smoothed: only computed values are shown. Each
# picture of a strip has a separate scale; its largest weight and the uniform weight are printed above it.

OPACITY = 0.6
HEAT = LinearSegmentedColormap.from_list("regard-heat", ["#150e37", "#641a80", "#c83f73", "#fb8861", "#fcfdbf"])
PANEL = 1.9  # inches
SAID, BAND, TRUE = "#3b53cf", "#b9c8f7", "#c2410c"


def draw_overlay(shown: ShownView) -> Canvas:
    return _filmstrip(shown) if shown.matrix.columns.grid is not None else _along_time(shown)


def heat(weights: np.ndarray, axis: Axis, log: bool) -> np.ndarray:
    """Return the color of each region: rows × columns × RGBA."""
    assert axis.grid is not None
    values = weights[axis.upon()]
    return HEAT(strength(values, top_weight(values), log).reshape(axis.grid), alpha=OPACITY)


def _filmstrip(shown: ShownView) -> Canvas:
    table, places = shown.matrix, shown.strip
    columns = table.columns
    assert columns.grid is not None
    ground = np.full((*columns.grid, 3), 255, np.uint8) if columns.image is None else columns.image
    shape = ground.shape[0] / ground.shape[1]
    wide = min(len(places) + 1, 6)
    high = -(-(len(places) + 1) // wide)
    panel = PANEL if len(places) > 1 else 2 * PANEL
    canvas, strip = above_card(shown, max(6.5, wide * panel), high * (panel * shape + 0.55))
    panels = strip.subplots(high, wide, squeeze=False).ravel()
    for axes in panels:
        axes.set_axis_off()
    panels[0].imshow(ground)
    panels[0].set_title("the image" if columns.image is not None else "the grid", fontsize=9, color=FAINT)
    for axes, place in zip(panels[1:], places, strict=False):
        axes.imshow(ground)
        box = (-0.5, ground.shape[1] - 0.5, ground.shape[0] - 0.5, -0.5)
        axes.imshow(heat(table.weights[place], columns, shown.log), extent=box, interpolation="nearest", aspect="auto")
        axes.set_aspect("equal")
        name = short([table.rows.labels[place]])[0]
        values = table.weights[place][columns.upon()]
        axes.set_title(f"{name}\n{range_line(values)}", fontsize=8, color=INK, pad=3)
        _mark_the_region(axes, table.rows, place, (ground.shape[0], ground.shape[1]))
    colors = ScalarMappable(Normalize(0, 1), HEAT)
    scale = strip.colorbar(colors, ax=panels.tolist(), fraction=0.02, aspect=40, pad=0.01)
    tops = {f"{top_weight(table.weights[place][columns.upon()]):.2g}" for place in places}
    scale.set_ticks([0, 1], labels=["0", tops.pop() if len(tops) == 1 else "most"])
    scale.ax.tick_params(length=0, labelsize=8, colors=FAINT)
    scale.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    return canvas


def _mark_the_region(axes: Axes, rows: Axis, place: int, size: tuple[int, int]) -> None:
    """Draw a frame around the querying region, if the row is a region."""
    if rows.grid is None or place not in rows.upon():
        return
    row, column = divmod(rows.upon().index(place), rows.grid[1])
    high, wide = size[0] / rows.grid[0], size[1] / rows.grid[1]
    corner = (column * wide - 0.5, row * high - 0.5)
    axes.add_patch(Rectangle(corner, wide, high, fill=False, edgecolor="#ff5a36", linewidth=1.6))


def _along_time(shown: ShownView) -> Canvas:
    """Draw the signal, and below it one row per query, on one time axis."""
    table, places = shown.matrix, shown.strip if shown.row is not None else range(len(shown.matrix.rows))
    columns, edges = table.columns, table.columns.edges
    labels = short([table.rows.labels[place] for place in places])
    high = max(1.2, min(9.0, 0.3 * len(labels)))
    above = 0.0 if columns.signal is None else 1.7
    canvas, pictures = above_card(shown, 9.5 + max(map(length, labels)), high + above + 0.4)
    if columns.signal is None:
        below = pictures.subplots()
    else:
        over, below = pictures.subplots(2, 1, sharex=True, height_ratios=[above, high])
        _signal(over, columns, shown.record.said)
    values = np.stack([table.weights[place][columns.upon()] for place in places])
    painted = strength(values, top_weight(values), shown.log)
    heights = np.arange(len(labels) + 1) - 0.5
    below.pcolormesh(edges, heights, painted, cmap=BLUES, vmin=0, vmax=1, rasterized=True)
    every = 1 + len(labels) // 60
    below.set_yticks(range(0, len(labels), every), labels[::every], fontsize=9)
    below.invert_yaxis()
    below.set_xlim(edges[0], max(edges[-1], *(axes.get_xlim()[1] for axes in pictures.axes)))
    if columns.dated:
        places = np.unique(np.linspace(0, len(columns.upon()) - 1, 6).round().astype(int))
        below.set_xticks(edges[places], [columns.labels[columns.upon()[place]] for place in places], fontsize=8)
    else:
        below.set_xlabel(columns.unit, color=FAINT)
    for axes in pictures.axes:
        axes.tick_params(length=0, colors=INK)
        axes.spines[:].set_visible(False)
    return canvas


def _signal(axes: Axes, columns: Axis, view: OutputView | None) -> None:
    """Draw the signal, with the forecast and its band."""
    signal, edges = columns.signal, columns.edges
    assert signal is not None
    if signal.ndim == 2:
        box = (edges[0], edges[-1], -0.5, len(signal) - 0.5)
        axes.imshow(signal, extent=box, origin="lower", aspect="auto", cmap="gray_r")
        axes.set_yticks([])
        axes.set_ylabel("bands", color=FAINT, fontsize=9)
    else:
        steps = np.linspace(edges[0], edges[-1], len(signal) + 1)
        axes.plot((steps[:-1] + steps[1:]) / 2, signal, color=INK, linewidth=1.0)
        if view is not None and view.kind == "values":
            ahead = steps[-1] + (steps[1] - steps[0]) * (np.arange(len(view.values)) + 0.5)
            if view.low:
                axes.fill_between(ahead, view.low, view.high, color=BAND, alpha=0.5, lw=0, label=view.band)
            axes.plot(ahead, view.values, color=SAID, linewidth=1.6, label="predicted")
            if view.actual:
                axes.plot(ahead[: len(view.actual)], view.actual, color=TRUE, linewidth=1.0, ls="--", label="happened")
            axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper left")
            axes.set_xlim(edges[0], ahead[-1] + (steps[1] - steps[0]) / 2)
