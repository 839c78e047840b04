"""regard from Python.

import regard

run = regard.train("translate-recurrent", data="pairs.tsv", output="runs/mine")
run = regard.load("runs/mine")
run.predict("we are eating bread").text
run.predict(["one", "two"], beam=1, attention=True)
run.look("we are eating bread").matrix().weights
run.evaluate(test="test.tsv").values["bleu"]
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, overload

import yaml
from rich.console import Console
from torch import nn

from regard import __version__, config, fine_tuning, jobs
from regard.attention import HeadMask
from regard.data.check_table import check_table
from regard.errors import CallError
from regard.files import atomic
from regard.job import Job
from regard.look import AttentionRecord, History
from regard.look.head_names import heads_called
from regard.look.history import has_history, keep, load_history
from regard.look.records import Head
from regard.metrics.alignment import Gold
from regard.outputs.base import LookOptions
from regard.outputs.result import Prediction, Scores
from regard.settings.recipe import Recipe
from regard.training.checkpoint import read_weights
from regard.training.lock import locked
from regard.training.loop import fit
from regard.training.memory import within_memory
from regard.training.parallel import pick_device, processes
from regard.training.report import Section, write_report
from regard.training.run import Result

if TYPE_CHECKING:
    from regard.search import PictureIndex

CONFIG, WEIGHTS, SUMMARY = "config.yaml", "model.safetensors", "summary.json"
DATA = "training data"  # in the identity of a run, the fingerprint of what it is trained on
Overrides = Iterable[str] | Mapping[str, Any]


def train(recipe: str | Path | Recipe, *, data: Any = None, output: str | Path, **sections: Any) -> "Run":
    """Train a recipe, or go on with the run in `output`.

    `data` is the training data, or a mapping with train, valid and test. Other sections are mappings of what to change
    in the recipe: `model={"width": 128}, training={"max_steps": 500}`.
    """
    if not isinstance(recipe, Recipe):
        if data is not None:
            sections["data"] = data if isinstance(data, Mapping) else {"train": str(data)}
        recipe = config.read(recipe, sections)
    elif data is not None or sections:
        raise CallError("give changes with a recipe's name or file, not with a recipe that is read already")
    folder = Path(output)
    with processes(recipe.training.device, recipe.training.shard) as parallel, locked(folder, parallel):
        job = fine_tuning.started(recipe, folder, jobs.make)
        with parallel.main_first():
            if parallel.main and not (folder / "state").exists():
                _check(job, folder)
            job.prepare(folder / "cache")
        model = within_memory(job.build)
        if parallel.main and not (folder / CONFIG).exists():
            _keep(job, folder)
        fine_tuning.initialize(model, recipe, folder, tell=parallel.main)
        identity = config.as_tree(recipe) | {DATA: job.fingerprint()}
        result = fit(
            model, job.batches(), recipe.training, folder,
            evaluate=lambda model: job.bound(model).validate(), sample=lambda model: job.bound(model).sample(),
            watch=_watch(job, folder),
            config=identity, complete=_complete, parallel=parallel,
        )  # fmt: skip
        if parallel.main:
            _keep(job, folder)  # anew: limits may have been raised
            atomic.write_text(folder / SUMMARY, json.dumps(_summary(model, result), ensure_ascii=False, indent=1))
            atomic.write_text(folder / "README.md", _card(job.recipe, folder, _summary(model, result)))
            _report(job, folder)
        with parallel.main_first():
            return load(folder)


def _complete(old: dict[str, Any]) -> dict[str, Any]:
    """The identity of a run that an older version began, with the settings that have been added since."""
    recipe = {name: value for name, value in old.items() if name != DATA}
    try:
        return old | config.as_tree(config.build(recipe))
    except CallError:  # a setting that is no more: it is listed among the differences
        return old


def _watch(job: Job, folder: Path) -> Callable[[nn.Module, int], None] | None:
    """Keeps attention at every validation, for the view of it as training goes on."""
    most = job.recipe.training.looks
    if not most:
        return None

    def watch(model: nn.Module, step: int) -> None:
        for number, record in enumerate(job.bound(model).watch(most)):
            keep(replace(record, model=folder.name), folder, number, step)

    return watch


def _check(job: Job, folder: Path) -> None:
    """Before the first step, say what is wrong with the data, and refuse what cannot be trained on."""
    report = job.check(folder / "cache")
    if report.findings:
        Console(stderr=True).print(check_table(report))
    report.refuse_if_errors()


def _keep(job: Job, folder: Path) -> None:
    """All that prediction needs beside the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    job.save(folder)
    atomic.write_text(folder / CONFIG, yaml.safe_dump(config.as_tree(job.recipe), allow_unicode=True, sort_keys=False))


