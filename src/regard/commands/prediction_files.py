"""How predictions are written, piece by piece: as lines or as one JSON array, to standard output or a file."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Protocol


class Form(Protocol):
    def written(self, predictions: Iterable[Any], *, first: bool) -> str:
        """Some of them; `first`: nothing is written yet."""
        ...

    def end(self, *, empty: bool) -> str:
        """What comes after the last; `empty`: nothing was written at all."""
        ...


@dataclass(frozen=True)
class Lines:
    """A line for each hypothesis; `named`: it begins with what its input is called."""

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
    """One document: `[{...}, {...}]`."""

    def written(self, predictions: Iterable[Any], *, first: bool) -> str:
        texts = [
            indent(json.dumps(one.as_dict(), ensure_ascii=False, indent=2), "  ", lambda line: True)
            for one in predictions
        ]
        return ("[\n" if first else ",\n") + ",\n".join(texts) if texts else ""

    def end(self, *, empty: bool) -> str:
        return "[]\n" if empty else "\n]\n"


class StandardOutput:
    """As `ResumableFile` is, for a terminal or a pipe: each piece is there when it is written."""

    done, empty = 0, True

    def write(self, text: str, inputs: int) -> None:
        self.empty = self.empty and not text
        sys.stdout.write(text)
        sys.stdout.flush()

    def leave(self) -> None: ...

    def finish(self) -> None: ...


@contextmanager
def progress(total: int | None, done: int) -> Iterator[Callable[[int], object]]:
    """A bar on standard error, if somebody sees it and there is more than a moment's work."""
    if total is None or total - done <= 1 or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda count: bar.advance(task, count)
