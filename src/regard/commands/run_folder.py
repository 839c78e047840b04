"""Where a run lives if nobody says it: `runs/RECIPE`, or `runs/RECIPE-2` if another run is there."""

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

from regard import config
from regard.errors import CallError
from regard.settings.recipe import Recipe
from regard.training.fingerprint import differences

RUNS = Path("runs")


def run_folder(recipe: str | Path, settings: Recipe, say: Callable[[str], None]) -> Path:
    """The first folder that is free, or that holds a run of this very recipe, which then goes on."""
    name = Path(recipe).stem
    for number in count(1):
        folder = RUNS / (name if number == 1 else f"{name}-{number}")
        if _is_free(folder, settings):
            break
    if number > 1 and os.environ.get("RANK", "0") == "0":
        say(f"{RUNS / name} holds another run: this one is {folder} (-o names another folder)")
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
