"""What other numbers than float32 cost: scores of the test part, by the run and by its export."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.api import Run
from regard.errors import RegardError
from regard.exporters.base import Plan
from regard.exporters.searched import certain_job

MOST = 500  # examples, where they can be counted
SAID = 3  # scores that are told in a line; the card has all


@dataclass(frozen=True)
class Quality:
    """Scores by name, as `regard evaluate` has them."""

    examples: int
    run: dict[str, float]
    export: dict[str, float]

    def sentence(self, dtype: str) -> str:
        told = ", ".join(
            f"{name} {_short(self.run[name])} → {_short(self.export[name])}" for name in [*self.run][:SAID]
        )
        return f"on {self.examples} examples of the test part, float32 → {dtype}: {told}"

    def table(self, dtype: str) -> list[str]:
        """For the card."""
        rows = [f"| {name} | {_short(one)} | {_short(self.export[name])} |" for name, one in self.run.items()]
        head = f"Scores of {self.examples} examples of the test part (`regard evaluate` has the whole of it):"
        return [head, "", f"| score | float32 (the run) | {dtype} (this export) |", "|---|---|---|", *rows]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _short(number: float) -> str:
    return f"{number:.4g}"


def measure(run: Run, plan: Plan, folder: Path) -> Quality | str:
    """Return the scores, or a sentence on why there are none."""
    output = certain_job(run, own=plan.searches).output
    if not output.has_test_data:
        return "the run has no test data (data.test=FILE)"
    try:
        examples, _ = output.test()
        some = examples[:MOST] if isinstance(examples, Sequence) else examples
        own, other = output.test_scores(run.model, some, False).values, plan.test_scores(folder, output, some)
    except (RegardError, OSError) as problem:
        return f"the test data cannot be read ({problem})"
    if other is None:
        return "its runtime cannot be asked for scores: `regard evaluate` has those of the run"
    told = [name for name in own if name in other]  # where it looked is not seen from outside
    return Quality(len(some), {name: own[name] for name in told}, {name: other[name] for name in told})
