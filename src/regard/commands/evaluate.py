"""`regard evaluate RUN -o PAGE.html`: write scores, tables and pictures to one page that needs no network."""

from pathlib import Path

from regard.errors import CallError
from regard.files import atomic
from regard.outputs.result import Scores, readable
from regard.report.page import Section, page, table, tiles, words


def require_page(file: Path) -> None:
    """Raise before the computation if the page cannot be written."""
    if file.suffix.lower() not in (".html", ".htm"):
        raise CallError(f"{file}: scores are written as a page, FILE.html (--json prints them as JSON)")
    if not file.absolute().parent.is_dir():
        raise CallError(f"{file}: there is no folder {file.absolute().parent}")


def write_page(scores: Scores, title: str, file: Path) -> None:
    """Write the page; the file is complete or not written at all."""
    figures = [(words(name), readable(value)) for name, value in scores.values.items()]
    notes = "; ".join(f"{name}: {text}" for name, text in scores.notes.items())
    sections = [Section("Test scores", tiles(figures), notes)]
    sections += [Section(*picture) for picture in scores.pictures]
    sections += [
        Section(name, table(list(rows[0]), [list(row.values()) for row in rows]))
        for name, rows in scores.details.items()
        if rows
    ]
    atomic.write_text(file, page(title, "", sections))
