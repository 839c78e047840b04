"""Progress of training on standard error: a live display in a terminal, plain lines elsewhere."""

from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from regard.training.metrics import Record


class ProgressLines:
    """One line a record, for log files, pipes and notebooks."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def start(self) -> None: ...

    def train(self, record: Record, done: float | None, left: float | None) -> None:
        self.say(f"{summary(record)} · {time_left(left)}")

    def validation(self, record: Record) -> None:
        self.say(f"step {record['step']:,} · validation {scores(record)}{' · best so far' if record['best'] else ''}")
        if record.get("sample"):
            self.say("\n".join("    " + line for line in record["sample"].splitlines()))

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None: ...


class Display(ProgressLines):
    """A progress bar, the latest figures, and the latest validation with its sample. Messages scroll above it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(console=console, refresh_per_second=2, transient=False)
        self._train: tuple[Record, float | None, float | None] | None = None
        self._validation: Record | None = None

    def start(self) -> None:
        self._live.start()
        self._draw()

    def train(self, record: Record, done: float | None, left: float | None) -> None:
        self._train = (record, done, left)
        self._draw()

    def validation(self, record: Record) -> None:
        self._validation = record
        self._draw()

    def stop(self) -> None:
        self._live.stop()

    def _draw(self) -> None:
        rows: list[Any] = []
        if self._train is None:
            rows.append(Text("the first steps ...", style="dim"))
        else:
            record, done, left = self._train
            head = Table.grid(padding=(0, 1))
            if done is not None:
                head.add_row(ProgressBar(total=1.0, completed=min(1.0, done), width=30), f"{done:.0%}", time_left(left))
            rows += [head, Text(summary(record))]
        if self._validation is not None:
            best = "best so far" if self._validation["best"] else "not the best"
            style = "green" if self._validation["best"] else "yellow"
            line = Text(f"validation at step {self._validation['step']:,} · {scores(self._validation)} · ")
            rows.append(line.append(best, style=style))
            if self._validation.get("sample"):
                rows.append(Text(self._validation["sample"], style="cyan"))
        self._live.update(Group(*rows))


def display() -> ProgressLines:
    console = Console(stderr=True)
    return Display(console) if console.is_terminal else ProgressLines(console)


def summary(record: Record) -> str:
    loss = "loss unknown" if record["loss"] is None else f"loss {record['loss']:.4f}"
    return (
        f"step {record['step']:,} · epoch {record['epoch']:.2f} · {loss}"
        f" · rate {record['learning_rate']:.2e} · {record['items_per_second']:,.0f} {record['unit']}/s"
    )


def scores(record: Record) -> str:
    return " · ".join(f"{name} {value:.4g}" for name, value in record["scores"].items())


def time_left(seconds: float | None) -> str:
    return "no end set" if seconds is None else f"{duration(seconds)} left"


def duration(seconds: float) -> str:
    """Format seconds: 3 s, 4 min 05 s, 2 h 03 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
