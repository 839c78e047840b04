"""The final score: of the final weights on test data, with n, a 95% interval and simple baselines.

    answers of the model      ─┐
    answers of each baseline  ─┴→ tally (of the output)    → score, interval, difference on the same examples

One function scores the model and the baselines on the same examples. An output defines `measure`, `answers`,
`baselines` and `tally`; the rest is here.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from regard.metrics.intervals import Interval, bootstrap, middle, wilson
from regard.outputs.baselines import within
from regard.outputs.result import Measure, Tally, readable

MOST = 2000  # test examples scored at the end of training
FEW = 20  # fewer test examples give no verdict
TRIED = 16  # one in this many examples is answered first, to estimate the time for all


@dataclass(frozen=True)
class FinalScore:
    """Final score over `count` of `all` test examples. `verdict`, against the best baseline: better, unclear (the
    difference may be chance), worse, few (too few examples to judge), or alone (no baseline).
    """

    metric: str
    value: float
    low: float
    high: float
    count: int
    all: int
    percent: bool
    higher_is_better: bool
    baselines: Mapping[str, float]
    verdict: str
    overlong: str = ""  # how many exceed the model's limit, and how they are treated

    @property
    def best(self) -> str:
        """Return the name of the best baseline; empty if there is none."""
        choose = max if self.higher_is_better else min
        return choose(self.baselines, key=self.baselines.__getitem__, default="")

    @property
    def not_beaten(self) -> list[str]:
        """Return the names of the baselines that are at least as good as the model."""
        sign = 1 if self.higher_is_better else -1
        return [name for name, value in self.baselines.items() if sign * self.value <= sign * value]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def words(self) -> str:
        """Return the score in one line."""
        of = f"n = {self.count:,}" if self.count == self.all else f"n = {self.count:,} of {self.all:,}"
        name = self.metric.replace("_", " ")
        long = f"; {self.overlong}" if self.overlong else ""
        between = f"{self._shown(self.low)} to {self._shown(self.high)}"
        said = f"test {name} {self._shown(self.value)} (95% interval {between}, {of})"
        listed = ", ".join(f"{one} {self._shown(value)}" for one, value in self.baselines.items())
        verdicts = {
            "few": f": {_examples(self.count)} {'is' if self.count == 1 else 'are'} too few to judge",
            "better": f": the model is better than its best simple baseline, {self.best}",
            "unclear": f": the model is not clearly better than {self.best}; the difference may be chance",
            "worse": f": the model is not better than {' and '.join(self.not_beaten)}",
        }
        return said + (f"; baselines: {listed}" if listed else "") + verdicts.get(self.verdict, "") + long

    def _shown(self, value: float) -> str:
        return f"{value:.1f}%" if self.percent else readable(value)


def _examples(count: int) -> str:
    return f"{count:,} example{'' if count == 1 else 's'}"


def final_score(output: Any, model: nn.Module, train: Any, *, seconds: float) -> FinalScore | None:
    """Score a model and its baselines on the test data; None if the output has no such score.

    `train` is the training split, for the baselines. `seconds` is the approximate time limit of the model's predictions
    and of each baseline's training. If time is short, evenly spread test examples are scored.
    """
    measure: Measure | None = output.measure()
    if measure is None:
        return None
    examples, _ = output.test()
    some = _affordable(output, model, output.spread(examples, MOST), seconds)
    answers = output.answers(model, some)
    tally: Tally = output.tally(answers, some)
    with within(seconds):
        learned: Mapping[str, Any] = output.baselines(train, some)
    others: dict[str, Tally] = {name: output.tally(said, some) for name, said in learned.items()}
    found = compared(measure, tally, others, len(some), len(examples))
    return replace(found, overlong=output.overlong(some))


def _affordable(output: Any, model: nn.Module, examples: Any, seconds: float) -> Any:
    """Return the examples that the model can answer in time; all if they are not a list (a table of windows)."""
    if not isinstance(examples, Sequence) or len(examples) <= FEW:
        return examples
    some = output.spread(examples, max(FEW, len(examples) // TRIED))
    begin = time.perf_counter()
    output.answers(model, some)
    a_second = len(some) / max(1e-6, time.perf_counter() - begin)
    return output.spread(examples, max(FEW, int(a_second * seconds)))


def compared(measure: Measure, model: Tally, baselines: Mapping[str, Tally], count: int, all: int) -> FinalScore:
    """Compare the model's score with the baselines' scores, from each example's contribution."""
    sign = 1 if measure.higher_is_better else -1
    values = {name: one.value(one.table) for name, one in baselines.items()}
    best = max(values, key=lambda name: sign * values[name]) if values else None
    tables = [model.table] if best is None else [model.table, baselines[best].table]
    draws = bootstrap(tables, model.value)
    interval = middle(draws[:, 0])
    if measure.of_hits:
        share = wilson(float(model.table[:, 0].sum()), len(model.table))
        interval = Interval(100 * share.low, 100 * share.high)
    value = model.value(model.table)
    verdict = "alone"
    if count < FEW:
        verdict = "few"
    elif best is not None:
        ahead = sign * (value - values[best])
        sure = float(np.quantile(sign * (draws[:, 0] - draws[:, 1]), 0.025)) > 0
        verdict = "worse" if ahead <= 0 else "better" if sure else "unclear"
    return FinalScore(
        measure.name, value, *interval, count, all, measure.percent, measure.higher_is_better, values, verdict
    )
