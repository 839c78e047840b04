"""Draw records in the terminal, as files (the suffix gives the format) and in notebooks."""

from pathlib import Path
from typing import Any

from rich.console import Console

from regard.errors import CallError, nearest
from regard.look.records import AttentionRecord, Head, Kind
from regard.look.terminal import picture
from regard.look.views import Shown, View, suitable_view

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
    console.print(picture(Shown(record, view, kind, layer, head, log, against, row), console))


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
    path, shown = Path(path), Shown(record, view, kind, layer, head, log, against, row)
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
        raise CallError(f"{path}: a picture's name ends with {', '.join(SUFFIXES)}{_hint(path)}")
    if not path.parent.is_dir():
        raise CallError(f"{path}: there is no folder {path.parent}")


def _hint(path: Path) -> str:
    return nearest(path.suffix, SUFFIXES) if path.suffix else ""


def widget(record: AttentionRecord, *, view: View | None = None) -> Any:
    """Return the HTML page for a notebook, as for a record that is the value of a cell."""
    from regard.look.notebook import NotebookView

    return NotebookView(Shown(record, view or suitable_view(record)))
