"""Train a recipe in a folder: check and prepare the data, build and fit the model, write the report page."""

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml
from rich.console import Console
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from regard import config
from regard.data.check_table import check_table
from regard.data.tokenizer import Tokenizer
from regard.detect.begin import note_time_limit
from regard.errors import CallError, RegardError, no_run
from regard.files import atomic
from regard.job import Job, make_job
from regard.look.case import evaluating
from regard.look.history import keep
from regard.report.model_card import advice, model_card
from regard.report.run import write_report
from regard.report.run_files import CHECK, MACHINE, PICTURES
from regard.settings.recipe import CONFIG, SUMMARY, WEIGHTS, Recipe
from regard.training.checkpoint import Result, read_weights, refuse_what_is_no_number
from regard.training.initial_weights import Vocabulary, adapt, freeze, start_from
from regard.training.lock import lock_folder
from regard.training.loop import fit
from regard.training.machine import machine
from regard.training.parallel import processes, within_memory
from regard.work import Deadline

# Training that starts from another run: load its tokenizers and weights, and freeze or adapt them.
#
#     start: runs/base          all weights with equal names and shapes; rows by token, where vocabularies differ
#     training.freeze: [...]    keep these weights unchanged
#     training.lora: {...}      keep all loaded weights unchanged and train low-rank adapters; new weights are trained
#     too
#
# A resumed run takes nothing from the start again: its own folder has its tokenizers and weights.

RECORD = "start.json"  # record of the loaded weights, in the run's folder


def start_job(recipe: Recipe, folder: Path, make: Callable[[Recipe], Job]) -> Job:
    """Return the job with the tokenizers of the start, or of its own folder if it resumes."""
    if recipe.training.lora is not None and recipe.start is None:
        raise CallError("training.lora adapts a trained model: name it with start=RUN")
    if recipe.start is None:
        return make(recipe)
    origin = folder if _can_resume(folder) else Path(recipe.start.run)
    kept = _recipe_of(origin)
    if kept.job != recipe.job or (recipe.start.vocabulary == "new" and origin != folder):
        return make(recipe)
    before = make(kept)
    before.restore(origin)
    return before.with_recipe(recipe)


def initialize(model: nn.Module, recipe: Recipe, folder: Path, *, verbose: bool) -> None:
    """Load weights of the start into a new model, then freeze or adapt. `folder` has the model's tokenizers."""
    training, console, new = recipe.training, Console(stderr=True), []
    if recipe.start is not None:
        if _can_resume(folder):
            new = json.loads((folder / RECORD).read_text(encoding="utf-8"))["new"]
        else:
            origin = Path(recipe.start.run)
            taken = start_from(model, _weights_of(origin), _vocabularies(origin, folder))
            new = [*taken.new, *taken.rows]
            if verbose:
                console.print("\n".join(taken.sentences(str(origin))), highlight=False, markup=False)
                _write(folder / RECORD, {"run": str(origin), "whole": taken.whole, "rows": taken.rows, "new": new})
    if training.lora is not None:
        torch.manual_seed(training.seed)
        maps = adapt(model, training.lora.rank, training.lora.alpha, training.lora.targets, learning=new)
        if verbose:
            console.print(f"adapters of rank {training.lora.rank} for {len(maps)} linear maps", highlight=False)
    frozen = freeze(model, training.freeze)
    if verbose and (frozen or training.lora is not None):
        learning = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
        every = sum(weight.numel() for weight in model.parameters())
        console.print(f"{learning:,} of {every:,} numbers are trained ({learning / every:.1%})", highlight=False)


def _can_resume(folder: Path) -> bool:
    return (folder / RECORD).is_file() and any((folder / "state").glob("step-*"))


def _recipe_of(run: Path) -> Recipe:
    file = run / "config.yaml"
    if not file.is_file():
        raise CallError(f"start={run}: {no_run(run)}")
    return config.build(config.load_yaml(file), str(file))


def _weights_of(run: Path) -> dict[str, torch.Tensor]:
    file = run / "model.safetensors"
    try:
        weights = load_file(file)
    except (OSError, SafetensorError) as error:
        raise RegardError(f"start={run}: its weights cannot be read: {error}") from None
    refuse_what_is_no_number(weights, file)
    return weights


def _vocabularies(old: Path, new: Path) -> list[tuple[Vocabulary, Vocabulary]]:
    """Return the old and new vocabulary of each tokenizer that both folders have."""
    names = sorted(file.name for file in new.glob("tokenizer*.json") if (old / file.name).is_file())
    return [(_vocabulary(old / name), _vocabulary(new / name)) for name in names]


def _vocabulary(file: Path) -> Vocabulary:
    tokenizer = Tokenizer.load(file)
    return {piece: index for index, piece in enumerate(tokenizer.pieces(range(tokenizer.size)))}


def _write(file: Path, tree: dict) -> None:
    atomic.write_text(file, json.dumps(tree, ensure_ascii=False, indent=1))


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
    from regard.report.watching import serve_progress

    return serve_progress(folder, lambda line: print(f"regard: {line}", file=sys.stderr))


def train(recipe: Recipe, folder: Path, *, check: bool = True, deadline: Deadline | None = None) -> None:
    """Train from the beginning or the folder's last checkpoint, in one process or in those of torchrun.

    `check`: report data problems before the first step. `deadline`: when everything must be done; a new run trains
    until then, whatever the recipe says. A resumed run keeps its first limit.
    """
    with processes(recipe.training.device, recipe.training.shard) as parallel, lock_folder(folder, parallel):
        job = start_job(recipe, folder, make_job)
        with parallel.main_first():
            if check and parallel.main and not (folder / "state").exists():
                _check(job, folder)
            job.prepare(folder / "cache")
        if deadline is not None and not (folder / "state").exists():
            recipe = _with_time_limit(recipe, folder, max(parallel.share(deadline.left()), SHORTEST * deadline.seconds))
            job = job.with_recipe(recipe)
        model = within_memory(job.build)
        if parallel.main and not (folder / CONFIG).exists():
            _keep(job, folder)
        if parallel.main:
            about = machine(parallel.device, parallel.world)
            atomic.write_text(folder / MACHINE, json.dumps(about, ensure_ascii=False))
        initialize(model, recipe, folder, verbose=parallel.main)
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


def _with_time_limit(recipe: Recipe, folder: Path, seconds: float) -> Recipe:
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
