"""Arguments of `regard.train`: a recipe with changes, or data for which a recipe is made.

A rejected call leaves its folder as it was: no recipe, no copy of data, and a run to be replaced is restored.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard import config
from regard.data.columns import SYNONYMS
from regard.data.tables import SPLIT_NAMES
from regard.detect.begin import DEFAULT_TIME, RECIPE, START_AGAIN, digest, is_data, make_recipe
from regard.detect.given import has_parts, materialize
from regard.errors import CallError, RegardError
from regard.settings.recipe import CONFIG, Recipe
from regard.settings.training import TrainingSettings, seconds
from regard.synonyms import synonyms
from regard.training.checkpoint import differences
from regard.training.lock import LOCK, holder
from regard.work import Deadline

MOST = 12  # differences of two recipes that an error lists


def resolve_request(
    recipe: Any,
    data: Any,
    output: Path,
    max_steps: int | None,
    time_limit: str | float | None,
    sections: dict[str, Any],
    deadline: Deadline | None = None,
) -> tuple[Recipe, Deadline | None]:
    """Return the recipe to train and the deadline; see `regard.api.train` for the arguments."""
    _refuse_words(sections)
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
                raise CallError("give either data, or a recipe and its data")
            sections["data"] = _section(data, output)
        limit = _limit(time_limit)
        changes = {}
        for name, section in sections.items():
            inner = section.items() if isinstance(section, Mapping) else ()
            changes |= {f"{name}.{key}": value for key, value in inner} or {name: section}
        changes.pop("training.time_limit", None)
        deadline = Deadline(limit or DEFAULT_TIME)
        file = make_recipe(recipe, output, seconds=limit, overrides=changes, report=_report, deadline=deadline)
        recipe = config.read(file, changes)
    elif not isinstance(recipe, Recipe):
        if data is not None:
            whole = isinstance(data, Mapping) and not _is_table(data)
            sections["data"] = _section(data if whole else {"train": data}, output)
        recipe = config.read(recipe, sections)
    elif data is not None or sections:
        raise CallError("give changes with a recipe's name or file, not with a recipe that is already read")
    refuse_other_recipe(output, recipe)
    return recipe, deadline


#: Options of the command line that train() has under another name.
_ARGUMENTS = {
    "--fresh": "overwrite=True",
    "--time-limit": "time_limit=",
    "--output": "output=",
    "--watch": "watch=True",
}
_ELSEWHERE = {
    "dry_run": "`regard train DATA --dry-run` shows the plan",
    "job": "name a recipe of that job, or use `regard train DATA --job JOB`",
    "verbose": "progress is written to standard error; redirect that to hide it",
}
_SECTIONS = ("data", "model", "training", "decoding")
_VALUES = ("X", "y", "start", "about", "needs", "variants")  # arguments that are not sections


def _refuse_words(sections: Mapping[str, Any]) -> None:
    """Raise if an argument is not a section of a recipe: a setting belongs inside its section."""
    for name, value in sections.items():
        if isinstance(value, Mapping) or value is None or name in _VALUES:
            continue
        if name in _SECTIONS:
            raise CallError(f"{name}={value!r}: a section is a mapping of settings, {name}={{NAME: VALUE}}")
        meant = {"dryrun": "dry_run", "task": "job", "quiet": "verbose", "silent": "verbose"}.get(name, name)
        raise CallError(f"train has no argument {name!r}: {_ELSEWHERE.get(meant) or _as_argument(name)}")


def _as_argument(word: str) -> str:
    """Return the setting that was meant as a Python argument: `training={"max_epochs": ...}`."""
    if (argument := next((_ARGUMENTS[one] for one in synonyms(word) if one in _ARGUMENTS), None)) is not None:
        return f"write {argument}"
    fields = [f"training.{word}"] if word in TrainingSettings.model_fields else []
    fields += [f"data.{word}"] if word in SYNONYMS else []
    named = [name.partition("=")[0] for name in synonyms(word) if name.partition(".")[0] in _SECTIONS and "." in name]
    if not (names := [*fields, *named]):
        return "a setting goes into its section, such as model={'width': 128} or training={'max_epochs': 3}"
    section, _, key = names[0].partition(".")
    return f"write {section}={{{key!r}: ...}}"


def _limit(time_limit: str | float | None) -> float | None:
    try:
        return None if time_limit is None else float(seconds(time_limit))
    except ValueError as error:
        raise CallError(f"time_limit={time_limit!r}: {error}") from None


def read_recipe(recipe: Any, overrides: Any, folder: Path) -> Recipe:
    """Read a recipe; for data, make one, with its files in `folder`."""
    if is_data(recipe):
        recipe = make_recipe(recipe, folder, overrides=overrides, report=_report)
    return recipe if isinstance(recipe, Recipe) else config.read(recipe, overrides)


def _with_labels(recipe: Any, data: Any, sections: dict[str, Any]) -> tuple[Any, Any]:
    """Convert X (inputs) and y (labels), as in scikit-learn, to data."""
    inputs, labels = sections.pop("X", None), sections.pop("y", None)
    if inputs is None or labels is None:
        raise CallError("X and y belong together: give both, or data=")
    if recipe is None:
        return (inputs, labels), data
    if data is not None:
        raise CallError("give X and y, or data=: not both")
    return recipe, {"train": (inputs, labels)}


def _is_table(data: Mapping[str, Any]) -> bool:
    """Return whether a mapping is a table, {"text": [...], "label": [...]}, and not a data section."""
    return "train" not in data and all(isinstance(column, list | tuple) for column in data.values())


def _section(data: Mapping[str, Any], output: Path) -> dict[str, Any]:
    """Return a data section of files: write Python tables to the run's folder."""
    parts = {role: part for role, part in data.items() if role in SPLIT_NAMES and not isinstance(part, str)}
    return {**data, **{role: _part(part, output / "data" / role, output) for role, part in parts.items()}}


