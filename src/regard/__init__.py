"""regard: train attention models on your own data, and see where they look.

import regard

run = regard.train("translate-recurrent", data="pairs.tsv", output="runs/mine")
run = regard.load("runs/mine")
run.predict("we are eating bread").text
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.api import Run, check, load, train

__version__ = "0.1.0"
__all__ = ["Run", "check", "load", "train"]


def __getattr__(name: str) -> Any:
    """`import regard` is instant; torch is loaded with the first use of one of these names."""
    if name in __all__:
        from regard import api

        return getattr(api, name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
