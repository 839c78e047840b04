"""Train a recipe in a folder: check and prepare the data, build and fit the model, write the report page."""

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from torch import nn

from regard import config, fine_tuning, jobs
from regard.api import CONFIG, SUMMARY, WEIGHTS
from regard.auto.write import note_time_limit
from regard.data.check_table import check_table
from regard.errors import CallError, RegardError
from regard.files import atomic
from regard.job import Job
from regard.look.asking import evaluating
from regard.look.history import keep
from regard.model_card import model_card
from regard.next_commands import advice
from regard.report.run import write_report
from regard.report.run_files import CHECK, MACHINE, PICTURES
from regard.settings.recipe import Recipe
from regard.training.checkpoint import read_weights
from regard.training.lock import locked
from regard.training.loop import fit
from regard.training.machine import machine
from regard.training.memory import within_memory
from regard.training.parallel import processes
from regard.training.run_state import Result
from regard.work import Deadline

SHORTEST = 0.1  # least share of the time for training, however long preparing the data took
VALIDATING = 0.2  # largest share of the time until a deadline for validation
PICTURE_SECONDS = 2.0  # assumed time to draw the pictures, before it was measured
PICTURE_SHARE = 0.05  # largest share of the time between two drawings
TEST_SECONDS, LEAST_TEST_SECONDS = 60.0, 2.0  # reserved for test data: without a time limit, and the minimum
TEST_SHARE = 0.05  # of the time limit
NO_TEST = "no test score: {count:,} examples are not divided for testing (data.test_share=0); give data.test=FILE"
DATA = "training data"  # key of the data's fingerprint in the identity of a run


def page_of(folder: Path) -> AbstractContextManager[None]:
    """Serve a page of the run during training; print its address."""
    from regard.serve.watching import watched

    return watched(folder, lambda line: print(f"regard: {line}", file=sys.stderr))


def train(recipe: Recipe, folder: Path, *, check: bool = True, deadline: Deadline | None = None) -> None:
    """Train from the beginning or the folder's last checkpoint, in one process or in those of torchrun.

    `check`: report data problems before the first step. `deadline`: when everything must be done; a new run trains
    until then, whatever the recipe says. A resumed run keeps its first limit.
    """
    with processes(recipe.training.device, recipe.training.shard) as parallel, locked(folder, parallel):
        job = fine_tuning.started(recipe, folder, jobs.make)
        with parallel.main_first():
            if check and parallel.main and not (folder / "state").exists():
                _check(job, folder)
            job.prepare(folder / "cache")
        if deadline is not None and not (folder / "state").exists():
            recipe = _limited(recipe, folder, max(parallel.share(deadline.left()), SHORTEST * deadline.seconds))
            job = job.with_recipe(recipe)
        model = within_memory(job.build)
        if parallel.main and not (folder / CONFIG).exists():
            _keep(job, folder)
        if parallel.main:
            about = machine(parallel.device, parallel.world)
            atomic.write_text(folder / MACHINE, json.dumps(about, ensure_ascii=False))
        fine_tuning.initialize(model, recipe, folder, tell=parallel.main)
        identity = config.as_tree(recipe) | {DATA: job.fingerprint()}
        result = fit(
            model, job.batches(), recipe.training, folder,
            evaluate=lambda model: job.bound(model).validate(), sample=lambda model: job.bound(model).sample(),
            watch=_watch(job, folder),
            config=identity, complete=_complete, parallel=parallel, unit=job.output.unit,
            validating=1.0 if deadline is None or parallel.world > 1 else VALIDATING,
        )  # fmt: skip
        if parallel.main:
            _keep(job, folder)  # again: limits may have been raised
            best = _best(job, folder).to(parallel.device)
            summary = _summary(job, model, result) | {"test": _test(job.bound(best), folder, result, deadline)}
            atomic.write_text(folder / SUMMARY, json.dumps(summary, ensure_ascii=False, indent=1))
            atomic.write_text(folder / "README.md", model_card(job, folder, summary))
            _report(job.bound(best), folder)
        parallel.wait_for_main()


