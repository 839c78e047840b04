"""What the words of a command stand for: inputs and outputs of the job; with `--about`, questions about a file."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import CallError

if TYPE_CHECKING:
    from regard.loading import AnyRun


def subject_of(run: "AnyRun", about: str | None) -> Any:
    """What `--about` names, read once; None where nothing is asked about."""
    return None if about is None else run.job.input.subject(about)


def inputs_of(run: "AnyRun", words: list[str], subject: Any = None) -> list[Any]:
    """`subject`: what the words are questions about, if they are."""
    return run.job.input.parse(words) if subject is None else run.job.input.about(words, subject)


def refuse_settings(run: "AnyRun", words: list[str]) -> None:
    """`beam=4` among inputs is a setting of decoding whose section was forgotten, and would be read as a text."""
    settings = getattr(run.recipe, "decoding", None)
    for word in words:
        key, equals, _ = word.partition("=")
        if equals and key in getattr(type(settings), "model_fields", ()):
            raise CallError(f"{word!r} is a setting: write decoding.{word}; a text that says so goes by --input")


def outputs_of(run: "AnyRun", words: list[str]) -> list[Any]:
    """Outputs that are given, and not the model's own: texts, or what a job makes of the names of files."""
    return run.job.output.given(words)


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
