"""Self-contained HTML page of a record: data, style and script are in one file and need no network.

The record is a JSON block in which <, > and & are escaped, so no token can end it or become markup; the script inserts
tokens as text only. The content security policy allows only this script and this style, by their hashes, and no
connections.

The script is the files of `page/` joined in the order of their imports. A served page can load them directly.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from regard.files import atomic
from regard.look.card import card, sentence
from regard.look.files import for_page
from regard.look.head_figures import head_figures
from regard.look.history import History
from regard.look.methods import METHODS
from regard.look.records import KINDS, AttentionRecord, Head, Matrix, beam_tree
from regard.look.views import GIVEN, ShownView

MODULES = (
    "data.js", "paint.js", "focus.js", "matrix.js", "lines.js", "words.js", "views.js", "overlay.js", "signal.js",
    "said.js", "film.js", "decoding.js", "heads.js", "card.js", "compare.js", "training.js", "positions.js",
    "weight.js", "why.js", "controls.js", "app.js",
)  # fmt: skip
STYLES = ("style.css", "film.css", "weight.css", "why.css")  # for embedding; `page.css` is for a separate page
START = """const page = JSON.parse(document.getElementById("regard-data").textContent);
(page.positions ? showPositions : mount)(document.getElementById("regard"), page, { keep: true });
"""


def write_page(shown: ShownView, path: Path) -> Path:
    return atomic.write_text(path, page(shown))


def page(shown: ShownView, *, keep: bool = True) -> str:
    """Return the whole file as text. `keep` stores the state in the URL (not possible in a frame)."""
    return whole_page(document(shown), shown.title, keep=keep)


def whole_page(tree: dict[str, Any], title: str, *, keep: bool = True) -> str:
    start = START if keep else START.replace("keep: true", "keep: false")
    return document_page(tree, title, style=style(), script=script() + start)


def document_page(tree: dict[str, Any], title: str, *, style: str, script: str) -> str:
    """Return a page with `tree` in the block `regard-data` and an element `regard` for the script."""
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title or "attention")}</title>
<style>{style}</style>
</head>
<body>
<main id="regard"></main>
<noscript>This page needs JavaScript, which is disabled in this browser.</noscript>
<script type="application/json" id="regard-data">{harmless(tree)}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def document(shown: ShownView, *, weights: bool = True) -> dict[str, Any]:
    """Return the data of the page: records, the initial view, and a card for every table.

    Without weights (and so without cards), it contains only what a page needs for its requests.
    """
    record, layer = shown.record, shown.layer
    if layer is not None:
        layer = next(one.layer for one in shown.layers if layer in (one.layer, one.layer - len(shown.layers)))
    view = "compare" if shown.against is not None else shown.view
    return {
        "open": {
            "view": view,
            "kind": shown.kind or record.kinds[0],
            "layer": "all" if layer is None else str(layer),
            "head": str(shown.head),
            "log": shown.log,
        },
        "records": [for_page(one, weights=weights) for one in (record, shown.against) if one is not None],
        "cards": cards(record) if weights else {},
        "beam_cards": [cards(one) for one in record.beams] if weights else [],
        "methods": METHODS,
        "kinds": KINDS,
        "given": GIVEN,
        "tree": [asdict(node) for node in beam_tree(record)] if record.beams else [],
        "scores": [one.score for one in (record, *record.beams)],
    }


def history_document(history: History, shown: ShownView | None = None) -> dict[str, Any]:
    """Return the last record, and the records of all validations for the view `training`."""
    tree = document(shown or ShownView(history.last))
    tree["open"]["view"] = "training"
    tree["history"] = [
        {"step": step, "record": for_page(record), "cards": cards(record)}
        for step, record in zip(history.steps, history.records, strict=True)
    ]
    return tree


def cards(record: AttentionRecord) -> dict[str, Any]:
    """Return by kind/layer/head: the title of the table, its figures and, for a single head, the line above its map."""
    found = {}
    for kind in record.kinds:
        layers = record.of_kind(kind)
        choices: list[tuple[int | None, Head]] = [(None, "mean"), (None, "max")]
        if len(layers) == 1:  # then a head is unique without its layer
            choices += [(None, head) for head in range(len(layers[0].weights))]
        for one in layers:
            heads: list[Head] = ["mean", "max", *range(len(one.weights))]
            choices.extend((one.layer, head) for head in heads)
        for layer, head in choices:
            matrix = record.matrix(kind, layer, head)
            key = f"{kind}/{'all' if layer is None else layer}/{head}"
            found[key] = card_tree(matrix, record)
        for one in layers:
            for number, figures in enumerate(head_figures(record, one)):
                found[f"{kind}/{one.layer}/{number}"]["head"] = figures.as_dict()
    return found


def card_tree(matrix: Matrix, record: AttentionRecord) -> dict[str, Any]:
    figures = card(matrix, record)
    return {"title": matrix.title, "figures": [asdict(figure) for figure in figures], "sentence": sentence(figures)}


def script() -> str:
    """Join the modules into one scope, without `import` and `export`."""
    texts = (_read(name) for name in MODULES)
    return "\n".join(re.sub(r"^import .*?;\n|^export ", "", text, flags=re.MULTILINE) for text in texts)


def style() -> str:
    return "".join(_read(name) for name in ("page.css", *STYLES))


def harmless(tree: dict[str, Any]) -> str:
    """Return JSON that cannot end its script block, whatever the tokens are."""
    text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate({ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return (files("regard.look") / "page" / name).read_text(encoding="utf-8")


def report_page(body: str, title: str, history: dict[str, Any] | None = None) -> str:
    """Return a page of markup, such as the report of a run; `history` adds attention during training in #regard.

    The caller must escape the text in the markup. Its pictures may contain inline styles.
    """
    act = "" if history is None else script() + START.replace("keep: true", 'keep: true, level: "h3"')
    allowed = _hash(act) if act else "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )
    data = "" if history is None else f'<script type="application/json" id="regard-data">{harmless(history)}</script>'
    code = f'<script type="module">{act}</script>' if act else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{style()}{_read('report.css')}</style></head>"
        f'<body><main class="regard report">{body}</main>{data}{code}</body></html>\n'
    )


# Notebook view of a record: a picture, and the whole page in a frame.
#
# It needs no kernel and no network, so a saved notebook shows it everywhere, also as a page made by nbconvert. Where
# frames and styles are removed (an untrusted notebook, GitHub), the picture remains.
#
# nbconvert with `sanitize_html` writes frames, pictures and styles as text. It drops the attribute `style` and keeps
# `class`. So the view is in a box that Jupyter's style sheets hide by its class and an inline style shows. A summary
# in words is hidden by an inline style. Without styles, only the summary is visible.

HEIGHT = 900  # pixels of the frame
HIDDEN = "jp-FileSize-hidden hidden"  # by the style sheets of JupyterLab and of the classic notebook
MOST_ROWS = 40  # of the summary in words


class NotebookView:
    """One picture of a record, displayed as the value of a notebook cell."""

    def __init__(self, shown: ShownView) -> None:
        self._shown = shown

    def __repr__(self) -> str:
        return repr(self._shown.record)

    def _repr_mimebundle_(self, **options: Any) -> Mapping[str, str]:
        from regard.look.figure import figure_bytes  # matplotlib, which a page does not need

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
