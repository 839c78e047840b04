"""The same view in a notebook: a picture, and the whole page in a frame of its own.

Nothing is asked of a kernel or of another host, so what was saved shows itself wherever the notebook is opened: as a
page made by nbconvert, without a network, too. Where frames and styles are taken out (a notebook that is not trusted,
GitHub), the picture is left.
"""

import base64
from collections.abc import Mapping
from html import escape
from typing import Any

from regard.look.figure import figure_bytes
from regard.look.html import page
from regard.look.views import Shown

HEIGHT = 900  # pixels of the frame


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
            "<div class='regard-output'><style>.regard-output details[open] + img { display: none }</style>"
            f"<details open><summary>{title}</summary>"
            f"<iframe title='attention' sandbox='allow-scripts' style='width: 100%; height: {HEIGHT}px; border: 0' "
            f'srcdoc="{escape(page(self._shown, keep=False), quote=True)}"></iframe></details>'
            f"<img alt='attention' src='data:image/png;base64,{picture}'></div>"
        )
