"""regard: train attention models on your own data, and see where they look.

import regard

run = regard.train("translate-recurrent", data="pairs.tsv", output="runs/mine")
run = regard.load("runs/mine")
run.predict("we are eating bread").text
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import missing_package
from regard.version import __version__

if TYPE_CHECKING:
    from regard import look
    from regard.api import Run, check, train
    from regard.datasets.fetch import fetch
    from regard.exporters.export import export
    from regard.inputs.sound.recording import Sound
    from regard.loading import load
    from regard.runs.search import open_index

__all__ = ["Run", "Sound", "__version__", "check", "export", "fetch", "load", "look", "open_index", "train"]


_PLACES = {
    "Sound": "regard.inputs.sound.recording",
    "export": "regard.exporters.export",
    "fetch": "regard.datasets.fetch",
    "load": "regard.loading",
    "open_index": "regard.runs.search",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use, so that `import regard` does not load torch."""
    if name == "look":
        return import_module("regard.look")
    if name not in __all__:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    try:
        return getattr(import_module(_PLACES.get(name, "regard.api")), name)
    except ModuleNotFoundError as error:
        if (told := missing_package(error.name)) is None:
            raise
        raise ImportError(f"regard.{name}: {told}") from None
