"""Write predictions in chunks: as lines or as one JSON array, to standard output or a file."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Protocol


class Form(Protocol):
    def written(self, predictions: Iterable[Any], *, first: bool) -> str:
        """Format some predictions; `first`: nothing has been written yet."""
        ...

    def end(self, *, empty: bool) -> str:
        """Return the text after the last prediction; `empty`: there were no predictions."""
        ...


@dataclass(frozen=True)
class Lines:
    """One line per hypothesis; `named`: each starts with the name of its input."""

    scores: bool
    named: bool = False

    def written(self, predictions: Iterable[Any], *, first: bool) -> str:
        return "".join(f"{line}\n" for one in predictions for line in self._lines(one))

    def _lines(self, prediction: Any) -> Iterator[str]:
        for one in prediction.n_best:
            score = "" if one.score is None else f"{one.score:.4f}"
            yield "\t".join([*[prediction.input] * self.named, *[score] * self.scores, one.text])

    def end(self, *, empty: bool) -> str:
        return ""


@dataclass(frozen=True)
class JsonArray:
    """One JSON document: `[{...}, {...}]`."""

    def written(self, predictions: Iterable[Any], *, first: bool) -> str:
        texts = [
            indent(json.dumps(one.as_dict(), ensure_ascii=False, indent=2), "  ", lambda line: True)
            for one in predictions
        ]
        return ("[\n" if first else ",\n") + ",\n".join(texts) if texts else ""

    def end(self, *, empty: bool) -> str:
        return "[]\n" if empty else "\n]\n"


class StandardOutput:
    """Counterpart of `ResumableFile` for a terminal or a pipe: each chunk is flushed when written."""

    done, empty = 0, True

    def write(self, text: str, inputs: int) -> None:
        self.empty = self.empty and not text
        sys.stdout.write(text)
        sys.stdout.flush()

    def leave(self) -> None: ...

    def finish(self) -> None: ...


@contextmanager
def progress(total: int | None, done: int) -> Iterator[Callable[[int], object]]:
    """Show a progress bar on standard error, if it is a terminal and the work is not short."""
    if total is None or total - done <= 1 or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda count: bar.advance(task, count)
