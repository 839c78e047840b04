"""Plan a recipe from the detected data: a value and a reason for every setting that matters.

The model size depends on the machine. A few steps of each size are timed. The largest size is used that can make as
many passes over the data as it needs in the available time. Steps and preparation are measured on a sample of large
data. If preparing all of it takes too large a share of the time, a part of it is used.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from regard import config, jobs
from regard.catalog import load_object
from regard.data.files import places
from regard.data.formats import flat_record
from regard.detect.detected import Detected
from regard.detect.measure import SLACK, SPENT, Measured, Measurements
from regard.detect.part import cut
from regard.errors import CallError
from regard.pretrained.families import read
from regard.pretrained.sources import PACKAGE, find
from regard.pretrained.weights import write_run
from regard.settings.recipe import Decision, Decisions, Sample, Size, plain_time
from regard.work import Deadline

MOST_PASSES = 6.0  # factor on the passes that a size needs: more passes overfit small data
VALIDATIONS = 16
AVERAGED = 50  # one in so many of all steps has its weights averaged
FEWEST = 16  # examples of a batch
STEPS = 40  # of a pass over little data
QUICK = 1000  # steps in the available time; with fewer, smaller batches learn more
UPDATES = 2000  # below this, more passes never hurt
BAD = 0.05  # in small data, one broken file is soon 1%
PREPARING = 0.3  # of the remaining time may go into preparing data
SAMPLE = 50  # examples of a sample per available second
SMALLEST, LARGEST = 2000, 20_000  # examples of a sample
VALIDATING = 0.02  # of the time for training that a pass over the validation data may take
FORWARD = 0.4  # share of a training step that the same batch takes without gradients
FEWEST_VALID = 100  # examples
LOOKED_AT = 2000  # examples that decide
_BATCH = "training.max_tokens"
RATES = {"small": 3e-3, "middle": 2e-3, "large": 1e-3}


@dataclass(frozen=True)
class RecipePlan:
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
    report: Callable[[str], None] = lambda message: None,
    deadline: Deadline | None = None,
    requested: bool = True,
    folder: Path | None = None,
) -> RecipePlan:
    """Decide on a recipe. The user's settings, `overrides`, take precedence over all decisions here.

    `deadline`: when all must be done, by default `seconds` from now. `requested`: whether the user gave the limit.
    `folder`: the run's, for a part of the data and prepared data; without one, all data is used. `start`: the folder
    for an installed pretrained model; without one, none is tried.
    """
    deadline = deadline or Deadline(seconds)
    with TemporaryDirectory(prefix="regard-") as temporary:
        work = _MeasuredWork(found, seconds, job, overrides, report, deadline, Path(temporary), folder)
        draft = work.draft(found)
        reason = ""
        share = 1.0 if folder is None else work.share(draft)
        if folder is not None and share < 1 and (part := cut(found, share, folder / "data-part")) is not None:
            reason = work.use(draft, part)
            draft = work.draft(part)
        tried = _ready(draft.sizes, start, report)
        size, measured = work.largest(draft, tried)
        if len(tried) > 1 and tried[-1] not in draft.sizes and size is not tried[-1]:  # the pretrained one is too slow
            size, measured = work.largest(draft, _ready(draft.sizes, None, report))
        training = work.training(measured)
    settled = flat_record(config.override({}, overrides))
    keys = {one.key for one in draft.decisions}
    decisions = [*draft.decisions, *of_size(size, keys, measured, training, settled)]
    tree = config.override({"job": draft.job, **_tree(decisions)}, overrides)
    data = config.build(tree, origin="the recipe for this data").data
    decisions += _fewer_held_out(data, draft.found.count, measured, training, deadline.scoring)
    limit = f"of the {plain_time(seconds)} {'as requested' if requested else 'by default (--time-limit)'}"
    why = f"{limit}; the rest is for preparing data, scores and the report"
    decisions.append(Decision("training.time_limit", max(0.1, round(training, 1)), why))
    tree = {"job": draft.job, "about": _about(found), **_tree(decisions)}
    tree = config.override(tree, overrides)
    recipe = config.build(tree, origin="the recipe for this data")  # raises on invalid overrides
    tree = _validate_types(tree, config.as_tree(recipe))
    reasons = {decision.key: decision.why for decision in decisions}
    reasons |= {"data.train": reason} if reason else {}
    reasons |= dict.fromkeys(settled, "set by the user")
    end = min(training, measured.seconds(recipe.training.max_epochs or math.inf) / SPENT)
    if end < 0.9 * training and recipe.training.max_steps is None:
        report(f"training ends after about {plain_time(round(end))} by max_epochs={recipe.training.max_epochs}")
    return RecipePlan(draft.job, tree, reasons)


@dataclass(frozen=True)
class Draft:
    """A recipe without the settings of its model, and the sizes to choose from."""

    job: str
    found: Detected
    decisions: list[Decision]
    sizes: list[Size]
    base: dict[str, Any]
    measured: Measured  # the smallest size


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
    """Score existing test data at the end; without any, hold out some of the training data."""
    scored = Decision("training.score_test", True, "the final score is on data that was not used for any choice")
    if "test_share" not in type(data).model_fields or "test" in places(data):
        return [scored]
    share = data.testing.share(count)
    why = f"about {count * share:,.0f} of {count:,} for the score at the end; 0 trains on all"
    return [Decision("data.test_share", share, why if share else f"{count:,} are too few to test on some"), scored]


def _fewer_held_out(data: Any, examples: int, measured: Measured, training: float, scoring: float) -> list[Decision]:
    """Reduce validation and test parts that take too long to evaluate. Validation may use a share of the time for
    training, testing `scoring` seconds."""
    whole, least = FORWARD * measured.seconds(1), FEWEST_VALID / max(1, examples)
    valid, test = (round(max(least, seconds / whole), 6) for seconds in (VALIDATING * training, scoring))
    if isinstance(parts := getattr(data, "split", None), list):
        _, *now = parts
        valid, test = min(valid, now[0]), min(test, now[1])
        if sum(parts) > 1 + 1e-9 or [valid, test] == now:
            return []
        split = [round(1 - valid - test, 6), valid, test]
        return [Decision("data.split", split, "larger validation and test parts would take too much of the time")]
    why = "about {0:,.0f} of {1:,}: more would take too much of the time"
    changed = {"valid_share": valid, "test_share": test}
    return [
        Decision(f"data.{key}", share, why.format(share * examples, examples))
        for key, share in changed.items()
        if share < getattr(data, key, 0.0)
    ]


def _validate_types(tree: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Return the same keys with values parsed by their fields: on a command line, all are texts."""
    return {
        key: _validate_types(value, whole[key])
        if isinstance(value, dict) and isinstance(whole.get(key), dict)
        else whole[key]
        for key, value in tree.items()
    }


