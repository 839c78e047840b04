"""Where a model looked: one record, many pictures of it, and figures that say whether to believe it.

from regard import look

seen = look.record(weights, rows=["la", "casa"], columns=["the", "house"])     # or run.look("the house")
look.show(seen)                                                                # in the terminal
look.save(seen, "picture.png")                                                 # .svg .pdf .html .npz
look.load("seen.npz")
"""

from regard.look.axis import Axis, Token, axis
from regard.look.build import record
from regard.look.card import Figure, card
from regard.look.draw import save, show, widget
from regard.look.files import load
from regard.look.history import History
from regard.look.records import Attention, AttentionRecord, Matrix
from regard.look.svg import heat_map
from regard.look.terminal import matrix

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
    "widget",
]
