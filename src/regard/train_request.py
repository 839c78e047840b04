"""What `regard.train` is asked for: a recipe with changes, or data, for which a recipe is made."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard import config
from regard.auto.begin import begin, is_data
from regard.errors import CallError
from regard.settings.recipe import Recipe
from regard.settings.training import seconds


def requested(
    recipe: Any,
    data: Any,
    output: Path,
    max_steps: int | None,
    time_limit: str | float | None,
    sections: dict[str, Any],
) -> Recipe:
    """The recipe to train; see `regard.api.train` for what may be given."""
    limits = {"max_steps": max_steps, "time_limit": time_limit}
    if limits := {name: value for name, value in limits.items() if value is not None}:
        sections["training"] = {**sections.get("training", {}), **limits}
    if is_data(recipe):
        if data is not None:
            if not isinstance(data, Mapping) or "train" in data:
                raise CallError("give data, or a recipe and its data: not both")
            sections["data"] = data
        limit = None if time_limit is None else float(seconds(time_limit))
        changes = {f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()}
        changes.pop("training.time_limit", None)
        recipe = config.read(begin(recipe, output, seconds=limit, overrides=changes))
    elif not isinstance(recipe, Recipe):
        if data is not None:
            sections["data"] = data if isinstance(data, Mapping) else {"train": str(data)}
        recipe = config.read(recipe, sections)
    elif data is not None or sections:
        raise CallError("give changes with a recipe's name or file, not with a recipe that is read already")
    return recipe
