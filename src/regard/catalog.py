"""Names in recipes that stand for a class, and the class behind each. Nothing is imported until a name is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from regard.errors import CallError, nearest

#: How a query is held against a key: `score` of a model. A score is its file and its line here.
SCORES = {
    "dot": "regard.attention.dot:Dot",
    "scaled_dot": "regard.attention.scaled_dot:ScaledDot",
    "bilinear": "regard.attention.bilinear:Bilinear",
    "additive": "regard.attention.additive:Additive",
    "concat": "regard.attention.concat:Concat",
    "cosine": "regard.attention.cosine:Cosine",
    "trilinear": "regard.attention.trilinear:Trilinear",
}


def find(table: Mapping[str, str], name: str) -> Any:
    """The object behind a name of one of the tables above."""
    if name not in table:
        raise CallError(f"{name!r} is not in the catalogue{nearest(name, table)}")
    return load_object(table[name])


def load_object(path: str) -> Any:
    """What "package.module:name" names."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)
