"""The two error types for users. Any other exception that escapes is a bug in regard."""

import difflib
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.synonyms import synonyms

ALIKE = 0.7  # similarity by difflib: beem and beam have 0.75, lr and lora 0.67


class RegardError(Exception):
    """A failure with an explanation. The command line prints it and exits with 1."""


class CallError(RegardError, ValueError):
    """A mistake in the user's call: a typo, an impossible value, a missing file. Exit code 2."""


#: Features of packages that the light installation does not include.
OF_TRAINING = ("torch", "matplotlib", "rapidfuzz", "sacrebleu", "safetensors", "zstandard")


def missing_package(name: str | None) -> str | None:
    """Return the message for a module that is not installed if training needs it, else None."""
    package = (name or "").partition(".")[0]
    if package not in OF_TRAINING:
        return None
    what = "PyTorch" if package == "torch" else package
    brings = package if package == "matplotlib" else "regard[train]"
    return f"this needs {what}, which is not installed: {pip_install(brings)}"


def pip_install(*words: str) -> str:
    """Return the command that installs these packages for the running interpreter."""
    return shlex.join([sys.executable or "python", "-m", "pip", "install", *words])


def no_run(folder: str | Path) -> str:
    """Return the message for a folder that is not a run, with the runs in it, next to it or in runs/."""
    place = Path(folder)
    what = f"{folder} is not a run: it has no config.yaml" if place.exists() else f"no such run: {folder}"
    for around in (place, place.parent, Path("runs")):
        runs = sorted(file.parent.name for file in around.glob("*/config.yaml")) if around.is_dir() else []
        if (close := meant(place.name, runs)) is not None:
            return f"{what}; did you mean {around / close}?"
        if runs:
            more = f" and {len(runs) - MOST} more" if len(runs) > MOST else ""
            return f"{what}. Runs in {around}/: {', '.join(runs[:MOST])}{more}"
    return f"{what}. No runs here yet: regard train DATA makes one"


MOST = 12  # names that an error lists


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return `; did you mean 'width'?` if one of the choices is meant or similar, else a list of the choices.

    Words known from other libraries (`synonyms.py`) lead to their name here.
    """
    known = [str(choice) for choice in choices]
    if (close := meant(word, known)) is not None:
        return f"; did you mean {close!r}?"
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"; choose from {', '.join(known[:MOST])}{more}" if known else ""


def meant(word: str, choices: Sequence[str]) -> str | None:
    """Return the choice that a word refers to: a synonym first, then a similar spelling."""
    named = next((name for name in synonyms(word) if name in choices), None)
    close = difflib.get_close_matches(word, choices, n=1, cutoff=ALIKE)
    return named or (close[0] if close else None)