class _MeasuredWork:
    """Decisions about data, and about how much of it is used. `folder`: of the run."""

    def __init__(
        self, found: Detected, seconds: float, job: str | None, overrides: Iterable[str] | Mapping[str, Any],
        report: Callable[[str], None], deadline: Deadline, temporary: Path, folder: Path | None,
    ) -> None:  # fmt: skip
        self.seconds, self.job, self.overrides, self.tell = seconds, job, overrides, report
        self.deadline, self.kept = deadline, folder is not None
        _job_of(found, job)
        self.planned = {id(found): self._decide(found)}
        most = self.planned[id(found)].sample or min(LARGEST, max(SMALLEST, SAMPLE * seconds))
        self.measurements = Measurements(found, most, temporary, (folder or temporary) / "cache")

    def _decide(self, found: Detected) -> Decisions:
        told = flat_record(config.override({}, self.overrides))
        inputs, targets = found.inputs, found.targets
        if len(inputs) == len(targets) or not targets:
            step = max(1, len(inputs) // LOOKED_AT)
            inputs, targets = inputs[::step], targets[::step]
        several = told.get("data.separator", found.data.get("separator")) is not None
        sample = Sample(found.count, inputs, targets, self.seconds, told, several)
        return load_object(jobs.FROM_DATA[found.kinds][1])(found.kinds, sample)

    # ----------------------------------------------------------------------------------------------------- decisions
    def draft(self, found: Detected) -> Draft:
        """Make all decisions that do not depend on the speed of a model."""
        made, planned = _job_of(found, self.job), self.planned.get(id(found)) or self._decide(found)
        decisions = [*(Decision(f"data.{key}", value, "found in the data") for key, value in found.data.items())]
        decisions += planned.decisions
        decisions.append(
            Decision("data.max_bad", BAD, "unreadable examples are reported and left out, up to this share")
        )
        if "training.schedule" not in {decision.key for decision in decisions}:
            decisions.append(Decision("training.schedule", "cosine", "falls to zero when the time is used up"))
        base = {"job": made, **_tree([*decisions, Decision("training.time_limit", self.seconds, "")])}
        first = config.build(_with(base, planned.sizes[0], self.overrides), origin="the recipe for this data")
        decisions += (testing := _testing(first.data, found.count))
        base = config.override(base, _tree(testing))
        sizes = [size for size in planned.sizes if size.least <= found.count] or planned.sizes[:1]
        usual = base if "max_tokens" in base["training"] else config.override(base, {_BATCH: planned.usual})
        measured = self.measurements.measure(_with(usual, planned.sizes[0], self.overrides), found)
        if usual is not base:
            batch = self._batch(base["data"].get("max_length", 1), found.count, planned, measured)
            decisions, base = [*decisions, batch], config.override(base, {_BATCH: batch.value})
        return Draft(made, found, decisions, sizes, base, measured)

    def _batch(self, longest: int, examples: int, planned: Decisions, measured: Measured) -> Decision:
        """Decide the tokens of a batch: fewer than usual if a pass over the data would be only a few steps, or if even
        the smallest model would make few steps in the time."""
        tokens, training = measured.steps * planned.usual, self.training(measured)
        fewest = max(2 * longest, planned.batch, FEWEST * tokens // max(1, examples))  # input and target
        by_data, by_time = tokens // STEPS, round(planned.usual * measured.passes(training) * measured.steps / QUICK)
        chosen = min(planned.usual, max(fewest, min(by_data, by_time)))
        why = f"small batches, so that a pass over {examples:,} examples makes some steps"
        if by_time < min(by_data, planned.usual):
            why = f"small batches, so that {plain_time(self.seconds)} are enough for some steps"
        return Decision(_BATCH, chosen, why if chosen < planned.usual else "usual")

    def largest(self, draft: Draft, sizes: list[Size]) -> tuple[Size, Measured]:
        """Return the largest size that makes its passes; the smallest, if none does."""
        taken: tuple[Size, Measured] | None = None
        for size in sizes:
            measured = self.measurements.measure(_with(draft.base, size, self.overrides), draft.found)
            training = self.training(measured)
            passes = measured.passes(training)
            self.tell(
                f"{size.name}: {measured.step:.3f} s a step, {passes:.1f} passes in {plain_time(round(training))}"
            )
            if taken is not None and passes < size.passes:
                break
            taken = size, measured
            if size is not sizes[-1] and passes < sizes[sizes.index(size) + 1].passes:  # that one is slower still
                break
        assert taken is not None, "a job has at least one size"
        return taken

    # ----------------------------------------------------------------------------------------------------- the time
    def training(self, measured: Measured) -> float:
        """Return the seconds for training: the remaining time without preparing the data and the final steps."""
        ready = self.measurements.whole and self.kept
        return max(self.deadline.left() - (0.0 if ready else measured.preparing), self.seconds / 10)

    def share(self, draft: Draft) -> float:
        """Return how much of the data is used: all, if it can be prepared in time. Otherwise as much as training can
        see once, and no more than can be prepared."""
        left, measured = max(self.deadline.left(), self.seconds / 10), draft.measured
        if self.measurements.whole or measured.preparing <= PREPARING * left:
            return 1.0
        once, each = SLACK * measured.once, SLACK * measured.each
        seen = (SPENT * left - once) / (each + measured.seconds(1))  # prepared and seen once
        least = self.measurements.sample.count / draft.found.count
        return min(1.0, max(least, min((PREPARING * left - once) / each, seen)))

    def use(self, whole: Draft, part: Detected) -> str:
        """Continue with a part. Return its share of all data, and the limit that would use all."""
        self.measurements.use(part)
        noun, preparing = _noun(whole.found), whole.measured.preparing
        needed = preparing / PREPARING + self.seconds - self.deadline.left()
        limit = f"--time-limit {math.ceil(1.1 * needed / 60)}m"
        used = f"{part.count:,} of {whole.found.count:,} {noun}, chosen from all of {whole.found.data['train']}"
        self.tell(
            f"{used}: preparing all of them would take about {plain_time(round(preparing))} of the "
            f"{plain_time(self.seconds)}. To use all: {limit}"
        )
        return f"{used}; {limit} would use all"


def _noun(found: Detected) -> str:
    return "bytes" if found.kinds[0] == "nothing" else "examples"


def _ready(sizes: list[Size], start: Path | None, report: Callable[[str], None]) -> list[Size]:
    """Return the sizes to try: the smallest and a pretrained one, if it and a folder exist; else all others."""
    own = [size for size in sizes if not str(size.settings.get("path", "")).startswith(PACKAGE)]
    tuned = [size for size in sizes if size not in own]
    if start is None or not tuned:
        return own
    source = str(tuned[0].settings["path"])
    if not start.is_dir():
        report(f"{tuned[0].name} is installed ({source.removeprefix(PACKAGE)}): its weights are tried as a start")
        write_run(read(find(source)), start, source=source)
    return [own[0], tuned[0]._replace(settings={**tuned[0].settings, "path": str(start)})]


def _with(base: dict[str, Any], size: Size, overrides: Any) -> dict[str, Any]:
    own = {f"training.{key}": value for key, value in size.training.items()} | {"training.max_epochs": 1}
    return config.override(config.override(base, {"model": size.settings} | own), overrides)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' if count != 1 else ''}"


def _warmup(steps: int) -> Decision:
    """Decide the warmup: a twentieth of the steps, but 10 to 400; of very few steps, half of them."""
    share = steps // 20
    if steps < 20:
        return Decision("training.warmup", max(1, steps // 2), f"half of about {_counted(steps, 'step')}")
    why = "a twentieth of the steps" if 10 <= share <= 400 else "10 at the least" if share < 10 else "400 at the most"
    return Decision("training.warmup", max(10, min(400, share)), why)


def of_size(
    size: Size, keys: set[str], measured: Measured, seconds: float, settled: Mapping[str, Any]
) -> list[Decision]:
    """Decide on the settings of a model of this size, and on those that depend on the number of steps.

    `settled`: settings that the user gave.
    """
    own = settled.get("training.max_epochs") or size.training.get("max_epochs")
    most = int(own) if own is not None else max(1, round(MOST_PASSES * size.passes), UPDATES // measured.steps)
    steps = round(min(measured.passes(seconds), most) * measured.steps)
    steps = max(1, min(steps, int(settled.get("training.max_steps") or steps)))
    why = (
        f"the largest of those tried that makes {size.passes:g} passes in time: {measured.step:.3f} seconds a step on "
        f"this machine with {torch.get_num_threads()} threads"
    )
    decisions = [Decision(f"model.{key}", value, why) for key, value in size.settings.items()]
    decisions.append(Decision("training.max_epochs", most, f"more would overfit; about {steps:,} steps are expected"))
    decisions.append(_warmup(steps))
    if (window := steps // AVERAGED) > 1:
        why = f"the last {window} steps or so: steadier than the weights of any one step"
        decisions.append(Decision("training.average", round(min(0.999, 1 - 1 / window), 3), why))
    every = max(10, steps // VALIDATIONS)
    validations = _counted(max(1, steps // every), "validation")
    decisions.append(Decision("training.validate_every", every, f"about {validations}"))
    decisions += [Decision(f"training.{key}", value, f"usual for {size.name}") for key, value in size.training.items()]
    if "training.learning_rate" not in keys and "learning_rate" not in size.training:
        decisions.append(
            Decision("training.learning_rate", RATES.get(size.name, 2e-3), "usual for a model of this size")
        )
    return decisions
