"""Attention over the input: a filmstrip over an image, or rows below a spectrogram or a series.

Over an image, heat from dark violet to light yellow:

    pixel = (1 − o) · image + o · heat(weight),     o the opacity

The colors are visible on light and on dark regions. Regions are not smoothed: only computed values are shown. Each
picture of a strip has a separate scale; its largest weight and the uniform weight are printed above it.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle

from regard.look.axis import Axis
from regard.look.figure_layout import BLUES, FAINT, INK, above_card, length, short
from regard.look.said import Said
from regard.look.views import Shown, range_line, strength, top_weight

OPACITY = 0.6
HEAT = LinearSegmentedColormap.from_list("regard-heat", ["#150e37", "#641a80", "#c83f73", "#fb8861", "#fcfdbf"])
PANEL = 1.9  # inches
SAID, BAND, TRUE = "#3b53cf", "#b9c8f7", "#c2410c"


def draw_overlay(shown: Shown) -> Canvas:
    return _filmstrip(shown) if shown.matrix.columns.grid is not None else _along_time(shown)


def heat(weights: np.ndarray, axis: Axis, log: bool) -> np.ndarray:
    """Return the color of each region: rows × columns × RGBA."""
    assert axis.grid is not None
    values = weights[axis.upon()]
    return HEAT(strength(values, top_weight(values), log).reshape(axis.grid), alpha=OPACITY)


def _filmstrip(shown: Shown) -> Canvas:
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


def _along_time(shown: Shown) -> Canvas:
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


def _signal(axes: Axes, columns: Axis, said: Said | None) -> None:
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
        if said is not None and said.kind == "values":
            ahead = steps[-1] + (steps[1] - steps[0]) * (np.arange(len(said.values)) + 0.5)
            if said.low:
                axes.fill_between(ahead, said.low, said.high, color=BAND, alpha=0.5, lw=0, label=said.band)
            axes.plot(ahead, said.values, color=SAID, linewidth=1.6, label="predicted")
            if said.actual:
                axes.plot(ahead[: len(said.actual)], said.actual, color=TRUE, linewidth=1.0, ls="--", label="happened")
            axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper left")
            axes.set_xlim(edges[0], ahead[-1] + (steps[1] - steps[0]) / 2)
