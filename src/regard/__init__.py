"""regard: train attention models on your own data, and see where they look.

import regard

run = regard.train("translate-recurrent", data="pairs.tsv", output="runs/mine")
run = regard.load("runs/mine")
run.predict("we are eating bread").text
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard import look
    from regard.api import Run, check, load, train
    from regard.exporters.export import export
    from regard.search import open_index

__version__ = "0.1.0"
__all__ = ["Run", "check", "export", "load", "look", "open_index", "train"]


def __getattr__(name: str) -> Any:
    """`import regard` is instant; torch is loaded with the first use of one of these names."""
    if name == "look":
        return import_module("regard.look")
    if name == "export":
        return import_module("regard.exporters.export").export
    if name == "open_index":
        return import_module("regard.search").open_index
    if name in __all__:
        return getattr(import_module("regard.api"), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
