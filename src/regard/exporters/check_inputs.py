"""The inputs that an export is checked with: some of the validation part of the run, or lines of a file."""

from pathlib import Path
from typing import Any

from regard import jobs
from regard.api import Run
from regard.errors import CallError, RegardError
from regard.files.text import read_text

MOST = 32


def check_inputs(run: Run, file: Path | None) -> list[Any]:
    """As `predict` takes them; nothing among them is empty."""
    given = _of_validation(run) if file is None else run.job.input.parse(
        [line for line in read_text(str(file)).split("\n") if line.strip()]
    )
    full = [one for one in given if run.job.input.length(run.job.input.read(one))]
    if not full:
        raise CallError(f"{file or 'the validation part'}: there is no input to check the export with")
    return full[:MOST]


def _of_validation(run: Run) -> list[Any]:
    data = jobs.make(run.recipe)  # a job of its own: that of the run keeps what it has learned
    try:
        data.restore(run.folder)
        data.prepare(run.folder / "cache")
        return [example.input for example in data.output.some(data.splits["valid"], MOST)]
    except (RegardError, OSError) as problem:
        raise CallError(
            f"the validation part of {run.folder} cannot be read ({problem}): give inputs of your own, "
            "--check-inputs FILE, or export without a check, --no-check"
        ) from None

