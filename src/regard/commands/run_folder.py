"""Where a run lives if nobody says it: `runs/RECIPE`, or `runs/RECIPE-2` if another run is there."""

import os
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path

from regard import config
from regard.errors import CallError
from regard.settings.recipe import Recipe
from regard.training.fingerprint import differences

RUNS = Path("runs")


def run_folder(recipe: str | Path, settings: Recipe, say: Callable[[str], None]) -> Path:
    """The first folder that is free, or that holds a run of this very recipe, which then goes on."""
    first = RUNS / Path(recipe).stem
    others = (first.with_name(f"{first.name}-{number}") for number in count(2))
    folder = next(one for one in chain([first], others) if _is_free(one, settings))
    if folder != first and os.environ.get("RANK", "0") == "0":
        say(f"{first} holds another run: this one is {folder} (-o names another folder)")
    return folder


def _is_free(folder: Path, settings: Recipe) -> bool:
    file = folder / "config.yaml"
    if not file.is_file():
        return not folder.exists() or not any(folder.iterdir())
    try:
        kept = config.build(config.load_yaml(file), str(file))
    except CallError:  # of another version, or a stranger's
        return False
    return not differences(config.as_tree(kept), config.as_tree(settings))
