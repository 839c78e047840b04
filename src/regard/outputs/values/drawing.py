"""Forecasts as pictures: the past, what was predicted with its intervals, and what did happen where that is known."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from regard.files import atomic
from regard.outputs.values.result import SHOWN, SeriesForecast

MOST = 12  # panels of one picture
INK, SAID, BAND, TRUE = "#44403c", "#1d4e89", "#8ab8f0", "#c2410c"


def draw(series: Sequence[SeriesForecast]) -> Figure:
    """A panel for each target of each series, up to a dozen."""
    panels = [(one, m) for one in series for m in range(len(one.targets))][:MOST]
    columns = 1 if len(panels) < 3 else 2
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(9.0 if columns == 1 else 13.0, 2.6 * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for place, (axes, (one, m)) in enumerate(zip(grid, panels, strict=False)):
        _panel(axes, one, m, legend=place == 0)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    return figure


def _panel(axes, one: SeriesForecast, m: int, *, legend: bool) -> None:
    shown = min(len(one.past), SHOWN * len(one.times))
    past, labels = one.past[len(one.past) - shown :], [*one.past_times[len(one.past_times) - shown :], *one.times]
    ahead = np.arange(shown, shown + len(one.times))
    if shown:
        axes.plot(np.arange(shown), past[:, m], color=INK, lw=1.3, label="past")
    for p in range(len(one.quantiles) // 2):
        low, high = one.bands[:, m, p], one.bands[:, m, -1 - p]
        name = f"{one.quantiles[p]:g} to {one.quantiles[-1 - p]:g}"
        axes.fill_between(ahead, low, high, color=BAND, alpha=0.35, lw=0, label=name)
    # joined to the last value that was known, so that the eye sees no gap
    joined = np.concatenate([past[-1:, m], one.values[:, m]]) if shown else one.values[:, m]
    axes.plot(np.arange(shown - (1 if shown else 0), shown + len(ahead)), joined, color=SAID, lw=1.8, label="predicted")
    if len(one.actual):
        axes.plot(ahead[: len(one.actual)], one.actual[:, m], color=TRUE, lw=1.2, ls="--", label="actual")
    if shown:
        axes.axvline(shown - 0.5, color=INK, lw=0.6, alpha=0.5)
    ticks = np.unique(np.linspace(0, len(labels) - 1, 5).round().astype(int))
    axes.set_xticks(ticks, [labels[tick] for tick in ticks], fontsize=8)
    axes.set_title(f"{one.name}: {one.targets[m]}" if one.name else one.targets[m], fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    if legend:
        axes.legend(frameon=False, fontsize=8, ncols=4)


def write(figure: Figure, path: Path) -> None:
    """Whole or not at all."""
    atomic.write_with(path, lambda part: figure.savefig(part, format=path.suffix[1:], dpi=150))


def svg(figure: Figure) -> str:
    """For a page: without the XML head."""
    out = io.StringIO()
    figure.savefig(out, format="svg")
    text = out.getvalue()
    return text[text.index("<svg") :]
