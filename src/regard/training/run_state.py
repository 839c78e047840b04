"""Where a run stands, and what comes out of it."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from regard.training.metrics import Record


@dataclass
class Window:
    """Sums over the good steps since the last line of metrics."""

    steps: int = 0
    total: float = 0.0
    count: float = 0.0
    length: float = 0.0  # of gradients

    def add(self, total: float, count: float, length: float) -> None:
        self.steps, self.total, self.count = self.steps + 1, self.total + total, self.count + count
        self.length += length


@dataclass
class Plan:
    """What `Budget` keeps of a run with a time limit. Without one all is zero: the step is all that is needed."""

    last: float = 0.0  # step that the run is to end with; 0 before the plan is made
    position: float = 0.0  # of the next step on the way there
    pace: float = 0.0  # seconds of a step
    timed: int = 0  # steps that were timed
    validation: float = 0.0  # seconds of the last validation


@dataclass
class RunState:
    """With weights and optimizer, this is all that going on exactly needs. Everything in it is plain JSON."""

    step: int = 0
    epoch: int = 0
    index: int = 0  # batches of the epoch that are used up
    seconds: float = 0.0
    busy: float = 0.0  # seconds of training, without validation and saving
    waiting: float = 0.0  # of these, seconds of waiting for data
    items: int = 0  # that the loss was taken of: tokens, labels, ...
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
    waiting: float = 0.0  # share of the time of training
