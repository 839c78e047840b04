"""What the words of a command stand for: inputs and outputs of the job; with `--document`, questions about it."""

import sys
from pathlib import Path
from typing import Any

from regard.api import Run
from regard.errors import CallError
from regard.job import GivesFiles, ReadsDocuments


def inputs_of(run: Run, words: list[str], document: str | None) -> list[Any]:
    """`document` is the path of a text file, or - for standard input."""
    if document is None:
        return run.job.inputs(words)
    if not isinstance(run.job, ReadsDocuments):
        raise CallError(f"--document is for questions, but {run.folder} is a run of the job {run.recipe.job}")
    return run.job.about(words, _text(document))


def outputs_of(run: Run, words: list[str]) -> list[Any]:
    """Outputs that are given, and not the model's own: texts, or what a job makes of the names of files."""
    return run.job.outputs(words) if isinstance(run.job, GivesFiles) else words


def _text(document: str) -> str:
    if document == "-":
        return sys.stdin.read()
    try:
        return Path(document).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CallError(f"--document {document} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise CallError(f"--document {document}: {error.strerror}") from None