def _report(job: Job, folder: Path) -> None:
    """The page of the run, drawn with its best weights."""
    model = job.build()
    read_weights(model, folder / WEIGHTS)
    pictures = [Section(*picture) for picture in job.bound(model.eval()).pictures()]
    about, tree = job.recipe.about, config.as_tree(job.recipe)
    write_report(folder, title=about or folder.name, config=tree, sections=pictures)


def _card(recipe: Recipe, folder: Path, summary: dict[str, Any]) -> str:
    """What a stranger who finds the folder wants to know."""
    scores = (summary["best"] or {}).get("scores", {})
    lines = [
        f"# {folder.name}",
        "",
        recipe.about or f"A model for the job `{recipe.job}`.",
        "",
        f"{summary['parameters']:,} parameters; {summary['step']:,} steps in {summary['seconds']:.0f} s, ended by"
        f" `{summary['stopped_by']}`. Validation: {', '.join(f'{k} {v:.4g}' for k, v in scores.items()) or 'none'}.",
        "",
        f'    regard predict {folder} "..."',
        f"    regard evaluate {folder} data.test=FILE",
        "",
        f"Trained by regard {__version__}. The whole recipe is in `{CONFIG}`, the curves are in `report.html`.",
        "Weights are safetensors; nothing in this folder can execute.",
    ]
    return "\n".join(lines) + "\n"


def _summary(model: nn.Module, result: Result) -> dict[str, Any]:
    return {"parameters": sum(p.numel() for p in model.parameters()), **result._asdict()}


def load(folder: str | Path) -> "Run":
    """A trained model from its folder."""
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise CallError(f"{folder} {'has no config.yaml: it is not a run' if folder.exists() else 'is not there'}")
    recipe = config.build(config.load_yaml(folder / CONFIG), str(folder / CONFIG))
    job = jobs.make(recipe)
    job.restore(folder)
    if not (folder / WEIGHTS).is_file():
        raise CallError(f"{folder} has no {WEIGHTS} yet: train it until the first validation at least")
    model = within_memory(job.build)
    read_weights(model, folder / WEIGHTS)
    return Run(folder, recipe, job.bound(model.to(pick_device(recipe.training.device)).eval()))


def check(recipe: str | Path, overrides: Overrides = ()) -> Any:
    """Look the data of a recipe over: what is wrong, where, how often, and what happens to it."""
    settings = config.read(recipe, overrides)
    with TemporaryDirectory(prefix="regard-check-") as cache:
        return jobs.make(settings).check(Path(cache))


