"""The two kinds of error that speak to the user. Anything else that escapes is a bug of ours."""

import difflib
from collections.abc import Iterable


class RegardError(Exception):
    """Something failed in a way that we can explain. The command line prints it and exits with 1."""


class CallError(RegardError, ValueError):
    """The user's call was wrong: a typo, an impossible value, a file that is not there. Exit code 2."""


#: What packages bring that the light installation does not have.
OF_TRAINING = ("torch", "matplotlib", "rapidfuzz", "sacrebleu", "safetensors", "zstandard")


def missing_package(name: str | None) -> str | None:
    """What to say of a module that is not installed, if that is one of training; None of any other."""
    package = (name or "").partition(".")[0]
    if package not in OF_TRAINING:
        return None
    what = "PyTorch" if package == "torch" else package
    brings = package if package == "matplotlib" else "'regard[train]'"
    return f"this needs {what}, which is not installed: pip install {brings}"


def nearest(word: str, choices: Iterable[str]) -> str:
    """`; did you mean 'width'?` if one of the choices looks like the word, else the list of them."""
    known = [str(choice) for choice in choices]
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; choose from {', '.join(known)}" if known else ""
