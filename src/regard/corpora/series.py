"""The corpora that are tables of series: columns by name, the first of them times.

In a recipe, `data.train: corpus:stocks` stands for `load_series("stocks")`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from regard.corpora.lag import lag
from regard.corpora.stocks import stocks
from regard.errors import CallError, nearest

LOADERS: dict[str, Callable[[], Mapping[str, Any]]] = {"stocks": stocks, "lag": lag}


def load_series(name: str) -> Mapping[str, Any]:
    """The columns of an embedded table, named with or without `corpus:`."""
    name = name.removeprefix("corpus:")
    if name not in LOADERS:
        raise CallError(f"there is no corpus of series {name!r}{nearest(name, LOADERS)}")
    return LOADERS[name]()
