"""What `regard.train` is requested to do: train a recipe with changes, or data, for which a recipe is made."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard import config
from regard.auto.begin import begin, is_data
from regard.auto.given import as_path, has_parts
from regard.data.tables import SPLIT_NAMES
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
    """Return the recipe to train; see `regard.api.train` for the arguments."""
    if "X" in sections or "y" in sections:
        recipe, data = _with_labels(recipe, data, sections)
    limits = {"max_steps": max_steps, "time_limit": time_limit}
    if limits := {name: value for name, value in limits.items() if value is not None}:
        sections["training"] = {**sections.get("training", {}), **limits}
    if recipe is None:
        recipe, data = data, None
    if has_parts(recipe):
        recipe, data = recipe["train"], {name: recipe[name] for name in recipe if name != "train"} | (data or {})
    if recipe is None:
        raise CallError("train: give a recipe, or data")
    if is_data(recipe):
        if data is not None:
            if not isinstance(data, Mapping) or "train" in data:
                raise CallError("give data, or a recipe and its data: not both")
            sections["data"] = _section(data, output)
        limit = None if time_limit is None else float(seconds(time_limit))
        changes = {f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()}
        changes.pop("training.time_limit", None)
        recipe = config.read(begin(recipe, output, seconds=limit, overrides=changes, tell=_report))
    elif not isinstance(recipe, Recipe):
        if data is not None:
            whole = isinstance(data, Mapping) and not _is_table(data)
            sections["data"] = _section(data if whole else {"train": data}, output)
        recipe = config.read(recipe, sections)
    elif data is not None or sections:
        raise CallError("give changes with a recipe's name or file, not with a recipe that is read already")
    return recipe


def _with_labels(recipe: Any, data: Any, sections: dict[str, Any]) -> tuple[Any, Any]:
    """As scikit-learn has it: X are the inputs, y are their labels."""
    inputs, labels = sections.pop("X", None), sections.pop("y", None)
    if inputs is None or labels is None:
        raise CallError("X and y belong together: give both, or data=")
    if recipe is None:
        return (inputs, labels), data
    if data is not None:
        raise CallError("give X and y, or data=: not both")
    return recipe, {"train": (inputs, labels)}


def _is_table(data: Mapping[str, Any]) -> bool:
    """Whether a mapping is a table, {"text": [...], "label": [...]}, and not a data section."""
    return "train" not in data and all(isinstance(column, list | tuple) for column in data.values())


def _section(data: Mapping[str, Any], output: Path) -> dict[str, Any]:
    """A data section whose parts are files: tables of Python are written to the run's folder."""
    parts = {role: part for role, part in data.items() if role in SPLIT_NAMES and not isinstance(part, str)}
    return {**data, **{role: as_path(part, output / "data" / role, _report) for role, part in parts.items()}}


def _report(message: str) -> None:
    print(f"regard: {message}", file=sys.stderr)
