"""Notebook view of a record: a picture, and the whole page in a frame.

It needs no kernel and no network, so a saved notebook shows it everywhere, also as a page made by nbconvert. Where
frames and styles are removed (an untrusted notebook, GitHub), the picture remains.

nbconvert with `sanitize_html` writes frames, pictures and styles as text. It drops the attribute `style` and keeps
`class`. So the view is in a box that Jupyter's style sheets hide by its class and an inline style shows. A summary in
words is hidden by an inline style. Without styles, only the summary is visible.
"""

import base64
from collections.abc import Mapping
from html import escape
from typing import Any

from regard.look.figure import figure_bytes
from regard.look.html import page
from regard.look.views import Shown

HEIGHT = 900  # pixels of the frame
HIDDEN = "jp-FileSize-hidden hidden"  # by the style sheets of JupyterLab and of the classic notebook
MOST_ROWS = 40  # of the summary in words


class NotebookView:
    """One picture of a record, displayed as the value of a notebook cell."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def __repr__(self) -> str:
        return repr(self._shown.record)

    def _repr_mimebundle_(self, **options: Any) -> Mapping[str, str]:
        picture = base64.b64encode(figure_bytes(self._shown, "png")).decode()
        return {"text/plain": repr(self), "image/png": picture, "text/html": self._html(picture)}

    def _html(self, picture: str) -> str:
        """Return the frame. It is sandboxed: its script has no access to the notebook."""
        title = escape(self._shown.title or "attention", quote=True)
        return (
            f"<div class='regard-words' style='display: none'>{self._words()}</div>"
            f"<div class='regard-output {HIDDEN}' style='display: block !important'>"
            "<style>.regard-output details[open] + img { display: none }</style>"
            f"<details open><summary>{title}</summary>"
            f"<iframe title='attention' sandbox='allow-scripts' style='width: 100%; height: {HEIGHT}px; border: 0' "
            f'srcdoc="{escape(page(self._shown, keep=False), quote=True)}"></iframe></details>'
            f"<img alt='attention' src='data:image/png;base64,{picture}'></div>"
        )

    def _words(self) -> str:
        """Summarize where each row looks most, in tags that sanitizers keep."""
        table = self._shown.matrix
        best = table.weights.argmax(1)
        lines = [
            f"<li>{escape(row)} ← {escape(table.columns.labels[place])}: {table.weights[number, place]:.2f}</li>"
            for number, (row, place) in enumerate(zip(table.rows.labels, best, strict=True))
        ][:MOST_ROWS]
        left = len(table.rows) - len(lines)
        return (
            f"<b>{escape(self._shown.title or 'attention')}</b><div>{escape(table.title)}; largest weight of each row:"
            f"</div><ul>{''.join(lines)}</ul>{f'<div>and {left} rows more</div>' if left else ''}"
            "<div>The picture and the page are in the notebook; they were removed here (sanitize_html).</div>"
        )
