"""The state of a run, and its result."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from regard.training.metrics import Record


@dataclass
class Window:
    """Sums over the good steps since the last line of metrics."""

    steps: int = 0
    total: float = 0.0
    count: float = 0.0
    length: float = 0.0  # gradient norm

    def add(self, total: float, count: float, length: float) -> None:
        self.steps, self.total, self.count = self.steps + 1, self.total + total, self.count + count
        self.length += length


@dataclass
class Plan:
    """State of `Budget` in a run with a time limit. Without a limit all fields are 0, as the step is enough."""

    last: float = 0.0  # planned last step; 0 before the plan is made
    position: float = 0.0  # of the next step, between 0 and `last`
    pace: float = 0.0  # seconds of a step
    timed: int = 0  # steps that were timed
    validation: float = 0.0  # seconds of the last validation


@dataclass
class RunState:
    """Everything that exact resume needs besides weights and optimizer state. All fields are plain JSON."""

    step: int = 0
    epoch: int = 0
    index: int = 0  # batches of the epoch that were used
    seconds: float = 0.0
    busy: float = 0.0  # seconds of training, without validation and saving
    waiting: float = 0.0  # of these, seconds of waiting for data
    items: int = 0  # counted by the loss: tokens, labels, ...
    skipped: int = 0
    bad_in_a_row: int = 0
    worse_in_a_row: int = 0  # validations since the best
    validated: int = -1  # step of the last validation
    best: dict[str, Any] | None = None  # {"step", "value", "scores"}
    history: list[Record] = field(default_factory=list)  # a record for each validation
    window: Window = field(default_factory=Window)
    plan: Plan = field(default_factory=Plan)

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> "RunState":
        return cls(**{**tree, "window": Window(**tree["window"]), "plan": Plan(**tree["plan"])})


class Result(NamedTuple):
    """`stopped_by` names the limit that ended the run: max_steps, max_epochs, time_limit or patience."""

    step: int
    best: dict[str, Any] | None
    history: list[Record]
    seconds: float
    stopped_by: str
    waiting: float = 0.0  # share of the training time spent waiting for data
