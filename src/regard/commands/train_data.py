"""`regard train DATA`: decide on a recipe for data, and on the folder of its run."""

import os
import sys
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path
from time import monotonic

import click

from regard import config
from regard.detect.begin import DEFAULT_TIME, data_name, is_data, make_recipe, read_record
from regard.errors import CallError, nearest
from regard.files import atomic
from regard.jobs import JOBS
from regard.report.run import Section, page, table, tiles, words
from regard.settings.recipe import Recipe
from regard.settings.training import seconds
from regard.tasks.result import Scores, readable
from regard.training.checkpoint import differences
from regard.work import Deadline

# Default output folder of a run: `runs/RECIPE`, or `runs/RECIPE-2` if that has another run.

RUNS = Path("runs")


def run_folder(recipe: str | Path, settings: Recipe, report: Callable[[str], None]) -> Path:
    """Return the first folder that is free or has a run of the same recipe, which then resumes."""
    first = RUNS / Path(recipe).stem
    others = (first.with_name(f"{first.name}-{number}") for number in count(2))
    folder = next(one for one in chain([first], others) if _is_free(one, settings))
    if folder != first and os.environ.get("RANK", "0") == "0":
        report(f"{first} has another run: using {folder} (-o chooses another folder)")
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


__all__ = ["folder_for", "is_data", "recipe_for", "with_second_file"]


def recipe_for(
    data: str,
    folder: Path,
    *,
    job: str | None,
    time_limit: str | None,
    overrides: tuple[str, ...],
    yes: bool,
    report: Callable[[str], None],
) -> tuple[Path, Deadline]:
    """Return the recipe for the data, in the folder of its run, and the deadline."""
    began = monotonic()
    if job is not None and job not in JOBS:
        raise CallError(f"--job {job}: no such job{nearest(job, JOBS)}")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and read_record(folder) is None:
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
    file = make_recipe(
        data, folder, job=job, seconds=limit, overrides=overrides, report=report, sure=sure, deadline=deadline
    )
    return file, deadline


def with_second_file(recipe: str, overrides: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Join data of two files, `a.en a.fr`, into one word; return it with the remaining words, the settings."""
    files = [word for word in overrides if "=" not in word and Path(word).expanduser().is_file()]
    if not files or not Path(recipe).expanduser().is_file() or not is_data(recipe):
        return recipe, overrides
    if len(files) > 1:
        raise CallError(f"{len(files) + 1} files: give one, two parallel ones (SOURCE TARGET), or their folder")
    return f"{recipe},{files[0]}", tuple(word for word in overrides if word != files[0])


def folder_for(recipe: str, settings: Recipe | None, report: Callable[[str], None]) -> Path:
    """Return the default folder of a run; `settings`: of a recipe, None for data."""
    return _data_folder(recipe) if settings is None else run_folder(recipe, settings, report)


def _data_folder(data: str) -> Path:
    """Return `runs/NAME`, or `runs/NAME-2` if that has a run of other data."""
    first = RUNS / Path(data.split(",")[0].rstrip("/")).resolve().name.split(".")[0]
    others = (first.with_name(f"{first.name}-{number}") for number in count(2))
    name = data_name(data)
    return next(one for one in chain([first], others) if not one.exists() or _name_of(one) == name)


def _name_of(folder: Path) -> str:
    before = read_record(folder)
    return "" if before is None else before.name


# `regard evaluate RUN -o PAGE.html`: write scores, tables and pictures to one page that needs no network.


def require_page(file: Path) -> None:
    """Raise before the computation if the page cannot be written."""
    if file.suffix.lower() not in (".html", ".htm"):
        raise CallError(f"{file}: scores are written as a page, FILE.html (--json prints them as JSON)")
    if not file.absolute().parent.is_dir():
        raise CallError(f"{file}: there is no folder {file.absolute().parent}")


def write_page(scores: Scores, title: str, file: Path) -> None:
    """Write the page; the file is complete or not written at all."""
    figures = [(words(name), readable(value)) for name, value in scores.values.items()]
    notes = "; ".join(f"{name}: {text}" for name, text in scores.notes.items())
    sections = [Section("Test scores", tiles(figures), notes)]
    sections += [Section(*picture) for picture in scores.pictures]
    sections += [
        Section(name, table(list(rows[0]), [list(row.values()) for row in rows]))
        for name, rows in scores.details.items()
        if rows
    ]
    atomic.write_text(file, page(title, "", sections))
