"""Every name that a recipe may use, and the class behind it. Nothing is imported until a name is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from regard.errors import CallError, nearest

SCORES = {
    "dot": "regard.attention:Dot",
    "scaled_dot": "regard.attention:ScaledDot",
    "bilinear": "regard.attention:Bilinear",
    "additive": "regard.attention:Additive",
    "concat": "regard.attention:Concat",
    "cosine": "regard.attention:Cosine",
}

POSITIONS = {
    "sinusoidal": "regard.attention:Sinusoidal",
    "learned": "regard.attention:Learned",
    "rotary": "regard.attention:Rotary",
    "alibi": "regard.attention:Alibi",
    "relative": "regard.attention:RelativeBias",
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
