"""Tables from names in recipes to classes. A class is imported when its name is first used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from regard.errors import CallError, nearest

#: Attention score between a query and a key: `score` of a model. To add a score, write its file and its line here.
SCORES = {
    "dot": "regard.attention.scores:Dot",
    "scaled_dot": "regard.attention.scores:ScaledDot",
    "bilinear": "regard.attention.scores:Bilinear",
    "additive": "regard.attention.scores:Additive",
    "concat": "regard.attention.scores:Concat",
    "cosine": "regard.attention.scores:Cosine",
    "trilinear": "regard.attention.scores:Trilinear",
}


def find(table: Mapping[str, str], name: str) -> Any:
    """Return the object that a name of one of the tables above refers to."""
    if name not in table:
        raise CallError(f"{name!r} is not in the catalogue{nearest(name, table)}")
    return load_object(table[name])


def load_object(path: str) -> Any:
    """Return the object at the path "package.module:name"."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)