@dataclass(frozen=True)
class Run:
    """A trained model and all that belongs to it."""

    folder: Path
    recipe: Recipe
    job: Job

    @property
    def model(self) -> nn.Module:
        return self.job.model

    @overload
    def predict(  # pyright: ignore[reportOverlappingOverload]  (a str is a Sequence[str], too)
        self, inputs: str, overrides: Overrides = ..., **options: Any
    ) -> Prediction: ...
    @overload
    def predict(self, inputs: Sequence[str], overrides: Overrides = ..., **options: Any) -> list[Prediction]: ...
    def predict(
        self,
        inputs: str | Sequence[str],
        overrides: Overrides = (),
        *,
        prefix: str = "",
        attention: bool = False,
        without: Sequence[str] = (),
        **decoding: Any,
    ) -> Prediction | list[Prediction]:
        """One input gives one prediction, a list of them gives a list. `beam=1`, `n_best=3`, ... change how it is
        decoded.

        `without=["cross.2.3"]`: as if head 3 of layer 2 of the attention over the source were not there.
        """
        job = self._with(overrides, {"decoding": decoding})
        single = job.input.is_one(inputs)
        given = [inputs] if single else list(inputs)
        with self._head_mask(job, given, without):
            found = job.predict(given, prefix=prefix, attention=attention)
        return found[0] if single else found

    def stream(
        self,
        text: Any,
        tell: Callable[[str, str], None],
        overrides: Overrides = (),
        *,
        prefix: str = "",
        **decoding: Any,
    ) -> Prediction:
        """`tell(piece, text so far)` while the output of one input is written. It may raise, which ends the work."""
        job = self._with(overrides, {"decoding": decoding})
        if not job.output.writes_text:
            raise CallError(f"the job {self.recipe.job!r} writes nothing that could be streamed")
        return job.stream(text, tell, prefix=prefix)

    def score(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[Prediction]:
        """How probable the model finds given outputs: each comes back with its log-probability as its score."""
        if len(inputs) != len(outputs):
            raise CallError(f"{len(inputs)} inputs and {len(outputs)} outputs: each input needs its output")
        return self.job.score(inputs, outputs)

    def look(
        self,
        text: str,
        overrides: Overrides = (),
        *,
        output: str | None = None,
        method: str = "raw",
        gold: Gold | None = None,
        layer: int | None = None,
        head: Head = "mean",
        prefix: str = "",
        without: Sequence[str] = (),
        **decoding: Any,
    ) -> AttentionRecord:
        """Where the model looks when it writes its output for a text, or `output`, if that is given.

        `method`: one of `regard.look.methods.METHODS`. `layer` and `head` choose the weights that the record's
        evidence is about. `n_best=3` brings the other hypotheses as `record.beams`. `prefix` is what the output has to
        begin with. `without=["cross.2.3"]`: as if head 3 of layer 2 of the attention over the source were not there.
        """
        job = self._with(overrides, {"decoding": decoding})
        if prefix and output is not None:
            raise CallError("give the whole output or a prefix of it, not both")
        if prefix and not job.output.takes_prefix:
            raise CallError(f"the job {self.recipe.job!r} cannot be made to begin with a prefix: leave it out")
        options = LookOptions(output, method, gold, layer, head, self.folder.name, prefix)
        with self._head_mask(job, [text], without):
            record = job.look(text, options)
        return replace(record, without=tuple(without))

    def _head_mask(self, job: Job, inputs: Sequence[Any], without: Sequence[str]) -> AbstractContextManager[Any]:
        """A first look, at all heads, says which modules the names stand for."""
        if not without:
            return nullcontext()
        if not inputs:
            return nullcontext()
        return HeadMask(heads_called(without, self.model, job.look(inputs[0])))

    def history_of_looks(self, number: int = 0) -> History:
        """Attention on validation input `number`, at every validation of the training (`training.looks`)."""
        return load_history(self.folder, number)

    def has_history_of_looks(self) -> bool:
        return has_history(self.folder)

    def evaluate(self, overrides: Overrides = (), *, alignments: bool | str | Path = False, **data: Any) -> Scores:
        """Scores on the test data of the recipe, or on `test=...`.

        `alignments`: alignment error of every layer and head, against the corpus's own gold or that of a file.
        """
        if not isinstance(alignments, bool):
            data["alignments"] = str(alignments)
        return self._with(overrides, {"data": data}).evaluate(alignments=bool(alignments))

    def index(self, folder: str | Path) -> "PictureIndex":
        """The pictures of a folder, to search through: `run.index("photos/").search("two dogs", k=5)`."""
        from regard.search import make_index

        return make_index(self, folder)

    def summary(self) -> dict[str, Any]:
        """What training left behind: parameters, steps, seconds, the record of every validation."""
        file = self.folder / SUMMARY
        if not file.is_file():
            raise CallError(f"{self.folder} is not trained to its end: the same `regard train` goes on with it")
        return {"run": str(self.folder), **json.loads(file.read_text(encoding="utf-8"))}

    def _with(self, overrides: Overrides, sections: Mapping[str, Any]) -> Job:
        """The same job under a recipe with changes."""
        tree = config.override(config.as_tree(self.recipe), overrides)
        tree = config.override(tree, {key: value for key, value in sections.items() if value})
        return self.job.with_recipe(config.build(tree, str(self.folder)))
