"""Pictures of attention in the terminal: one row per output word, one column per input word.

Cells are colored, or ASCII shades without colors (NO_COLOR, a pipe, a dumb terminal). If the matrix is wider than the
terminal, each row lists its most attended words. Small maps without labels have two rows per line, the upper and the
lower half of a block character.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from regard.look.axis import Visible
from regard.look.card import Figure, column, columns
from regard.look.head_figures import head_figures
from regard.look.records import Matrix, Node, beam_tree
from regard.look.views import ShownView, blocks, joint_labels, range_line, strength, top_weight

SHADES = " .:-=+*#%@"
CELL = 3  # columns of the terminal that one weight takes
SMALL_MAP = 14  # rows and columns to which a map of few regions is enlarged
LARGEST = 32  # rows and columns of a small map; larger tables are shown by the largest weight of each block
DARK, BRIGHT, COLD = (38, 38, 50), (255, 200, 60), (90, 160, 255)


def picture(shown: ShownView, console: Console) -> RenderableType:
    """One view of a record, with its caption and its card."""
    return Visible(_picture(shown, console))


def _picture(shown: ShownView, console: Console) -> RenderableType:
    head = Group(Text(shown.title, style="bold"), Text(shown.caption, style="dim"), "")
    if shown.view == "grid":
        return Group(head, grid(shown, console))
    if shown.view == "beams":
        return Group(head, beams(shown), "", *_each_hypothesis(shown, console))
    body = comparison(shown, console) if shown.against is not None else _one(shown, console)
    return Group(head, body, "", figures(shown.figures, shown.matrix.title))


def _one(shown: ShownView, console: Console) -> RenderableType:
    table = shown.matrix
    if shown.view == "lines":
        return _lists(table.weights, table.rows.labels, table.columns.labels, 3)
    if shown.view == "text":
        return print_highlighted(table, console, log=shown.log)
    if shown.view == "overlay":
        return overlay(shown, console)
    top = top_weight(table.weights)
    return matrix(table.weights, table.rows.labels, table.columns.labels, console, top=top, log=shown.log)


def matrix(
    weights: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    console: Console,
    *,
    top: float = 1.0,
    log: bool = False,
) -> Text:
    """Draw weights (rows × columns) for this console; `top` gets the full color."""
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (len(rows), len(columns)):
        raise ValueError(f"weights of shape {weights.shape} do not fit {len(rows)} rows and {len(columns)} columns")
    label = max((cell_len(row) for row in rows), default=0)
    if label + 1 + CELL * len(columns) > console.width:
        return _lists(weights, rows, columns, 3)
    text = Text(no_wrap=True)
    for line in _upright(columns):
        text.append(" " * (label + 1) + line + "\n", style="dim")
    for row, values in zip(rows, strength(np.abs(weights), top, log) * np.sign(weights), strict=True):
        text.append(" " * (label - cell_len(row)) + row + " ")
        for value in values:
            _cell(text, float(value), colored=_has_colors(console))
        text.append("\n")
    text.right_crop()  # the printer ends the last line
    return text


def grid(shown: ShownView, console: Console) -> RenderableType:
    """Draw a small map of every layer and head, with its entropy."""
    parts: list[RenderableType] = []
    for attention in shown.layers:
        maps = []
        figures = head_figures(shown.record, attention)
        for number, (table, told) in enumerate(zip(attention.weights, figures, strict=True)):
            name = Text(f"head {number}  {told.line}", style="dim")
            maps.append(Group(name, small_map(table, console, log=shown.log), ""))
        parts += [Text(f"layer {attention.layer}", style="bold"), Columns(maps, padding=(0, 3))]
    return Group(*parts)


def small_map(
    weights: np.ndarray, console: Console, *, log: bool = False, most: int = LARGEST, keys: int | None = None
) -> Text:
    """Draw a map without labels, two rows per line with colors. `keys`: number of keys, if not one per column."""
    return _half_blocks(strength(blocks(weights, most), top_weight(weights, keys), log), console)


def signed_map(table: np.ndarray, console: Console, *, most: int) -> Text:
    """Draw signed numbers, every n-th of them if there are too many: yellow above zero, blue below."""
    rows, columns = (1 + (size - 1) // most for size in table.shape)
    return _half_blocks(table[::rows, ::columns] / (np.abs(table).max() or 1.0), console)


def _half_blocks(values: np.ndarray, console: Console) -> Text:
    text = Text(no_wrap=True)
    if not _has_colors(console):
        for row in values:
            text.append("".join(_shade(abs(float(value))) for value in row) + "\n")
    else:
        for upper in range(0, len(values), 2):
            lower = values[upper + 1] if upper + 1 < len(values) else [None] * values.shape[1]
            for above, below in zip(values[upper], lower, strict=True):
                under = "" if below is None else f" on {_rgb(float(below))}"
                text.append("▀", style=_rgb(float(above)) + under)
            text.append("\n")
    text.right_crop()
    return text


def print_highlighted(table: Matrix, console: Console, *, log: bool = False) -> Text:
    """Draw one line per row: the text painted by the weights of that row."""
    values = strength(table.weights, top_weight(table.weights), log)
    label = max(cell_len(row) for row in table.rows.labels)
    text = Text()
    for row, *weights in zip(table.rows.labels, values, table.weights, strict=True):
        text.append(" " * (label - cell_len(row)) + row + " │ ", style="bold")
        for token, painted, weight in zip(table.columns.labels, *weights, strict=True):
            if _has_colors(console):
                ink = "rgb(0,0,0)" if painted > 0.2 else "rgb(255,255,255)"
                text.append(token, style=f"{ink} on {_rgb(float(painted))}")
            else:
                text.append(token + (f"[{weight:.2f}]" if weight >= 0.05 else ""))
            text.append(" ")
        text.append("\n")
    text.right_crop()
    return text


def overlay(shown: ShownView, console: Console) -> RenderableType:
    """Draw a small map per row for an image; for times, a line per row with the time of its largest weight."""
    table, axis = shown.matrix, shown.matrix.columns
    if axis.grid is not None:
        times = max(1, SMALL_MAP // max(axis.grid))
        maps = []
        for place in shown.strip:
            values = table.weights[place][axis.upon()]
            name = Text(f"{table.rows.labels[place]}: {range_line(values)}", style="dim")
            drawn = values.reshape(axis.grid).repeat(times, 0).repeat(times, 1)
            maps.append(Group(name, small_map(drawn, console, log=shown.log, keys=values.size), ""))
        return Columns(maps, padding=(0, 3))
    label = max(cell_len(row) for row in table.rows.labels)
    text, edges = Text(no_wrap=True), axis.edges
    for place in shown.strip:
        row, values = table.rows.labels[place], table.weights[place][axis.upon()]
        line = blocks(values[None], max(8, min(console.width - label - 24, 100)))
        text.append(" " * (label - cell_len(row)) + row + " ")
        text.append_text(_half_blocks(strength(line, top_weight(table.weights), shown.log), console))
        best = int(values.argmax())
        when = axis.labels[axis.upon()[best]] if axis.dated else axis.moment(edges[best])
        text.append(f" most at {when}: {values[best]:.2f}\n", style="dim")
    text.append(f"{'':{label}} from {axis.moment(edges[0])} to {axis.moment(edges[-1])}", style="dim")
    return text


def comparison(shown: ShownView, console: Console) -> RenderableType:
    """Draw two tables, one below the other, and their difference."""
    mine, other = shown.matrix, shown.alike
    assert other is not None
    assert shown.against is not None
    rows, columns = joint_labels(mine.rows, other.rows), joint_labels(mine.columns, other.columns)
    top = max(top_weight(mine.weights), top_weight(other.weights))
    parts: list[RenderableType] = []
    tables = (
        (_name(shown.record.model, mine, "first"), mine.weights),
        (_name(shown.against.model, other, "second"), other.weights),
        ("difference: first minus second (less is blue, or marked by -)", mine.weights - other.weights),
    )
    for name, weights in tables:
        parts += [Text(name, style="bold"), matrix(weights, rows, columns, console, top=top, log=False), ""]
    return Group(*parts)


def beams(shown: ShownView) -> RenderableType:
    """Draw the tree of hypotheses with the score below each leaf."""
    tree = Tree("", hide_root=True)
    hypotheses = [shown.record, *shown.record.beams]

    def add(branch: Tree, node: Node) -> None:
        words = escape(" ".join(node.tokens))
        label = f"[bold]{words}[/]" if 0 in node.hypotheses else words
        label += f"  [dim]log p {node.log_probability:.2f}[/]"
        if not node.children:
            best = node.hypotheses[0]
            score = hypotheses[best].score
            label += f"  [cyan]#{best + 1}[/]" + ("" if score is None else f" [cyan]score {score:.3f}[/]")
        twig = branch.add(label)
        for child in node.children:
            add(twig, child)

    for node in beam_tree(shown.record):
        add(tree, node)
    return tree


def _each_hypothesis(shown: ShownView, console: Console) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for number, one in enumerate((shown.record, *shown.record.beams), 1):
        own = replace(shown, record=one, view="matrix")
        parts += [Text(f"#{number} {one.output}", style="bold"), _one(own, console), ""]
    return parts


def figures(card: Sequence[Figure], title: str) -> Table:
    """Draw the card. Figures measured on other weights than those of `title` are marked."""
    table = Table(title="Reliability", title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    shown = columns(card)
    for name in ("", *shown, ""):
        table.add_column(name, justify="right" if name else "left")
    wish = {"low": "lower is better", "high": "higher is better", "": ""}
    for figure in card:
        values = (column(figure, name) for name in shown)
        numbers = ("" if value is None else f"{value:.3f}" for value in values)
        notes = [wish[figure.better], f"measured on: {figure.about}" if figure.about not in ("", title) else ""]
        table.add_row(figure.name, *numbers, Text("; ".join(filter(None, notes)), style="dim"))
    return table


# ---------------------------------------------------------------------------------------------------------------- cells
def _has_colors(console: Console) -> bool:
    return console.color_system is not None and not console.no_color


def _upright(columns: Sequence[str]) -> list[str]:
    """Draw the column labels vertically, ending at the matrix."""
    height = min(12, max((len(column) for column in columns), default=0))
    cut = [column if len(column) <= height else column[: height - 1] + "…" for column in columns]
    padded = [" " * (height - len(column)) + column for column in cut]
    return ["".join(set_cell_size(" " + column[i], CELL) for column in padded) for i in range(height)]


def _cell(text: Text, value: float, *, colored: bool) -> None:
    if colored:
        text.append(" " * CELL, style=f"on {_rgb(value)}")
    else:
        text.append(_shade(abs(value)) * (CELL - 1) + ("-" if value < -0.1 else " "))


def _shade(value: float) -> str:
    return SHADES[min(int(value * len(SHADES)), len(SHADES) - 1)]


def _rgb(value: float) -> str:
    """Return a color from dark to warm yellow (blue below zero), on a square-root scale that shows small weights."""
    part = abs(value) ** 0.5
    return "rgb({},{},{})".format(
        *(int(dark + (far - dark) * part) for dark, far in zip(DARK, COLD if value < 0 else BRIGHT, strict=True))
    )


def _name(model: str, table: Matrix, rank: str) -> str:
    return f"{rank}: " + ", ".join(filter(None, (model, table.title[0].lower() + table.title[1:], table.method)))


def _lists(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], most: int) -> Text:
    label = max((cell_len(row) for row in rows), default=0)
    text = Text()
    for row, values in zip(rows, weights, strict=True):
        best = [i for i in np.argsort(-np.abs(values), kind="stable")[:most] if abs(values[i]) >= 0.05]
        seen = ", ".join(f"{columns[i]} {values[i]:.2f}" for i in best)
        text.append(" " * (label - cell_len(row)) + row + " ← ")
        text.append(seen + "\n", style="dim")
    text.right_crop()
    return text
