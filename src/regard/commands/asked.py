"""What the words of a command stand for: inputs and outputs of the job; with `--about`, questions about a file."""

from typing import Any

from regard.api import Run


def inputs_of(run: Run, words: list[str], about: str | None) -> list[Any]:
    """`about` is the path of a file, or - for standard input."""
    return run.job.input.parse(words) if about is None else run.job.input.about(words, about)


def outputs_of(run: Run, words: list[str]) -> list[Any]:
    """Outputs that are given, and not the model's own: texts, or what a job makes of the names of files."""
    return run.job.output.given(words)
