"""`regard train DATA`: what data is for which no recipe is named, and the folder that its run lives in."""

import os
import sys
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path

import click

from regard.auto.begin import DEFAULT_TIME, begin, is_data, made_for
from regard.commands.run_folder import RUNS
from regard.errors import CallError
from regard.settings.training import seconds

__all__ = ["is_data", "recipe_for"]


def recipe_for(
    data: str,
    output: Path | None,
    *,
    job: str | None,
    time_limit: str | None,
    overrides: tuple[str, ...],
    yes: bool,
    say: Callable[[str], None],
) -> tuple[Path, Path]:
    """The recipe that was decided on, and the folder of its run."""
    folder = output or _folder(data)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not made_for(folder):
        raise CallError("several processes cannot decide on one recipe: first, regard train DATA --dry-run -o RUN")
    try:
        limit = DEFAULT_TIME if time_limit is None else float(seconds(time_limit))
    except ValueError as problem:
        raise CallError(f"--time-limit {time_limit}: {problem}") from None
    ask = sys.stdin.isatty() and not yes
    sure = (lambda doubt: click.confirm(f"{doubt}. Go on?", default=True, err=True)) if ask else (lambda doubt: True)
    return begin(data, folder, job=job, seconds=limit, overrides=overrides, tell=say, sure=sure), folder


def _folder(data: str) -> Path:
    """`runs/NAME`, or `runs/NAME-2` if a run of other data is there."""
    first = RUNS / Path(data.split(",")[0].rstrip("/")).name.split(".")[0]
    others = (first.with_name(f"{first.name}-{number}") for number in count(2))
    return next(one for one in chain([first], others) if not one.exists() or made_for(one) == data)
