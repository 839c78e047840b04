"""Where a model looked: one record, many pictures of it, and figures that say whether to believe it.

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
from regard.look.build import record
from regard.look.card import Figure, card
from regard.look.draw import save, show, widget
from regard.look.files import load
from regard.look.history import History
from regard.look.records import Attention, AttentionRecord, Matrix
from regard.look.svg import heat_map
from regard.look.terminal import matrix

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """Pictures need no torch, so it is loaded with the first model that is watched."""
    if name == "watching":
        return import_module("regard.look.watch").watching
    raise AttributeError(f"module 'regard.look' has no attribute {name!r}")
