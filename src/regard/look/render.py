"""Draw records in the terminal, as files (the suffix gives the format) and in notebooks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from regard.errors import CallError, nearest
from regard.files import atomic
from regard.look.history import History
from regard.look.records import AttentionRecord, Head, Kind
from regard.look.terminal import picture, small_map
from regard.look.views import ShownView, View, strength, suitable_view, top_weight

SUFFIXES = (".png", ".svg", ".pdf", ".html", ".npz")


def show(
    record: AttentionRecord,
    *,
    view: View | None = None,
    kind: Kind | None = None,
    layer: int | None = None,
    head: Head = "mean",
    log: bool = False,
    against: AttentionRecord | None = None,
    row: int | None = None,
    console: Console | None = None,
) -> None:
    """Draw in the terminal. Default view: overlay for images, sound and series, else matrix."""
    console = console or Console()
    view = view or suitable_view(record, kind, against)
    console.print(picture(ShownView(record, view, kind, layer, head, log, against, row), console))


def save(
    record: AttentionRecord,
    path: str | Path,
    *,
    view: View | None = None,
    kind: Kind | None = None,
    layer: int | None = None,
    head: Head = "mean",
    log: bool = False,
    against: AttentionRecord | None = None,
    row: int | None = None,
) -> Path:
    """Draw into a .png, .svg, .pdf or .html file, or save the record as .npz.

    Default view: overlay for images, sound and series, else matrix (always for two records). An HTML file contains the
    whole record: view, kind, layer and head are its initial state and can be changed there.
    """
    view = view or suitable_view(record, kind, against)
    path, shown = Path(path), ShownView(record, view, kind, layer, head, log, against, row)
    require_suffix(path)
    if path.suffix == ".npz":
        from regard.look.files import save

        return save(record, path)
    if path.suffix == ".html":
        from regard.look.html import write_page

        return write_page(shown, path)
    from regard.look.figure import write_figure

    return write_figure(shown, path)


def require_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise CallError(f"{path}: the name of a picture must end with {', '.join(SUFFIXES)}{_hint(path)}")
    if not path.parent.is_dir():
        raise CallError(f"{path}: no such folder: {path.parent}")


def _hint(path: Path) -> str:
    return nearest(path.suffix, SUFFIXES) if path.suffix else ""


def widget(record: AttentionRecord, *, view: View | None = None) -> Any:
    """Return the HTML page for a notebook, as for a record that is the value of a cell."""
    from regard.look.html import NotebookView

    return NotebookView(ShownView(record, view or suitable_view(record)))


# Pictures of attention during training: tables of a few steps side by side, and the figures of all steps.


def show_history(history: History, shown: ShownView, console: Console) -> RenderableType:
    """Draw in the terminal. `shown` selects the weights; its record is the last one."""
    maps = []
    for place in history.sample_examples(6):
        table = history.records[place].matrix(shown.kind, shown.layer, shown.head).weights
        name = Text(f"step {history.steps[place]:,}", style="dim")
        maps.append(Group(name, small_map(table, console, log=shown.log), ""))
    numbers = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    figures = history.figures(shown.kind, shown.layer, shown.head)
    for name in ("step", *figures):
        numbers.add_column(name, justify="right")
    for place in history.sample_examples(12):
        numbers.add_row(f"{history.steps[place]:,}", *(f"{values[place]:.3f}" for values in figures.values()))
    head = Group(Text(shown.title, style="bold"), Text(f"{shown.caption} During training.", style="dim"), "")
    return Group(head, Columns(maps, padding=(0, 3)), numbers)


def write_history(history: History, shown: ShownView, path: Path) -> Path:
    """Write PNG, SVG, PDF or a page with a slider."""
    require_suffix(path)
    if path.suffix == ".npz":
        return shown.record.save(path)
    if path.suffix == ".html":
        from regard.look.html import history_document, whole_page

        return atomic.write_text(path, whole_page(history_document(history, shown), shown.title))
    return atomic.write_bytes(path, _figure(history, shown, path.suffix[1:]))


def _figure(history: History, shown: ShownView, form: str) -> bytes:
    from matplotlib.figure import Figure as Canvas

    from regard.look.figure import as_bytes
    from regard.look.figure_layout import BLUES, FAINT, HEADS, INK, inches, length, short, titles

    def draw() -> Canvas:
        places, figures = history.sample_examples(6), history.figures(shown.kind, shown.layer, shown.head)
        last = shown.matrix
        wide = min(3.2, max(1.4, inches(len(last.columns)) * 0.7))
        high = min(3.2, max(1.4, inches(len(last.rows)) * 0.7))
        beside = max(map(length, short(last.rows.labels))) * 0.8
        canvas = Canvas(figsize=(max(8.0, len(places) * (wide + 0.2) + beside), high + 3.6), layout="constrained")
        titles(canvas, shown, f"{shown.caption} During training.")
        upper, lower = cast(Sequence[Canvas], canvas.subfigures(2, 1, height_ratios=[high + 0.9, 2.0]))
        panels = upper.subplots(1, len(places), squeeze=False)[0]
        for number, (axes, place) in enumerate(zip(panels, places, strict=True)):
            table = history.records[place].matrix(shown.kind, shown.layer, shown.head)
            painted = strength(table.weights, top_weight(table.weights), shown.log)
            axes.imshow(painted, cmap=BLUES, aspect="auto", vmin=0, vmax=1)
            axes.set_title(f"step {history.steps[place]:,}", fontsize=9, color=INK)
            every = 1 + len(table.rows) // 30
            labels = short(table.rows.labels)[::every] if number == 0 else []
            axes.set_yticks(range(0, len(table.rows), every) if number == 0 else [], labels, fontsize=8)
            every = 1 + len(table.columns) // 30
            columns = short(table.columns.labels)[::every]
            axes.set_xticks(range(0, len(table.columns), every), columns, fontsize=7, rotation=90)
            axes.tick_params(length=0, colors=INK)
            axes.spines[:].set_visible(False)
        panels = lower.subplots(1, len(figures), squeeze=False)[0]
        for axes, ink, (name, values) in zip(panels, HEADS, figures.items(), strict=False):
            axes.plot(history.steps, values, color=ink, linewidth=1.8, marker="o", markersize=3)
            axes.set_ylim(0, max(float(np.max(values)) * 1.1, 1e-9))
            axes.set_title(name, fontsize=9, color=INK, loc="left")
            axes.set_xlabel("step", fontsize=8, color=FAINT)
            axes.tick_params(length=0, colors=FAINT, labelsize=8)
            axes.spines[["top", "right"]].set_visible(False)
        return canvas

    return as_bytes(draw, form)
