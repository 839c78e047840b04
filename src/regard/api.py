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
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, overload

from torch import nn

from regard import config
from regard.attention import HeadMask
from regard.data.examples import Example
from regard.errors import CallError, no_run
from regard.files.hub import reading
from regard.job import Job, make_job
from regard.layers import packed, quantized
from regard.layers.quantized import PRECISIONS, Precision
from regard.light.session import is_export
from regard.look import AttentionRecord, History
from regard.look.axis import exchange_words
from regard.look.explain import ExplainOptions, supported_explanations, supported_methods
from regard.look.history import has_history, load_histories, load_history
from regard.look.methods import By
from regard.look.profile import heads_called, role_history
from regard.look.records import Kind
from regard.look.value_table import ValueTable
from regard.look.weight import Weight
from regard.settings.recipe import CONFIG, SUMMARY, WEIGHTS, Recipe
from regard.tasks.result import LookOptions, Looks, Overrides, Prediction, Scores, refuse_both, require_pairs
from regard.training.checkpoint import read_weights
from regard.training.initial_weights import SkipInit
from regard.training.parallel import pick_device, within_memory
from regard.work import Answers, Deadline, Take, Workers

if TYPE_CHECKING:
    from regard.runs.search import PictureIndex


def train(
    recipe: Any = None,
    *,
    data: Any = None,
    output: str | Path,
    check: bool = True,
    watch: bool = False,
    max_steps: int | None = None,
    time_limit: str | float | None = None,
    overwrite: bool = False,
    deadline: Deadline | None = None,
    **sections: Any,
) -> "Run":
    """Train a recipe, or resume the run in `output`. Raise if that run has other data or another recipe.

    `overwrite=True` starts again. `check=False` skips the check of the data. `watch=True` serves a page of the run.

    Instead of a recipe (name, file, or one already read), you can give data: files or a folder, a DataFrame,
    columns by name, pairs `[(source, target), ...]`, or `(inputs, labels)`. A recipe is then made for the data and
    written to `output`; see docs/own-data.md. The whole call then takes at most `time_limit` (default: 10 minutes).
    To override detected settings, pass a mapping without train: `data={"horizon": 7}`.

    `data` is the training data, or a mapping with train, valid and test. Other sections are mappings of changes to
    the recipe: `model={"width": 128}, training={"learning_rate": 1e-3}`. `max_steps` and `time_limit` set `training`.
    """
    from regard.runs.request import resolve_request, run_begun  # reads tables; prediction does not need it

    with run_begun(Path(output), overwrite=overwrite, needs=(recipe, data)):
        recipe, deadline = resolve_request(recipe, data, Path(output), max_steps, time_limit, sections, deadline)
        from regard.runs import train as training_run  # the training loop; prediction does not need it

        with training_run.page_of(Path(output)) if watch and os.environ.get("RANK", "0") == "0" else nullcontext():
            training_run.train(recipe, Path(output), check=check, deadline=deadline)
    return load(output)


def load(folder: str | Path, *, quantize: Precision | None = None) -> "Run":
    """Load a trained model from its folder. `quantize`: keep weights as "int8" or "bf16", for speed and memory."""
    if quantize not in (None, *PRECISIONS):
        raise CallError(f"quantize={quantize!r} must be one of {', '.join(PRECISIONS)}, or None")
    folder = Path(folder)
    if is_export(folder):
        raise CallError(f"{folder} is an export, which supports only predict, look and serve; use the run itself")
    if not (folder / CONFIG).is_file():
        raise CallError(no_run(folder))
    recipe = config.build(config.load_yaml(folder / CONFIG), str(folder / CONFIG))
    job = make_job(recipe)
    with reading(folder):
        job.restore(folder)
    if not (folder / WEIGHTS).is_file():
        raise CallError(f"{folder} has no {WEIGHTS} yet: train it at least until the first validation")
    device = pick_device(recipe.training.device)
    with SkipInit():
        model = within_memory(job.build)
    if device.type == "cpu":
        packed.reserve(model)
    read_weights(model, folder / WEIGHTS)
    model = model.to(device).eval()
    if quantize is not None:
        quantized.quantize(model, quantize)
    return Run(folder, recipe, job.bound(model))


def check(recipe: Any, overrides: Overrides = ()) -> Any:
    """Check data, or the data of a recipe: what is wrong, where, how often, and how training handles it."""
    from regard.runs.request import read_recipe

    with TemporaryDirectory(prefix="regard-check-") as folder:
        settings = read_recipe(recipe, overrides, Path(folder))
        return make_job(settings).check(Path(folder) / "cache")


def _are_overrides(given: Any) -> bool:
    """Return whether these are settings, not data: `["data.max_length=9"]` or `{"data.max_length": 9}`, or nested."""
    if isinstance(given, Mapping):
        return all(isinstance(key, str) and ("." in key or isinstance(value, dict)) for key, value in given.items())
    return isinstance(given, list | tuple) and all(isinstance(one, str) and "=" in one for one in given)


