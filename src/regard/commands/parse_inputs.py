"""What the words of a command stand for: inputs and outputs of the job; with `--document`, questions about it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.api import Run
from regard.errors import CallError


def inputs_of(run: Run, words: list[str], document: str | None = None) -> list[Any]:
    """`document`: the text that the words are questions about, if they are."""
    return run.job.input.parse(words) if document is None else run.job.input.about(words, document)


def outputs_of(run: Run, words: list[str]) -> list[Any]:
    """Outputs that are given, and not the model's own: texts, or what a job makes of the names of files."""
    return run.job.output.given(words)


def read_document(document: str | None) -> str | None:
    """The text of `--document`: the path of a file, or - for standard input."""
    if document is None:
        return None
    if document == "-":
        return sys.stdin.read()
    try:
        return Path(document).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CallError(f"--document {document} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise CallError(f"--document {document}: {error.strerror}") from None


def read_words(file: Path | None) -> Iterator[str]:
    """Lines of a file, or of standard input, one at a time."""
    if file is None:
        if sys.stdin.isatty():
            print("reading inputs, one a line; end with Ctrl-D", file=sys.stderr)
        yield from (line.rstrip("\r\n") for line in sys.stdin)
        return
    try:
        with file.open(encoding="utf-8") as handle:
            yield from (line.rstrip("\r\n") for line in handle)
    except OSError as error:
        raise CallError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CallError(f"{file} is not UTF-8 text (byte {error.start})") from None


def count_words(file: Path) -> int:
    """How many `read_words` gives; all of the file is read, so that a bad line is found before the work begins."""
    return sum(1 for _ in read_words(file))
