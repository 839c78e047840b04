"""`regard train DATA`: decide on a recipe for data, and on the folder of its run."""

import os
import sys
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path
from time import monotonic

import click

from regard import config
from regard.auto.begin import DEFAULT_TIME, begin, is_data
from regard.auto.record import named, recorded
from regard.commands.run_folder import RUNS, run_folder
from regard.errors import CallError, nearest
from regard.jobs import JOBS
from regard.settings.recipe import Recipe
from regard.settings.training import seconds
from regard.work import Deadline

__all__ = ["folder_for", "is_data", "recipe_for", "with_second_file"]


def recipe_for(
    data: str,
    folder: Path,
    *,
    job: str | None,
    time_limit: str | None,
    overrides: tuple[str, ...],
    yes: bool,
    say: Callable[[str], None],
) -> tuple[Path, Deadline]:
    """Return the recipe for the data, in the folder of its run, and the deadline."""
    began = monotonic()
    if job is not None and job not in JOBS:
        raise CallError(f"--job {job}: no such job{nearest(job, JOBS)}")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and recorded(folder) is None:
        raise CallError("several processes cannot make one recipe: first run regard train DATA --dry-run -o RUN")
    training = config.override({}, overrides).get("training", {})
    time_limit = time_limit or (training.get("time_limit") if isinstance(training, dict) else None)
    try:
        limit = None if time_limit is None else float(seconds(time_limit))
    except ValueError as problem:
        raise CallError(f"--time-limit {time_limit}: {problem}") from None
    ask = sys.stdin.isatty() and not yes
    sure = (lambda doubt: click.confirm(f"{doubt}. Continue?", default=True, err=True)) if ask else (lambda doubt: True)
    deadline = Deadline(limit or DEFAULT_TIME, began)
    file = begin(data, folder, job=job, seconds=limit, overrides=overrides, tell=say, sure=sure, deadline=deadline)
    return file, deadline


def with_second_file(recipe: str, overrides: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Join data of two files, `a.en a.fr`, into one word; return it with the remaining words, the settings."""
    files = [word for word in overrides if "=" not in word and Path(word).expanduser().is_file()]
    if not files or not Path(recipe).expanduser().is_file() or not is_data(recipe):
        return recipe, overrides
    if len(files) > 1:
        raise CallError(f"{len(files) + 1} files: give one, two parallel ones (SOURCE TARGET), or their folder")
    return f"{recipe},{files[0]}", tuple(word for word in overrides if word != files[0])


def folder_for(recipe: str, settings: Recipe | None, say: Callable[[str], None]) -> Path:
    """Return the default folder of a run; `settings`: of a recipe, None for data."""
    return _data_folder(recipe) if settings is None else run_folder(recipe, settings, say)


def _data_folder(data: str) -> Path:
    """Return `runs/NAME`, or `runs/NAME-2` if that has a run of other data."""
    first = RUNS / Path(data.split(",")[0].rstrip("/")).resolve().name.split(".")[0]
    others = (first.with_name(f"{first.name}-{number}") for number in count(2))
    name = named(data)
    return next(one for one in chain([first], others) if not one.exists() or _name_of(one) == name)


def _name_of(folder: Path) -> str:
    before = recorded(folder)
    return "" if before is None else before.name