@dataclass(frozen=True)
class Run(Looks):
    """A trained model with its recipe and its folder."""

    folder: Path
    recipe: Recipe
    job: Job

    @property
    def model(self) -> nn.Module:
        return self.job.model

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def methods(self) -> list[str]:
        return supported_methods(self.model)

    @property
    def explanations(self) -> list[str]:
        output = self.job.output
        return supported_explanations(self.model, output.reader(self.model), writes_text=output.writes_text)

    @property
    def weight_files(self) -> list[Path]:
        return [self.folder / WEIGHTS]

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
        workers: int | None = 1,
        **decoding: Any,
    ) -> Prediction | list[Prediction]:
        """Return one prediction for one input, a list for a list, one per row for a DataFrame with the training
        columns. Options such as `beam=1` and `n_best=3` change the decoding.

        `without=["cross.2.3"]` masks head 3 of layer 2 of the cross-attention. `workers=2` divides inputs among two
        processes (None: choose automatically).
        """
        job = self._with(overrides, {"decoding": decoding})
        inputs = self._rows(inputs)
        single = job.input.is_one(inputs)
        given = [inputs] if single else list(inputs)
        work = partial(job.predict, prefix=prefix, attention=attention)
        with self._head_mask(job, given, without), Workers(work, job.count_workers(workers, len(given))) as shared:
            found = shared(given)
        return found[0] if single else found

    def predict_arriving(
        self, take: Take, *, parse: Callable[[Any], Any] = lambda one: one, prefix: str = "", **decoding: Any
    ) -> Answers:
        """Yield `(arrived, prediction)` when an input is done. `take()` returns new inputs (`regard.work`).

        It is called again between two steps: new inputs join those in progress. Invalid inputs yield an exception."""
        return self._with((), {"decoding": decoding}).predict_arriving(take, parse, prefix=prefix)

    def count_workers(self, workers: int | None, inputs: int | None, overrides: Overrides = ()) -> int:
        """Return the number of worker processes; see `Job.count_workers`."""
        return self._with(overrides, {}).count_workers(workers, inputs)

    def stream(
        self,
        text: Any,
        on_text: Callable[[str, str], None],
        overrides: Overrides = (),
        *,
        prefix: str = "",
        **decoding: Any,
    ) -> Prediction:
        """Predict one input; call `tell(piece, text so far)` during decoding. An exception in `on_text` stops the
        work."""
        job = self._with(overrides, {"decoding": decoding})
        if not job.output.writes_text:
            raise CallError(f"the job {self.recipe.job!r} has no output that can be streamed")
        return job.stream(text, on_text, prefix=prefix)

    def score(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[Prediction]:
        """Return the log-probabilities of given outputs; see the two numbers of `outputs.result.Candidate`."""
        require_pairs(len(inputs), len(outputs))
        return self.job.score(inputs, outputs)

    def _make_record(
        self, text: Any, overrides: Overrides, options: LookOptions, without: Sequence[str], decoding: Mapping[str, Any]
    ) -> AttentionRecord:
        job = self._with(overrides, {"decoding": decoding})
        with self._head_mask(job, [text], without):
            record = job.look(text, options)
        return replace(record, without=tuple(without))

    def explain(
        self,
        text: str,
        how: str,
        overrides: Overrides = (),
        *,
        output: Any = None,
        prefix: str = "",
        against_input: str | None = None,
        exchange: str | None = None,
        without: Sequence[str] = (),
        row: int | None = None,
        instead: str | None = None,
        kind: Kind | None = None,
        by: By | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> ValueTable:
        """Explain an output. `how` is "lens", "logits", "patching", "inputs" or "scores".

        lens      the next token that each layer would predict
        logits    contribution of each layer to the logit of each token; with `row`, of each head to one token
        patching  share of the output that each head (`by="positions"`: each vector; "states": each recurrent state)
                  restores when its activation is copied from this input into `against_input`, or into this input with
                  a word exchanged (`exchange="red=blue"`)
        inputs    contribution of each part of the input to each step of the output; `by`: "integrated-gradients",
                  "attnlrp" or "input-gradient"
        scores    parts of the attention scores of one query (`row`) in a `layer` and `head`; `by`: "keys" or "queries"

        `instead="dog"` contrasts the output with another word, for logits, patching and inputs.
        """
        job = self._with(overrides, {})
        refuse_both(prefix, output)
        if exchange is not None and against_input is not None:
            raise CallError("give a second input (against_input=) or a word to exchange (exchange=), not both")
        options = LookOptions(output, name=self.folder.name, prefix=prefix, instead=instead)
        with self._head_mask(job, [text], without):
            against = against_input if exchange is None else exchange_words(text, exchange)
            return job.explain(text, how, options, ExplainOptions(row, kind, by, layer, head), against)

    def weight(
        self,
        text: str,
        row: int,
        column: int,
        overrides: Overrides = (),
        *,
        kind: Kind | None = None,
        layer: int | None = None,
        head: int | None = None,
        output: Any = None,
        prefix: str = "",
        without: Sequence[str] = (),
        tokens: bool = False,
    ) -> Weight:
        """Explain one weight that `look` shows: its score by the model's formula, the softmax, and what it contributes.

        `row` and `column` are the cell of the table, from 0, token by token. Without `layer` or `head`, use those in
        which the cell has the largest weight. `.parts` decomposes query and key; `tokens=True` also computes the
        contribution of each part of the input to the score (`.tokens`).
        """
        job = self._with(overrides, {})
        refuse_both(prefix, output)
        options = LookOptions(output, name=self.folder.name, prefix=prefix)
        with self._head_mask(job, [text], without):
            return job.weight(text, options, row, column, kind=kind, layer=layer, head=head, tokens=tokens)

    def head_profile(self, most: int = 16) -> ValueTable:
        """Describe what each head attends to and what masking it costs, over up to `most` validation inputs."""
        if most < 1:
            raise CallError(f"most={most}: a profile needs at least one validation input")
        return self.job.head_profile(self.examples(most))

    def examples(self, most: int = 6) -> list[Example]:
        """Return some validation examples of the run's recipe, always the same."""
        data = make_job(self.recipe)  # a separate job, so that this one keeps its tokenizers
        data.prepare(self.folder / "cache")
        return data.output.sample_examples(data.splits["valid"], most)

    def role_history(self) -> ValueTable:
        """Return when each head took its role, over the validation inputs recorded in training (`training.looks`)."""
        return role_history(load_histories(self.folder))

    def _head_mask(self, job: Job, inputs: Sequence[Any], without: Sequence[str]) -> AbstractContextManager[Any]:
        """Mask the named heads; a first look with all heads finds their modules."""
        if not without or not inputs:
            return nullcontext()
        return HeadMask(heads_called(without, self.model, job.look(inputs[0])))

    def history_of_looks(self, number: int = 0) -> History:
        """Return attention on validation input `number` at every validation of the run (`training.looks`)."""
        return load_history(self.folder, number)

    def has_history_of_looks(self) -> bool:
        return has_history(self.folder)

    def evaluate(self, overrides: Any = (), *, alignments: bool | str | Path = False, **data: Any) -> Scores:
        """Return scores on the test data of the recipe or on `test=...` (file, DataFrame, `(inputs, labels)`).

        It may also be the first argument. `alignments` adds the alignment error of every layer and head, with the
        data's gold links or those of a file.
        """
        if not isinstance(alignments, bool):
            data["alignments"] = str(alignments)
        if not _are_overrides(overrides):
            overrides, data = (), {"test": overrides, **data}
        from regard.detect.given import report, test_part
        from regard.detect.reshaped import usual_test_part

        with TemporaryDirectory(prefix="regard-") as folder:
            if not isinstance(data.get("test"), str | None):
                data |= test_part(data["test"], self.recipe.data, Path(folder), report)
            job = self._with(overrides, {"data": data})
            if copy := usual_test_part(job.recipe.data, self.folder, Path(folder), report):
                job = self._with(overrides, {"data": {**data, "test": copy}})
            if not job.output.has_test_data:
                raise job.input.no_test_data()
            return job.evaluate(alignments=bool(alignments))

    def _rows(self, inputs: Any) -> Any:
        """Split a table into one input per row, unless the job reads whole tables; return other inputs unchanged."""
        if isinstance(inputs, str | Sequence | Mapping) or not hasattr(self.recipe.data, "columns"):
            return inputs
        from regard.detect.given import frame_columns, rows_of

        table = None if hasattr(inputs, "to_frame") else frame_columns(inputs)  # a series of pandas holds inputs
        return inputs if table is None else rows_of(table, self.recipe.data)

    def index(self, folder: str | Path) -> "PictureIndex":
        """Index the pictures of a folder for search: `run.index("photos/").search("two dogs", k=5)`."""
        from regard.runs.search import make_index

        return make_index(self, folder)

    def summary(self) -> dict[str, Any]:
        """Return the summary of training: parameters, steps, seconds and the scores of every validation."""
        file = self.folder / SUMMARY
        if not file.is_file():
            raise CallError(f"{self.folder}: training has not finished; run the same `regard train` again to resume")
        return {"run": str(self.folder), **json.loads(file.read_text(encoding="utf-8"))}

    def best_scores(self) -> dict[str, float]:
        """Return the scores of the best validation, the selection metric first; empty if there was no validation."""
        file = self.folder / SUMMARY
        best = json.loads(file.read_text(encoding="utf-8")).get("best") if file.is_file() else None
        scores = {} if best is None else {name: float(value) for name, value in best["scores"].items()}
        chosen_by = self.recipe.training.metric
        return {name: scores[name] for name in sorted(scores, key=lambda name: name != chosen_by)}

    def closing_words(self) -> str:
        """Return how training ended, and the commands to run next."""
        from regard.report.model_card import closing_words

        return closing_words(self.job, self.folder, self.summary())

    def _with(self, overrides: Overrides, sections: Mapping[str, Any]) -> Job:
        """Return the same job under a changed recipe."""
        return self.job.with_recipe(config.apply_overrides(self.recipe, overrides, sections, str(self.folder)))
