"""Drawing of measured layer costs: table and chart for the terminal, and a picture."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from regard.cost.units import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from regard.cost.layer_costs import LayerCosts

# Distinguishable with any color vision (Okabe and Ito 2008) and, in the terminal, by their marks.
INK = ("#0072B2", "#CC79A7", "#D55E00", "#009E73")
MARKS = "●○▲■"
STYLES = ("blue", "magenta", "red", "green")


def where(costs: "LayerCosts") -> str:
    return f"{costs.device}, {costs.threads} thread{'s' * (costs.threads != 1)}"


def layers_table(costs: "LayerCosts") -> Table:
    """Return the exponents, with a chart below."""
    both = Table.grid()
    both.add_row(_exponents(costs))
    both.add_row(layers_chart(costs))
    return both


def _exponents(costs: "LayerCosts") -> Table:
    pass_ = "forward and backward" if costs.backward else "forward"
    table = Table(
        title=f"One layer, one sequence, {pass_}: time grows as n^p · d^q",
        caption=(
            f"p: n to {costs.lengths[-1]} at d={costs.fixed_width};"
            f" q: d to {costs.widths[-1]} at n={costs.fixed_length}."
            f" In brackets: p and q of the counted operations at these sizes."
            f" Fastest of {costs.rounds} interleaved rounds; {where(costs)}."
        ),
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),  # so that it fits 80 columns
        pad_edge=False,
    )
    for heading in ("layer", "operations", "steps", "path"):
        table.add_column(heading, no_wrap=True)
    for heading in ("p of n", "q of d"):
        table.add_column(heading, justify="right", no_wrap=True)
    for mark, style, layer in zip(MARKS, STYLES, costs.layers, strict=True):
        table.add_row(
            Text(f"{mark} {layer.name}", style=style),
            layer.operations,
            layer.sequential,
            layer.path,
            f"{layer.n.measured:.2f} ({layer.n.counted:.2f})",
            f"{layer.d.measured:.2f} ({layer.d.counted:.2f})",
        )
    return table


def layers_chart(costs: "LayerCosts", columns: int = 56, rows: int = 14) -> Text:
    """Draw time against n on log-log axes; lines are interpolated, marks are measurements."""
    low = math.log(min(min(layer.by_length) for layer in costs.layers))
    high = math.log(max(max(layer.by_length) for layer in costs.layers))
    left, right = math.log(costs.lengths[0]), math.log(costs.lengths[-1])

    def row(seconds: float) -> int:
        return rows - 1 - round((math.log(seconds) - low) / (high - low) * (rows - 1))

    def column(n: int) -> int:
        return round((math.log(n) - left) / (right - left) * (columns - 1))

    cells = {}
    for mark, style, layer in zip(MARKS, STYLES, costs.layers, strict=True):
        for x in range(columns):
            n = math.exp(left + (right - left) * x / (columns - 1))
            cells.setdefault((row(_between(costs.lengths, layer.by_length, n)), x), ("·", style))
        for n, seconds in zip(costs.lengths, layer.by_length, strict=True):
            cells[row(seconds), column(n)] = (mark, style)
    chart = Text(f"time against n at d={costs.fixed_width}, both axes logarithmic\n", style="bold")
    for y in range(rows):
        label = duration(math.exp(high - (high - low) * y / (rows - 1))) if y in (0, rows // 2, rows - 1) else ""
        chart.append(f"{label:>9} │", style="dim")
        for x in range(columns):
            mark, style = cells.get((y, x), (" ", ""))
            chart.append(mark, style=style)
        chart.append("\n")
    axis = [" "] * (columns + 6)
    for n in costs.lengths:
        start = column(n)
        axis[start : start + len(str(n))] = str(n)
    chart.append(f"{'':>9} └{'─' * columns}\n{'n':>9}  {''.join(axis).rstrip()}", style="dim")
    return chart


def layers_plot(costs: "LayerCosts", path: Path) -> Path:
    """Draw two panels on log-log axes: time against n, and against d."""
    from matplotlib.figure import Figure  # no pyplot, no display, no global state

    figure = Figure(figsize=(11, 5), layout="constrained", facecolor="white")
    by_n, by_d = figure.subplots(1, 2, sharey=True)
    pass_ = "forward and backward" if costs.backward else "forward"
    figure.suptitle(f"What one layer costs: one sequence, {pass_}, {where(costs)}", fontsize=13)
    panels = (
        (by_n, costs.lengths, "n, sequence length", f"d = {costs.fixed_width}"),
        (by_d, costs.widths, "d, width", f"n = {costs.fixed_length}"),
    )
    for axes, sizes, label, title in panels:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xticks([], minor=True)
        axes.set_xlabel(label)
        axes.set_title(title, fontsize=11)
        axes.grid(True, which="major", color="#e6e6e6", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    by_n.set_ylabel("seconds")
    names_n, names_d = {}, {}
    for ink, layer in zip(INK, costs.layers, strict=True):
        by_n.plot(costs.lengths, layer.by_length, color=ink, marker="o", markersize=4, linewidth=1.8)
        by_d.plot(costs.widths, layer.by_width, color=ink, marker="o", markersize=4, linewidth=1.8)
        names_n[layer.by_length[-1]] = (f"{layer.name}: $n^{{{layer.n.measured:.2f}}}$", ink)
        names_d[layer.by_width[-1]] = (f"{layer.name}: $d^{{{layer.d.measured:.2f}}}$", ink)
    _label_ends(by_n, costs.lengths, names_n)
    _label_ends(by_d, costs.widths, names_d)
    figure.savefig(path, dpi=150)
    return path


def _label_ends(axes: "Axes", sizes: tuple[int, ...], names: dict[float, tuple[str, str]]) -> None:
    """Label each line at its right end; labels of close lines are moved apart."""
    axes.set_xlim(sizes[0] / 1.15, sizes[-1] * (sizes[-1] / sizes[0]) ** 0.75)
    bottom, top = (math.log(limit) for limit in axes.get_ylim())
    gap, at = (top - bottom) * 0.05, -math.inf
    for seconds, (name, ink) in sorted(names.items()):
        at = max(math.log(seconds), at + gap)
        axes.text(sizes[-1] * 1.12, math.exp(at), name, color=ink, fontsize=9, va="center")


def _between(sizes: tuple[int, ...], times: tuple[float, ...], n: float) -> float:
    """Interpolate the time at n linearly on log-log axes."""
    i = max(1, next((i for i, size in enumerate(sizes) if size >= n), len(sizes) - 1))
    part = (math.log(n) - math.log(sizes[i - 1])) / (math.log(sizes[i]) - math.log(sizes[i - 1]))
    return math.exp((1 - part) * math.log(times[i - 1]) + part * math.log(times[i]))