def _part(part: Any, place: Path, run: Path) -> str:
    """Return the file of a part. An existing run has it already, or was trained on other data."""
    if not (run / CONFIG).is_file():
        return materialize(part, place, _report)
    with TemporaryDirectory(prefix="regard-") as folder:
        file = Path(materialize(part, Path(folder), _report))
        if any(Path(folder).iterdir()) and digest(folder) != digest(str(place)):
            raise CallError(f"{run} holds a run of other data than this {type(part).__name__}: {START_AGAIN}")
        return str(place / file.relative_to(folder)) if file.is_relative_to(folder) else str(file)


def _report(message: str) -> None:
    print(f"regard: {message}", file=sys.stderr)


def refuse_other_recipe(folder: Path, recipe: Recipe) -> None:
    """Raise if a folder has a run of another recipe, before anything is written to it."""
    if not (folder / CONFIG).is_file() or not any((folder / name).exists() for name in ("state", "model.safetensors")):
        return
    before = config.as_tree(config.build(config.load_yaml(folder / CONFIG), str(folder / CONFIG)))
    if found := differences(before, config.as_tree(recipe)):
        found.sort(key=lambda line: not line.startswith(("job:", "data.train:")))
        lines = "\n  ".join([*found[:MOST], *([f"and {len(found) - MOST} more"] if len(found) > MOST else [])])
        raise CallError(f"{folder} holds a run of another recipe or other data:\n  {lines}\n{START_AGAIN}")


@contextmanager
def run_begun(folder: Path, *, overwrite: bool = False, needs: Sequence[Any] = ()) -> Iterator[None]:
    """Start a training run in the block; if the start fails, restore the folder.

    `overwrite`: move an existing run away first, and remove it when the new one has started. `needs`: recipe and data
    of the new run, which must not be in that folder.
    """
    if os.environ.get("RANK", "0") != "0":
        yield
        return
    aside = _put_aside(folder, needs) if overwrite and folder.exists() else None
    before = {*folder.iterdir()} if folder.is_dir() else None
    parents = [parent for parent in folder.absolute().parents if not parent.exists()]
    begun = False
    try:
        yield
        begun = True
    except RegardError:
        begun = (folder / CONFIG).exists()
        if not begun:
            for path in {*folder.iterdir()} - (before or set()) if folder.is_dir() else ():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for place in [*([folder] if before is None else []), *parents]:
                if place.is_dir() and not any(place.iterdir()):
                    place.rmdir()
        raise
    finally:
        if aside is not None and (begun or (folder / CONFIG).exists()):
            shutil.rmtree(aside)
        elif aside is not None:
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)


def _put_aside(folder: Path, needs: Sequence[Any]) -> Path:
    """Return a temporary place for a run until its replacement has started. Raise if the folder is not a run."""
    if any(folder.iterdir()) and not any((folder / name).is_file() for name in (CONFIG, RECIPE)):
        raise CallError(f"{folder} has no run: remove its files yourself, or name another folder (-o)")
    if Path.cwd().is_relative_to(folder.absolute()):
        raise CallError(f"{folder} is the current directory: name another folder (-o)")
    for one in needs:
        if isinstance(one, str | Path) and Path(one).absolute().is_relative_to(folder.absolute()):
            raise CallError(f"{one} is in {folder}, which would be removed: move it, or name another folder (-o)")
    if (user := holder(folder / LOCK)) is not None:
        raise CallError(f"{folder} is being trained by process {user.process} on {user.host}: stop it first")
    aside = folder.with_name(f".{folder.name}-before-{os.getpid()}")
    folder.rename(aside)
    return aside
