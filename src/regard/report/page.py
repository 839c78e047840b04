"""Self-contained page of sections: the report of a run, its scores, or a comparison.

Style and modules are those of the attention page (`look/html.py`). Only attention during training needs a script.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from regard.look.html import report_page
from regard.report.charts import number

ATTENTION = "Attention during training"
REFERENCE = (
    "Attention on a validation input at each validation. The output is forced to the reference, so "
    "the rows are the same at every step. The predictions are listed in the samples."
)


@dataclass(frozen=True)
class Section:
    """A section of the report. `html` is inserted unescaped: make it with `table`, `text` or an SVG renderer."""

    title: str
    html: str
    note: str = ""


def text(words: str) -> str:
    """Convert plain text to escaped HTML that keeps its line breaks."""
    return f'<div class="text">{escape(words)}</div>'


def words(name: str) -> str:
    """Return the readable name of a score: exact_match → exact match."""
    return name.replace("_", " ")


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return an HTML table with right-aligned numbers; all text is escaped."""

    def cell(value: Any) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return f'<td class="number">{number(value)}</td>'
        return f"<td>{escape(str(value))}</td>"

    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(map(cell, row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def tiles(figures: Iterable[tuple[str, str]]) -> str:
    cells = [f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in figures]
    return f'<div class="tiles">{"".join(cells)}</div>' if cells else ""


def page(title: str, about: str, sections: Sequence[Section], history: dict[str, Any] | None = None) -> str:
    """Return an HTML document. `history`: attention during training, from `look.html.history_document`."""
    place = [] if history is None else [Section(ATTENTION, '<div id="regard"></div>', REFERENCE)]
    head = f"<header><h1>{escape(title)}</h1><p>{escape(about)}</p></header>"
    body = f"{head}{fragment([*sections, *place])}<footer>made by regard</footer>"
    return report_page(body, title, history)


def fragment(sections: Sequence[Section]) -> str:
    """Return only the sections, for an existing page."""
    return "".join(
        f"<section><h2>{escape(section.title)}</h2>"
        + (f'<p class="note">{escape(section.note)}</p>' if section.note else "")
        + f"{section.html}</section>"
        for section in sections
        if section.html
    )
