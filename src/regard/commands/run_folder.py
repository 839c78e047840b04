"""Default output folder of a run: `runs/RECIPE`, or `runs/RECIPE-2` if that has another run."""

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
    """Return the first folder that is free or has a run of the same recipe, which then resumes."""
    first = RUNS / Path(recipe).stem
    others = (first.with_name(f"{first.name}-{number}") for number in count(2))
    folder = next(one for one in chain([first], others) if _is_free(one, settings))
    if folder != first and os.environ.get("RANK", "0") == "0":
        say(f"{first} has another run: using {folder} (-o chooses another folder)")
    return folder


def _is_free(folder: Path, settings: Recipe) -> bool:
    file = folder / "config.yaml"
    if not file.is_file():
        return not folder.exists() or not any(folder.iterdir())
    try:
        kept = config.build(config.load_yaml(file), str(file))
    except CallError:  # from another version or another program
        return False
    return not differences(config.as_tree(kept), config.as_tree(settings))
