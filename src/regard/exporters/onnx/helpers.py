"""Runs that help another one (`other_run.py`): their exports are folders in its own, by the setting that names them.

They are float32 always: what other numbers cost is measured with the run's own helpers.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from regard import api
from regard.api import Run
from regard.exporters.base import Wish

HELPERS = ("language_model", "rerank")  # of `decoding`


def helpers(run: Run) -> Iterator[tuple[str, Wish]]:
    how = getattr(run.recipe, "decoding", None)
    for name in HELPERS:
        if (folder := getattr(how, name, None)) is not None:
            other = api.load(folder)
            yield name, Wish(other, inputs=_examples(other))


def _examples(run: Run) -> list[Any]:
    """To trace its graphs with: any pictures will do; a text needs none."""
    data: Any = run.recipe.data
    if run.job.input.kind != "image":
        return []
    chance = np.random.default_rng(0)
    return [chance.integers(0, 256, (data.height, data.width, data.channels), np.uint8) for _ in range(2)]
