"""From what data holds to a recipe: a value and a reason for every setting that matters.

Which model is taken depends on the machine: of each size a few steps are made, and the largest is taken that can make
as many passes over the data as it needs in the time there is.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from regard import config, jobs
from regard.auto.detected import Detected
from regard.catalog import load_object
from regard.data.files import places
from regard.data.formats import flat_record
from regard.errors import CallError, RegardError
from regard.pretrained.families import read
from regard.pretrained.imported import write_run
from regard.pretrained.sources import PACKAGE, find
from regard.settings.decisions import Decision, Plan, Sample, Size, plain_time
from regard.training.parallel import processes
from regard.training.update import Update

WARM, TIMED = 2, 5  # steps of each size
MOST_PASSES = 6.0  # times as many as a size needs: what is more only wears small data out
VALIDATIONS = 16
AVERAGED = 50  # the share of all steps whose weights are averaged is one in so many
FEWEST = 16  # examples of a batch
STEPS = 40  # of a pass over little data
QUICK = 1000  # steps in the time there is; with fewer, smaller batches learn more
UPDATES = 2000  # below this, more passes never hurt
SLOW = 1e-5  # a rate that hardly changes what is measured
BAD = 0.05  # of small data, a broken file is soon one in a hundred
SPENT = 0.85  # of the time there is goes into steps; the rest into preparing, validating, writing
RATES = {"small": 3e-3, "middle": 2e-3, "large": 1e-3}


@dataclass(frozen=True)
class Planned:
    """A recipe as a tree, and the reasons of its values by their keys."""

    job: str
    tree: dict[str, Any]
    reasons: dict[str, str]


def plan(
    found: Detected,
    seconds: float,
    *,
    job: str | None = None,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    start: Path | None = None,
    tell: Callable[[str], None] = lambda message: None,
) -> Planned:
    """`overrides` are the user's own settings: they stand above all that is decided here. `start`: the folder for a
    pretrained model that is installed; without one, none is tried."""
    made = _job_of(found, job)
    told = flat_record(config.override({}, overrides))
    sample = Sample(found.count, found.inputs, found.targets, seconds, told)
    planned: Plan = load_object(jobs.FROM_DATA[found.kinds][1])(found.kinds, sample)
    decisions = [*(Decision(f"data.{key}", value, "found in the data") for key, value in found.data.items())]
    decisions += planned.decisions
    decisions.append(Decision("data.max_bad", BAD, "what cannot be read is told and left out, up to this share"))
    decisions.append(Decision("training.time_limit", seconds, f"{plain_time(seconds)}, as asked for"))
    keys = {decision.key for decision in decisions}
    if "training.schedule" not in keys:
        decisions.append(Decision("training.schedule", "cosine", "falls to zero when the time is used up"))
    base = {"job": made, **_tree(decisions)}
    first = config.build(_with(base, planned.sizes[0], overrides), origin="the recipe for this data")
    decisions += _testing(first.data, found.count)
    base = {"job": made, **_tree(decisions)}
    if "max_tokens" not in base["training"]:
        decisions.append(_batch(base, planned, found.count, seconds, overrides))
        base = {"job": made, **_tree(decisions)}
    sizes = [size for size in planned.sizes if size.least <= found.count] or planned.sizes[:1]
    tried = _ready(sizes, start, tell)
    size, measured = _largest(base, tried, seconds, overrides, tell)
    if len(tried) > 1 and tried[-1] not in sizes and size is not tried[-1]:  # the pretrained one is too slow
        size, measured = _largest(base, _ready(sizes, None, tell), seconds, overrides, tell)
    decisions += _of_size(size, keys, measured, seconds)
    tree = {"job": made, "about": _about(found), **_tree(decisions)}
    tree = config.override(tree, overrides)
    recipe = config.build(tree, origin="the recipe for this data")  # says what is wrong with overrides
    tree = _typed(tree, config.as_tree(recipe))
    reasons = {decision.key: decision.why for decision in decisions} | dict.fromkeys(told, "as you said")
    return Planned(made, tree, reasons)


def _job_of(found: Detected, wanted: str | None) -> str:
    job, _ = jobs.FROM_DATA[found.kinds]
    if wanted not in (None, job):
        comes_in, said = found.kinds
        raise CallError(
            f"--job {wanted}: this data holds {comes_in} → {said}, which is for the job {job}; to train another, give "
            f"a recipe of it and data.train (`regard recipes` lists them)"
        )
    return job


def _about(found: Detected) -> str:
    comes_in, said = found.kinds
    return f"{comes_in} → {said}, from {Path(str(found.data['train']).split(',')[0]).name}"


def _tree(decisions: Iterable[Decision]) -> dict[str, Any]:
    return config.override({}, {decision.key: decision.value for decision in decisions})


def _testing(data: Any, count: int) -> list[Decision]:
    """The test data that is there is scored at the end; where there is none, some is held out of the training data."""
    scored = Decision("training.score_test", True, "the last score is of data that chose nothing")
    if "test_share" not in type(data).model_fields or "test" in places(data):
        return [scored]
    share = data.testing.share(count)
    why = f"about {count * share:,.0f} of {count:,} for the score at the end; 0 trains on all"
    return [Decision("data.test_share", share, why if share else f"{count:,} are too few to test on some"), scored]


def _batch(base: dict[str, Any], planned: Plan, count: int, seconds: float, overrides: Any) -> Decision:
    """Tokens of a batch: fewer than usual where data is so little that a pass would be a few steps, or time so short
    that even the smallest model would make few."""
    usual = planned.usual
    tree = _with(config.override(base, {"training.max_tokens": usual}), planned.sizes[0], overrides)
    with TemporaryDirectory(prefix="regard-") as cache:
        measured = _measure(tree, Path(cache))
    tokens = measured.steps * usual
    longest = 2 * base["data"].get("max_length", 1)  # of what comes in and of what comes out
    fewest = max(longest, planned.batch, FEWEST * tokens // max(1, count))
    by_data, by_time = tokens // STEPS, round(usual * measured.passes(seconds) * measured.steps / QUICK)
    chosen = min(usual, max(fewest, min(by_data, by_time)))
    why = f"small batches, so that a pass over {count:,} examples makes some steps"
    if by_time < min(by_data, usual):
        why = f"small batches, so that {plain_time(seconds)} are enough for some steps"
    return Decision("training.max_tokens", chosen, why if chosen < usual else "usual")


def _typed(tree: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """The same keys, with the values that their fields made of them: on a command line, all are texts."""
    return {
        key: _typed(value, whole[key]) if isinstance(value, dict) and isinstance(whole.get(key), dict) else whole[key]
        for key, value in tree.items()
    }


@dataclass(frozen=True)
class Measured:
    step: float  # seconds
    steps: int  # of a pass

    def passes(self, seconds: float) -> float:
        return SPENT * seconds / (self.step * self.steps)


def _largest(
    base: dict[str, Any], sizes: list[Size], seconds: float, overrides: Any, tell: Callable[[str], None]
) -> tuple[Size, Measured]:
    """The largest size that makes its passes; the smallest, if none does."""
    taken: tuple[Size, Measured] | None = None
    with TemporaryDirectory(prefix="regard-") as cache:
        for size in sizes:
            measured = _measure(_with(base, size, overrides), Path(cache))
            passes = f"{measured.passes(seconds):.1f} passes in {plain_time(seconds)}"
            tell(f"{size.name}: {measured.step:.3f} s a step, {passes}")
            if taken is not None and measured.passes(seconds) < size.passes:
                break
            taken = size, measured
    assert taken is not None, "a job has at least one size"
    return taken


def _ready(sizes: list[Size], start: Path | None, tell: Callable[[str], None]) -> list[Size]:
    """Those to try: the smallest and a pretrained one, if there is one and a folder for it; else all others."""
    own = [size for size in sizes if not str(size.settings.get("path", "")).startswith(PACKAGE)]
    tuned = [size for size in sizes if size not in own]
    if start is None or not tuned:
        return own
    source = str(tuned[0].settings["path"])
    if not start.is_dir():
        tell(f"{tuned[0].name} is installed ({source.removeprefix(PACKAGE)}): its weights are tried as a start")
        write_run(read(find(source)), start, source=source)
    return [own[0], tuned[0]._replace(settings={**tuned[0].settings, "path": str(start)})]


def _with(base: dict[str, Any], size: Size, overrides: Any) -> dict[str, Any]:
    own = {f"training.{key}": value for key, value in size.training.items()} | {"training.max_epochs": 1}
    return config.override(config.override(base, {"model": size.settings} | own), overrides)


def _measure(tree: dict[str, Any], cache: Path) -> Measured:
    """Seconds of one update, the median of a few, and how many make a pass."""
    recipe = config.build(tree, origin="the recipe for this data")
    job = jobs.make(recipe)
    job.prepare(cache)
    batches = job.batches()
    took: list[float] = []
    with processes(recipe.training.device) as parallel:
        update = Update(job.build(), recipe.training, parallel, lambda: next(batches.epoch(0)))
        begin = time.perf_counter()
        for step, batch in enumerate(_again(batches), 1):
            update(step, [batch], SLOW)
            took.append(time.perf_counter() - begin)
            if step == WARM + TIMED:
                break
            begin = time.perf_counter()
    return Measured(median(took[WARM:]), max(1, batches.len_epoch(0)))


def _again(batches: Any) -> Iterator[Any]:
    """Batches of one epoch after the other."""
    for number in count():
        found = [batch for batch in islice(batches.epoch(number), WARM + TIMED) if batch is not None]
        if not found:
            raise RegardError("there is nothing to train on: every example was left out; `regard check` says why")
        yield from found


def _of_size(size: Size, keys: set[str], measured: Measured, seconds: float) -> list[Decision]:
    most = max(1, round(MOST_PASSES * size.passes), UPDATES // measured.steps)
    steps = round(min(measured.passes(seconds), most) * measured.steps)
    why = (
        f"the largest of those tried that makes {size.passes:g} passes in time: {measured.step:.3f} seconds a step on "
        f"this machine with {torch.get_num_threads()} threads"
    )
    decisions = [Decision(f"model.{key}", value, why) for key, value in size.settings.items()]
    decisions.append(
        Decision("training.max_epochs", most, f"more would wear the data out; about {steps:,} steps are expected")
    )
    decisions.append(Decision("training.warmup", max(10, min(400, steps // 20)), "a twentieth of the steps"))
    if (window := steps // AVERAGED) > 1:
        why = f"the last {window} steps or so: steadier than the weights of any one step"
        decisions.append(Decision("training.average", round(min(0.999, 1 - 1 / window), 3), why))
    every = max(10, steps // VALIDATIONS)
    decisions.append(Decision("training.validate_every", every, f"about {VALIDATIONS} validations"))
    decisions += [Decision(f"training.{key}", value, f"usual for {size.name}") for key, value in size.training.items()]
    if "training.learning_rate" not in keys and "learning_rate" not in size.training:
        decisions.append(
            Decision("training.learning_rate", RATES.get(size.name, 2e-3), "usual for a model of this size")
        )
    return decisions
