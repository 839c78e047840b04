"""The same view in a notebook: a picture, and the whole page in a frame of its own.

Nothing is asked of a kernel or of another host, so what was saved shows itself wherever the notebook is opened: as a
page made by nbconvert, without a network, too. Where frames and styles are taken out (a notebook that is not trusted,
GitHub), the picture is left.

nbconvert with `sanitize_html` takes no tag out, but writes frames, pictures and styles as text. It drops the attribute
`style`, and keeps `class`. So all of that stands in a box which Jupyter's own style sheets hide by its class, and which
its style shows; words beside it are hidden by their style. Without styles, the words are what is seen.
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
MOST_ROWS = 40  # that are told in words


class NotebookView:
    """One picture of a record; what a notebook does with the last value of a cell shows it."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def __repr__(self) -> str:
        return repr(self._shown.record)

    def _repr_mimebundle_(self, **options: Any) -> Mapping[str, str]:
        picture = base64.b64encode(figure_bytes(self._shown, "png")).decode()
        return {"text/plain": repr(self), "image/png": picture, "text/html": self._html(picture)}

    def _html(self, picture: str) -> str:
        """The frame may run its own script and nothing else: it has no part in the notebook around it."""
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
        """Where each row looks most, in tags that whoever takes others out leaves."""
        table = self._shown.matrix
        best = table.weights.argmax(1)
        lines = [
            f"<li>{escape(row)} ← {escape(table.columns.labels[place])}: {table.weights[number, place]:.2f}</li>"
            for number, (row, place) in enumerate(zip(table.rows.labels, best, strict=True))
        ][:MOST_ROWS]
        left = len(table.rows) - len(lines)
        return (
            f"<b>{escape(self._shown.title or 'attention')}</b><div>{escape(table.title)}; where each row looks most:"
            f"</div><ul>{''.join(lines)}</ul>{f'<div>and {left} rows more</div>' if left else ''}"
            "<div>The picture and the page are in the notebook; here they were taken out (sanitize_html).</div>"
        )
