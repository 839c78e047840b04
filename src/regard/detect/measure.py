"""Measure the speed of a model on this machine, and the time to prepare data: a few steps on a sample of large data, or
on all of data that is not large, which is then ready for training."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

from regard import config
from regard.detect.detected import Detected
from regard.detect.part import cut
from regard.errors import RegardError
from regard.job import make_job
from regard.training.parallel import processes
from regard.training.update import Update
from regard.work import is_busy, processor_seconds, showing_progress, with_progress

WARM, TIMED = 2, 5  # steps
LONGEST = 1.5  # seconds after which no more steps are timed
SLOW = 1e-5  # a rate at which the weights hardly change
LARGER = 4  # times as many examples, where a sample cannot be used
FIRST = 0.25  # of a sample is prepared separately, to distinguish the cost per example from the fixed cost
SPENT = 0.85  # of the time for training goes into steps; the rest into validation and writing
SLACK = 1.4  # factor on the measured time, for the data check and a busy machine


@dataclass(frozen=True)
class Measured:
    step: float  # seconds
    steps: int  # of a pass
    once: float = 0.0  # seconds of preparing data that do not depend on how much there is; 0 where all is ready
    each: float = 0.0  # ... for all examples

    def seconds(self, passes: float) -> float:
        return self.step * self.steps * passes

    def passes(self, seconds: float) -> float:
        return SPENT * seconds / self.seconds(1)

    @property
    def preparing(self) -> float:
        """Return the seconds until all data is ready."""
        return SLACK * (self.once + self.each)


class Measurements:
    """Measurements on a sample. `most`: examples of a sample; data of up to twice as many is used unchanged. `cache`:
    where data that is ready for training is kept."""

    def __init__(self, found: Detected, most: float, temporary: Path, cache: Path) -> None:
        self._temporary, self._cache = temporary, cache
        self._choose(found, most)

    def _choose(self, found: Detected, most: float) -> None:
        """Measure on a sample of about `most` examples; on all data, if it is not much larger or cannot be divided."""
        self.use(found)
        self._most, folder = most, self._temporary / f"sample-{round(most)}"
        if found.count > 2 * most and (sample := cut(found, most / found.count, folder)) is not None:
            self.sample, self.whole = sample, False

    def use(self, part: Detected) -> None:
        """Measure on this part of the data from now on."""
        self.sample, self.whole = part, True
        self._took: tuple[float, float] | None = None  # seconds to prepare the sample: fixed, and for its examples

    def measure(self, tree: dict[str, Any], found: Detected) -> Measured:
        """Measure a recipe on all of `found`: the median of a few steps, and how many make a pass."""
        sampled = tree
        if not self.whole:
            own = {key: value for key, value in self.sample.data.items() if key not in ("valid", "test")}
            others = {key: value for key, value in tree["data"].items() if key not in ("valid", "test", "cache")}
            sampled = {**tree, "data": {**others, **own}}
        job = _job(sampled)
        try:
            self._prepare(job, sampled)
        except RegardError:
            if self.whole:
                raise
            self._choose(found, LARGER * self._most)  # preparing all data could take more than the time limit
            return self.measure(tree, found)
        batches = job.batches()
        with showing_progress("measuring the speed of a model"):
            step = _seconds_of_step(job, batches)
        many, (once, each) = found.count / self.sample.count, self._took or (0.0, 0.0)
        return Measured(step, max(1, round(batches.len_epoch(0) * many)), once, each * many)

    def _prepare(self, job: Any, tree: dict[str, Any]) -> None:
        """Measure how long the sample takes to prepare, at the first call."""
        cache = self._temporary / "cache"
        if self.whole or self._took is not None:
            job.prepare(self._cache if self.whole else cache)
            return
        first, few = cut(self.sample, FIRST, self._temporary / f"first-{round(self._most)}"), 0.0
        if first is not None:
            small = _job({**tree, "data": {**tree["data"], "train": first.data["train"]}})
            with suppress(RegardError):
                few = _seconds_of(lambda: small.prepare(cache))
        took = _seconds_of(lambda: job.prepare(cache))
        each = min(took, max((took - few) / (1 - FIRST), took / 4))
        self._took = took - each, each


def _job(tree: dict[str, Any]) -> Any:
    return make_job(config.build(tree, origin="the recipe for this data"))


def _seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds that work takes; if other programs keep the processor busy, its processor time.

    They may slow down the few seconds of a sample ten times. The estimate for all data would be as much too high."""
    begin, used = time.perf_counter(), processor_seconds()
    work()
    took, used = time.perf_counter() - begin, processor_seconds() - used
    return min(took, used) if is_busy() else took


def _seconds_of_step(job: Any, batches: Any) -> float:
    took: list[float] = []
    training = job.recipe.training
    with processes(training.device) as parallel:
        update = Update(job.build(), training, parallel, lambda: next(batches.epoch(0)))
        begin = time.perf_counter()
        for step, batch in enumerate(with_progress(_again(batches), "measuring steps of a model", 1, WARM + TIMED), 1):
            update(step, [batch], SLOW)
            took.append(time.perf_counter() - begin)
            if step == WARM + TIMED or (step > WARM and sum(took) > LONGEST):
                break
            begin = time.perf_counter()
    return median(took[WARM:])


def _again(batches: Any) -> Iterator[Any]:
    """Repeat the epochs of the batches."""
    for number in count():
        found = [batch for batch in islice(batches.epoch(number), WARM + TIMED) if batch is not None]
        if not found:
            raise RegardError("no training examples: every example was left out; run `regard check` to see why")
        yield from found
