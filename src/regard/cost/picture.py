"""Drawing of measured layer costs: table and chart for the terminal, and a picture."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from regard.cost.estimate import count, duration, memory, operations

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from regard.cost.estimate import Cost

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
            cells.setdefault((row(_interpolate(costs.lengths, layer.by_length, n)), x), ("·", style))
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


def _interpolate(sizes: tuple[int, ...], times: tuple[float, ...], n: float) -> float:
    """Interpolate the time at n linearly on log-log axes."""
    i = max(1, next((i for i, size in enumerate(sizes) if size >= n), len(sizes) - 1))
    part = (math.log(n) - math.log(sizes[i - 1])) / (math.log(sizes[i]) - math.log(sizes[i - 1]))
    return math.exp((1 - part) * math.log(times[i - 1]) + part * math.log(times[i]))


# Results of `measure_layers` as numbers, table and picture.


@dataclass(frozen=True)
class Exponents:
    """The p of time ∝ size^p, fitted to measured times and to counted operations at the same sizes."""

    measured: float
    counted: float


@dataclass(frozen=True)
class LayerCost:
    """One kind of layer: seconds for each size, and the exponents of n and d."""

    name: str
    operations: str
    sequential: str
    path: str
    by_length: tuple[float, ...]  # seconds for each of LayerCosts.lengths at LayerCosts.fixed_width
    by_width: tuple[float, ...]  # seconds for each of LayerCosts.widths at LayerCosts.fixed_length
    n: Exponents
    d: Exponents


@dataclass(frozen=True)
class LayerCosts:
    """All kinds of layer, measured together in one interleaved run."""

    layers: tuple[LayerCost, ...]
    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    fixed_length: int
    fixed_width: int
    backward: bool
    rounds: int
    threads: int
    device: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings, for JSON."""
        return asdict(self)

    def table(self) -> "Table":
        """Return the textbook table with measured exponents, and a chart, for the terminal."""

        return layers_table(self)

    def plot(self, path: str | Path) -> Path:
        """Write a picture; the suffix of the path (.png, .svg, .pdf) gives the format."""

        return layers_plot(self, Path(path))


# Cost of a model as a table for the terminal.


def cost_table(cost: "Cost") -> Table:
    """Return a table of each quantity, its value and its source."""
    table = Table(title=f"What {cost.name} costs", title_justify="left", show_header=False, caption_justify="left")
    table.add_column("what")
    table.add_column("how much", justify="right", no_wrap=True)
    table.add_column("how", style="dim")
    table.add_row("parameters", f"[bold]{count(cost.parameters)}", f"{cost.parameters:,}")
    for part, number in cost.parts.items():
        table.add_row(f"  {part}", count(number), f"{number / cost.parameters:.1%}")
    table.add_section()
    table.add_row(f"forward, per {cost.unit}", operations(cost.flops_per_token["forward"]), "matrix products, counted")
    table.add_row(f"training, per {cost.unit}", operations(cost.flops_per_token["training"]), "forward and backward")
    table.add_section()
    _memory_rows(table, cost)
    if cost.time:
        table.add_section()
        _time_rows(table, cost)
    table.caption = "\n".join(cost.notes) or None
    return table


def _memory_rows(table: Table, cost: "Cost") -> None:
    m = cost.memory
    rows = f"{cost.batch} × {cost.length} tokens"
    table.add_row("memory, training", f"[bold]{memory(m.training)}", _devices(cost, m.training_devices))
    table.add_row(
        "  weights, gradients, AdamW", memory(m.weights + m.gradients + m.optimizer), "4 + 4 + 8 bytes a parameter"
    )
    table.add_row("  activations", memory(m.activations), f"kept for the backward pass, {rows}")
    if cost.unit == "image":
        return
    table.add_row("memory, decoding", f"[bold]{memory(m.decoding)}", _devices(cost, m.decoding_devices))
    table.add_row("  weights", memory(m.decoding_weights), "")
    if m.kv_cache_per_token:
        table.add_row("  key/value cache", memory(m.kv_cache), f"{memory(m.kv_cache_per_token)} per token, {rows}")


def _time_rows(table: Table, cost: "Cost") -> None:
    t = cost.time
    assert t is not None
    peak = f"{operations(t.peak)}/s {t.dtype}"
    table.add_row("hardware", t.hardware, f"each {peak}; {t.source}")
    table.add_row("utilization", f"{t.utilization:.0%}", "assumed share of the peak")
    table.add_row("training", f"{count(t.training_tokens_per_second)} {cost.unit}s/s", "without communication")
    if t.training_seconds is not None and t.training_tokens is not None and t.training_flops is not None:
        what = f"{count(t.training_tokens)} {cost.unit}s, {operations(t.training_flops)}"
        table.add_row("whole training", f"[bold]{duration(t.training_seconds)}", what)
    if cost.unit == "token":
        table.add_row("decoding", f"{count(t.decoding_tokens_per_second)} tokens/s", f"at most, batch of {cost.batch}")


def _devices(cost: "Cost", devices: int | None) -> str:
    if devices is None or cost.time is None:
        return ""
    return "fits one device" if devices == 1 else f"needs {devices} devices or more to hold it"
