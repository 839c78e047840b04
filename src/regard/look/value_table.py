"""`ValueTable`: signed numbers with row and column names, the result of an explanation.

The weights of an `AttentionRecord` are shares. Contributions to an answer have a sign, and their rows are layers, heads
or words. So explanations have a separate table: in the terminal, as a figure, page without script or JSON.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import CallError
from regard.files import atomic
from regard.look.axis import Visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from rich.console import Console, RenderableType
    from rich.style import Style

SHADES = 10  # on each side of zero, in the terminal and on a page
FOR, AGAINST = (59, 83, 207), (163, 70, 11)
MOST_WRITTEN = 600  # cells of a figure with printed numbers


@dataclass(frozen=True)
class ValueTable:
    """
    A table of signed numbers.

    values    R C; positive supports the answer, negative opposes it
    words     text of the cells instead of numbers, R C
    about     one sentence on the meaning of the numbers and their sum
    """

    values: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    title: str
    about: str
    words: Sequence[Sequence[str]] | None = None

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.rows), len(self.columns)):
            raise ValueError(
                f"values of {self.values.shape} do not fit {len(self.rows)} rows and {len(self.columns)} columns"
            )
        if not np.isfinite(self.values).all():
            raise CallError(f"{self.title}: some numbers are not finite, so the table has no meaning")

    def as_dict(self) -> dict[str, Any]:
        tree = {
            "title": self.title, "about": self.about, "rows": list(self.rows), "columns": list(self.columns),
            "values": self.values.tolist(),
        }  # fmt: skip
        return tree if self.words is None else tree | {"words": [list(row) for row in self.words]}

    def _repr_html_(self) -> str:
        """Return HTML for a notebook, in tags that sanitizers keep (`nbconvert`, `sanitize_html`)."""
        words = f"<div><b>{escape(self.title)}</b></div><div>{escape(self.about)}</div>"
        return f"{words}<table>{self._lines('td')}</table>"

    def show(self, console: "Console | None" = None) -> None:
        """Draw in the terminal."""
        from rich.console import Console

        console = console or Console()
        console.print(self.drawn(console.width))

    def save(self, path: str | Path) -> Path:
        """Save as .png, .svg, .pdf or .html."""
        from regard.look.render import require_suffix

        path = Path(path)
        require_suffix(path)
        if path.suffix == ".npz":
            raise CallError(f"{path}: a table of values can be saved as .png, .svg, .pdf or .html only")
        return atomic.write_bytes(path, self.as_bytes(path.suffix[1:]))

    def as_bytes(self, form: str) -> bytes:
        """Return the table as png, svg, pdf or html."""
        if form == "html":
            return self._page().encode()
        from regard.look.figure import as_bytes

        return as_bytes(self._figure, form)

    def drawn(self, width: int) -> "RenderableType":
        """Draw the table; columns that do not fit follow in further tables below."""
        from rich.cells import cell_len
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        cells, shades = self._cells(), self._shades()
        first = max((cell_len(row) for row in self.rows), default=0) + 1
        sizes = [
            1 + max(cell_len(text) for text in (column, *(row[c] for row in cells)))
            for c, column in enumerate(self.columns)
        ]
        tables: list[RenderableType] = []
        begin = 0
        while begin < len(self.columns):
            end = begin + 1
            while end < len(self.columns) and first + sum(sizes[begin : end + 1]) <= width:
                end += 1
            table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
            table.add_column("", no_wrap=True)
            for column in self.columns[begin:end]:
                table.add_column(Text(column), justify="right", no_wrap=True)
            for number, row in enumerate(self.rows):
                painted = [Text(cells[number][c], _style(shades[number, c])) for c in range(begin, end)]
                table.add_row(Text(row), *painted)
            tables += [table, ""]
            begin = end
        return Visible(Group(Text(self.title, style="bold"), Text(self.about, style="dim"), "", *tables[:-1]))

    def _cells(self) -> list[list[str]]:
        if self.words is not None:
            return [list(row) for row in self.words]
        return [[f"{value:+.{self._decimals()}f}" for value in row] for row in self.values]

    def _decimals(self) -> int:
        """Return the number of decimals: two, or more if all numbers are small."""
        top = float(np.abs(self.values).max(initial=0.0))
        return 2 if top >= 0.1 or not top else min(9, 1 - math.floor(math.log10(top)))

    def _shades(self) -> np.ndarray:
        """Return shades from −SHADES to SHADES, relative to the largest value."""
        top = float(np.abs(self.values).max(initial=0.0)) or 1.0
        return np.rint(SHADES * self.values / top).astype(int)

    def _page(self) -> str:
        from regard.look.html import report_page

        head = f"<header><h1>{escape(self.title)}</h1><p>{escape(self.about)}</p></header>"
        return report_page(f'{head}<div class="wide"><table class="why">{self._lines("th")}</table></div>', self.title)

    def _lines(self, tag: str) -> str:
        """Return the rows of an HTML table; `tag` is the element of names."""
        cells, shades = self._cells(), self._shades()

        def named(name: str, scope: str) -> str:
            told = f'scope="{scope}"' if tag == "th" else f'role="{scope}header"'
            return f"<{tag} {told}>{escape(name)}</{tag}>"

        lines = ["<td></td>" + "".join(named(column, "col" if tag == "th" else "column") for column in self.columns)]
        for r, row in enumerate(self.rows):
            written = (
                f'<td style="{_background(shades[r, c])}" title="{self.values[r, c]:.4g}">{escape(cells[r][c])}</td>'
                for c in range(len(self.columns))
            )
            lines.append(named(row, "row") + "".join(written))
        return "".join(f"<tr>{line}</tr>" for line in lines)

    def _figure(self) -> "Canvas":
        from matplotlib.figure import Figure as Canvas

        from regard.look.figure_layout import APART, INK, LONGEST, inches, length, short

        cells, written = self._cells(), self.values.size <= MOST_WRITTEN
        widest = max((length(cell) for row in cells for cell in row), default=0.3) if written else 0.1
        width = max(6.5, min(40.0, max(inches(len(self.columns)), len(self.columns) * widest)) + 3.0)
        canvas = Canvas(figsize=(width, inches(len(self.rows)) + 2.0), layout="constrained")
        lines = [line for text in (self.title, self.about) for line in textwrap.wrap(text, int(13 * width))]
        canvas.suptitle("\n".join(lines), fontsize=9, color=INK, x=0.01, ha="left")
        axes = canvas.subplots()
        top = float(np.abs(self.values).max(initial=0.0)) or 1.0
        image = axes.imshow(self.values, cmap=APART, vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
        axes.set_xticks(range(len(self.columns)), short(self.columns), rotation=60, ha="right")
        axes.set_yticks(range(len(self.rows)), short(self.rows, 2 * LONGEST))
        if written:
            for (row, column), value in np.ndenumerate(self.values):
                color = "white" if abs(value) > 0.6 * top else INK
                axes.text(column, row, cells[row][column], ha="center", va="center", fontsize=7, color=color)
        axes.tick_params(length=0, labelsize=8)
        canvas.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
        return canvas


def _background(shade: int) -> str:
    red, green, blue = FOR if shade > 0 else AGAINST
    return f"background: rgba({red}, {green}, {blue}, {0.06 * abs(shade):.2f})"


def _style(shade: int) -> "Style":
    """Return a style on white, so that dark letters are readable in any terminal."""
    from rich.style import Style

    if not shade:
        return Style()
    red, green, blue = (round(255 - (255 - one) * 0.6 * abs(shade) / SHADES) for one in (FOR if shade > 0 else AGAINST))
    return Style(color="black", bgcolor=f"rgb({red},{green},{blue})")
