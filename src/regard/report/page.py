"""One file of sections that any browser shows without a network: the report of a run, its scores, a comparison.

Style and modules are those of the page that shows attention (`look/html.py`). A script is in it only where attention
as it trained is shown; everything else is there without one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from regard.look.html import report_page
from regard.report.charts import number

ATTENTION = "Attention during training"
REFERENCE = (
    "A validation input, and where the model looked at each validation while its reference was forced through it: so "
    "the rows are the same at every step. What the model itself wrote stands among the samples."
)


@dataclass(frozen=True)
class Section:
    """A part of the report. `html` is put in as it is: make it with `table`, `text` or an SVG renderer."""

    title: str
    html: str
    note: str = ""


def text(words: str) -> str:
    """Plain text → HTML that keeps its line breaks and cannot do anything."""
    return f'<div class="text">{escape(words)}</div>'


def words(name: str) -> str:
    """The name of a score as one says it: exact_match is exact match."""
    return name.replace("_", " ")


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers to the right, everything escaped."""

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
    """A whole HTML document. `history`: attention as it trained, as `look.html.history_document` has it."""
    place = [] if history is None else [Section(ATTENTION, '<div id="regard"></div>', REFERENCE)]
    head = f"<header><h1>{escape(title)}</h1><p>{escape(about)}</p></header>"
    body = f"{head}{fragment([*sections, *place])}<footer>made by regard</footer>"
    return report_page(body, title, history)


def fragment(sections: Sequence[Section]) -> str:
    """The sections alone, for a page that is there already."""
    return "".join(
        f"<section><h2>{escape(section.title)}</h2>"
        + (f'<p class="note">{escape(section.note)}</p>' if section.note else "")
        + f"{section.html}</section>"
        for section in sections
        if section.html
    )
