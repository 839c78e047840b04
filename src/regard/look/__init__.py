"""Attention records of a model, pictures of them, and figures on their faithfulness.

from regard import look

seen = look.record(weights, rows=["la", "casa"], columns=["the", "house"])     # or run.look("the house")
look.show(seen)                                                                # in the terminal
look.save(seen, "picture.png")                                                 # .svg .pdf .html .npz
look.load("seen.npz")

with look.watching(model) as seen:                                             # any PyTorch model
    model(**inputs)
seen.record(rows=tokens)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.look.axis import Axis, Token, axis
from regard.look.card import Figure, card
from regard.look.files import record
from regard.look.history import History
from regard.look.records import Attention, AttentionRecord, Matrix

if TYPE_CHECKING:
    from regard.look.files import load
    from regard.look.render import save, show, widget
    from regard.look.svg import heat_map
    from regard.look.terminal import matrix
    from regard.look.watch import watching

__all__ = [
    "Attention",
    "AttentionRecord",
    "Axis",
    "Figure",
    "History",
    "Matrix",
    "Token",
    "axis",
    "card",
    "heat_map",
    "load",
    "matrix",
    "record",
    "save",
    "show",
    "watching",
    "widget",
]

#: Loaded at first use: prediction needs no drawing code, and drawing needs no torch (`watching` does).
_LATER = {
    "heat_map": "regard.look.svg",
    "load": "regard.look.files",
    "matrix": "regard.look.terminal",
    "save": "regard.look.render",
    "show": "regard.look.render",
    "watching": "regard.look.watch",
    "widget": "regard.look.render",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'regard.look' has no attribute {name!r}")
