"""What the words of a command stand for: inputs and outputs of the job; with `--document`, questions about it."""

import sys
from pathlib import Path
from typing import Any

from regard.api import Run
from regard.errors import CallError


def inputs_of(run: Run, words: list[str], document: str | None) -> list[Any]:
    """`document` is the path of a text file, or - for standard input."""
    return run.job.input.parse(words) if document is None else run.job.input.about(words, _text(document))


def outputs_of(run: Run, words: list[str]) -> list[Any]:
    """Outputs that are given, and not the model's own: texts, or what a job makes of the names of files."""
    return run.job.output.given(words)


def _text(document: str) -> str:
    if document == "-":
        return sys.stdin.read()
    try:
        return Path(document).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CallError(f"--document {document} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise CallError(f"--document {document}: {error.strerror}") from None