def _limited(recipe: Recipe, folder: Path, seconds: float) -> Recipe:
    """Return the recipe with this time limit, which is also written to its file."""
    limit = round(seconds, 1)
    note_time_limit(folder, limit)
    return recipe.model_copy(update={"training": recipe.training.model_copy(update={"time_limit": limit})})


def _complete(old: dict[str, Any]) -> dict[str, Any]:
    """Return the identity of a run of an older version, completed with settings that are newer."""
    recipe = {name: value for name, value in old.items() if name != DATA}
    try:
        return old | config.as_tree(config.build(recipe))
    except CallError:  # a removed setting: it is listed among the differences
        return old


def _watch(job: Job, folder: Path) -> Callable[[nn.Module, int], None]:
    """Return a callback that records attention at every validation, for the training replay, and draws the report's
    pictures as often as that takes a small share of the time."""
    most, last, took = job.recipe.training.looks, time.monotonic(), PICTURE_SECONDS

    def watch(model: nn.Module, step: int) -> None:
        nonlocal last, took
        for number, record in enumerate(job.bound(model).watch(most) if most else ()):
            keep(replace(record, model=folder.name), folder, number, step)
        began = time.monotonic()
        if took <= PICTURE_SHARE * (began - last):
            with evaluating(model):
                _keep_pictures(job.bound(model), folder)
            last = time.monotonic()
            took = last - began

    return watch


def _keep_pictures(job: Job, folder: Path) -> None:
    pictures = [picture._asdict() for picture in job.pictures()]
    atomic.write_text(folder / PICTURES, json.dumps({"pictures": pictures}, ensure_ascii=False))


def _check(job: Job, folder: Path) -> None:
    """Report problems of the data before the first step, and raise if it cannot be trained on."""
    report = job.check(folder / "cache", estimates=False)
    atomic.write_text(folder / CHECK, json.dumps(report.as_dict(), ensure_ascii=False, default=str))
    if report.findings:
        Console(stderr=True).print(check_table(report))
    report.refuse_if_errors()


def _keep(job: Job, folder: Path) -> None:
    """Write everything that prediction needs besides the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    job.save(folder)
    atomic.write_text(folder / CONFIG, yaml.safe_dump(config.as_tree(job.recipe), allow_unicode=True, sort_keys=False))


def _best(job: Job, folder: Path) -> nn.Module:
    """Return the model with its best weights."""
    model = job.build()
    read_weights(model, folder / WEIGHTS)
    return model.eval()


def _report(job: Job, folder: Path) -> None:
    """Write the page of the run, with pictures of the best weights."""
    _keep_pictures(job, folder)
    write_report(folder, title=job.recipe.about or folder.name)


def _test(job: Job, folder: Path, result: Result, deadline: Deadline | None) -> dict[str, Any] | None:
    """Return the score of the best weights on test data, or why there is none; computed once per run."""
    training = job.recipe.training
    if not training.score_test:
        return None
    file = folder / SUMMARY
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if before.get("step") == result.step and before.get("test"):
        return before["test"]
    if not job.input.has_test_part:
        return {"words": NO_TEST.format(count=len(job.splits["train"]) + len(job.splits["valid"]))}
    if not result.best:
        return {"words": "no test score: training ended before the first validation"}
    share = TEST_SECONDS if training.time_limit is None else max(TEST_SHARE * training.time_limit, LEAST_TEST_SECONDS)
    share = share if deadline is None else deadline.scoring
    print("regard: scoring the test data", file=sys.stderr)
    try:
        found = job.final_score(share)
    except RegardError as problem:  # no test split, or the file cannot be read
        return {"words": f"no test score: {problem}"}
    if found is None:
        return None
    return {**found.as_dict(), "words": found.words() + advice(job, found.verdict, result.stopped_by)}


def _summary(job: Job, model: nn.Module, result: Result) -> dict[str, Any]:
    parameters = sum(weights.numel() for weights in model.parameters())
    seen = {"example": job.example_word(), "attends": bool(job.bound(model).watch(1))}
    examples = {"training_examples": len(job.splits["train"]), "validation_examples": len(job.splits["valid"])}
    return {"parameters": parameters, **result._asdict(), **examples, **seen}
