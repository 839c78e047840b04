"""Embedded corpora of series: tables of named columns, the first of them times; and labeled series.

In a recipe, `data.train: corpus:stocks` means `load_series("stocks")`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from regard.corpora.lag import lag
from regard.corpora.shapes_of_series import ShapeInSeries, shapes_of_series
from regard.corpora.stocks import stocks
from regard.errors import CallError, nearest

LOADERS: dict[str, Callable[[], Mapping[str, Any]]] = {"stocks": stocks, "lag": lag}
LABELED: dict[str, Callable[[str], list[ShapeInSeries]]] = {"shapes-of-series": shapes_of_series}


def load_series(name: str) -> Mapping[str, Any]:
    """Return the columns of an embedded table, named with or without `corpus:`."""
    name = name.removeprefix("corpus:")
    if name not in LOADERS:
        raise CallError(f"unknown corpus of series: {name!r}{nearest(name, LOADERS)}")
    return LOADERS[name]()


def load_labeled_series(name: str, split: str) -> list[ShapeInSeries]:
    """Return the series of one split (train, valid or test) of an embedded corpus, named with or without `corpus:`."""
    name = name.removeprefix("corpus:")
    if name not in LABELED:
        raise CallError(f"unknown corpus of labeled series: {name!r}{nearest(name, LABELED)}")
    return LABELED[name](split)
