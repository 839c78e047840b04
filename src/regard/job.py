"""A job: an input, an output and a model between them, with all code that is independent of their types.

    files → examples → batches → INPUT: encoder → Memory → OUTPUT: decoder or head → loss | decode → scores → look

It is made from a recipe for training, or from a run's folder for prediction. `jobs.py` maps jobs to inputs and outputs.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.catalog import load_object
from regard.data.check_report import CheckReport
from regard.data.examples import Example
from regard.data.pairs import excerpt
from regard.data.tables import Role
from regard.errors import CallError, RegardError
from regard.inputs.base import Input
from regard.jobs import JOBS
from regard.look import AttentionRecord
from regard.look.attribution import attentions, method_shown, with_evidence
from regard.look.case import ExplainTarget, evaluating, step_scores
from regard.look.explain import ExplainOptions, explain, require_contrast
from regard.look.methods import ABOUT_OUTPUT
from regard.look.methods.positional import positional_heads
from regard.look.profile import head_profile
from regard.look.svg import picture_of
from regard.look.value_table import ValueTable
from regard.look.weight import Weight, weight
from regard.settings.recipe import Decision, Recipe
from regard.tasks.base import Output, OutputRef
from regard.tasks.batched import device_of
from regard.tasks.contradictions import contradictions
from regard.tasks.final_score import FinalScore, final_score
from regard.tasks.result import LookOptions, Prediction, ReportPicture, Scores, refuse
from regard.work import Answers, Take, fitting

PICTURES = 6  # attention pictures in the report
SHOWN = 2  # examples of each split in the check


class Job:
    def __init__(self, recipe: Recipe, input: Input, output: Output[Any, Any, Any]) -> None:
        self.recipe, self.input, self.output = recipe, input, output
        self._model: nn.Module | None = None
        self._splits: dict[Role, Any] | None = None

    def bound(self, model: nn.Module) -> "Job":
        """Return the same job with this model."""
        job = copy(self)
        job._model = model
        return job

    def with_recipe(self, recipe: Recipe) -> "Job":
        """Return the same job and data under a changed recipe, such as other test data or decoding."""
        job = copy(self)
        job.recipe, job.input = recipe, self.input.with_recipe(recipe)
        job.output = self.output.with_recipe(recipe, job.input)
        return job

    @property
    def model(self) -> nn.Module:
        if self._model is None:
            raise RuntimeError("this job has no model yet: call build() and bound()")
        return self._model

    @property
    def splits(self) -> dict[Role, Any]:
        if self._splits is None:
            raise RuntimeError("this job has no data yet: call prepare()")
        return self._splits

    # ------------------------------------------------------------------------------------------------------- training
    def prepare(self, cache: Path) -> None:
        """Build what depends on the data (tokenizers), and store the data in the form that batches are made from."""
        self._splits = self.output.prepare(cache)

    def auto_settings(self) -> list[Decision]:
        """Return the settings that the data decides, where a recipe has `auto`."""
        return [*self.input.auto_settings(), *self.output.auto_settings()]

    def check(self, cache: Path, *, estimates: bool = True) -> CheckReport:
        """Return the problems of the data and, if there are none, the estimated cost of the model on it."""
        splits = self.output.prepare(cache, strict=False)
        report = self.output.check(splits)
        found = [*report.findings, *contradictions(self.output, splits, report)]
        report = replace(report, findings=found, tables={**report.tables, **self._as_read(splits)})
        if not estimates or not len(splits["train"]):
            return report
        return replace(report, estimates={**self.output.estimates(splits), **report.estimates})

    def _as_read(self, splits: dict[Role, Any]) -> dict[str, list[dict[str, str]]]:
        """Return two examples of each split, to make a wrong column visible."""
        some = [
            (role, one)
            for role, split in splits.items()
            if len(split)
            for one in self.output.sample_examples(split, SHOWN)
        ]
        rows = [
            {"split": role, "input": excerpt(self.input.name(one.input)), "target": excerpt(" | ".join(one.texts))}
            for role, one in some
            if one.texts or isinstance(one.input, str)
        ]
        return {"as it is read": rows}

    def build(self) -> nn.Module:
        """Return the untrained model; `forward(batch)` returns its loss."""
        torch.manual_seed(self.recipe.training.seed)
        return self.output.build()

    def batches(self) -> Any:
        """Return the training data, for `training.fit`."""
        training = self.recipe.training
        return self.output.batches(self.splits["train"], training.max_tokens, seed=training.seed)

    def fingerprint(self) -> str:
        """Return a hash of the training data: a run does not resume with other data under the old name."""
        return self.splits["train"].digest()

    def validate(self) -> dict[str, float]:
        """Return the loss on all validation data, and quick scores on a part of it."""
        return self.output.validate(self.model, self.splits["valid"])

    def sample(self) -> str:
        """Return a validation example with the model's current prediction."""
        with evaluating(self.model):
            return self.output.sample(self.model, self.output.sample_examples(self.splits["valid"], 1)[0])

    def example_word(self) -> str | None:
        """Return a validation input as a command-line argument, or else a data file that can be predicted from."""
        data, word = self.recipe.data, self.input.word(self.output.sample_examples(self.splits["valid"], 1)[0].input)
        files = [] if self.input.kinds == ("text",) else [data.test, data.valid, data.train]
        return next((one for one in (word, *files) if one is not None and self._understood(one)), None)

    def _understood(self, word: str) -> bool:
        try:
            return all(self.input.length(self.input.read(one)) for one in self.input.parse([word])[:1])
        except (RegardError, OSError):
            return False

    def watch(self, most: int) -> list[AttentionRecord]:
        """Return attention on a few fixed validation inputs, with the target as forced output.

        Uses no random numbers: watching a run does not change it. The result is empty for models without attention.
        """
        records = []
        for example in self.output.sample_examples(self.splits["valid"], most):
            with suppress(CallError):
                options = LookOptions(output=self.output.reference(example))
                record = replace(self.look(example.input, options), gold=self.output.gold(example))
                records.append(replace(record, positional=self._positional(example.input, options, record)))
        return records

    def _positional(self, one: Any, options: LookOptions, record: AttentionRecord) -> dict[str, float]:
        with evaluating(self.model):
            told = self.output.tell(self.model, one, options)[0]
            return positional_heads(self.output.case(self.model, one, told), record.attentions)

    def pictures(self) -> list[ReportPicture]:
        """Return the pictures that the report of a run shows next to its curves."""
        found = self.output.pictures(self.model, self.splits["valid"])
        for example in self.output.sample_examples(self.splits["valid"], PICTURES):
            with suppress(CallError):
                record = self.look(example.input)
                found.append(picture_of(record, " | ".join(example.texts)))
        return found

    # ----------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        """Save what prediction needs besides the weights."""
        self.input.save(folder)
        self.output.save(folder)

    def restore(self, folder: Path) -> None:
        """Load what `save` wrote."""
        self.input.restore(folder)
        self.output.restore(folder)

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        refuse(self.recipe.job, self.output, prefix=prefix, attention=attention)
        options = {name: value for name, value in (("prefix", prefix), ("attention", attention)) if value}
        with evaluating(self.model):
            return self.output.predict(self.model, inputs, **options)

    def predict_arriving(self, take: Take, parse: Callable[[Any], Any], *, prefix: str = "") -> Answers:
        """Predict inputs that arrive during the work; `given(one)` converts each into an input of `predict`."""
        refuse(self.recipe.job, self.output, prefix=prefix)
        with evaluating(self.model):
            yield from self.output.predict_arriving(self.model, take, parse, prefix=prefix)

    def stream(self, one: Any, on_text: Callable[[str, str], None], *, prefix: str = "") -> Prediction:
        """Predict one input; call `tell(piece, text so far)` during decoding. An exception in `on_text` stops the
        work."""
        with evaluating(self.model):
            return self.output.stream(self.model, one, on_text, prefix=prefix)

    def count_workers(self, workers: int | None, inputs: int | None) -> int:
        """Return the number of worker processes; `asked=None` means choose automatically, `inputs=None` unknown."""
        if workers is not None and workers < 1:
            raise CallError(f"workers={workers} must be at least 1")
        if self.output.is_sampling and workers is not None and workers > 1:
            raise CallError(
                f"workers={workers}: sampling depends on all inputs together. Give workers=1, or decode "
                "without sampling (decoding.temperature=0, or decoding.sample=false)"
            )
        alone = self.output.is_sampling or device_of(self.model).type != "cpu"
        return workers or (1 if alone else fitting(inputs))

    def score(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Prediction]:
        with evaluating(self.model):
            return self.output.score(self.model, inputs, outputs)

    def evaluate(self, *, alignments: bool = False) -> Scores:
        if alignments and not self.output.takes_alignments:
            what = f"the job {self.recipe.job!r} has no attention to compare with gold alignments"
            raise CallError(f"{what}: remove alignments")
        with evaluating(self.model):
            return self.output.evaluate(self.model, alignments=alignments)

    def final_score(self, seconds: float) -> FinalScore | None:
        """Return the final score of the run on test data, with baselines that learn from the training data."""
        with evaluating(self.model):
            return final_score(self.output, self.model, self.splits["train"], seconds=seconds)

    # --------------------------------------------------------------------------------------------------------- looking
    def look(self, one: Any, options: LookOptions = LookOptions()) -> AttentionRecord:  # noqa: B008 (frozen)
        """Return the attention record of the predicted or given output. Other hypotheses are in `record.beams`."""
        refuse(self.recipe.job, self.output, prefix=options.prefix, gold=options.gold)
        with evaluating(self.model):
            best, *others = self._told(one, options)
            record = self._record(one, best, options)
            beams = tuple(self._record(one, other, replace(options, gold=None)) for other in others)
            if options.evidence:
                case = self.output.case(self.model, one, best)
                scores = record.scores if best.instead is None else step_scores(case)
                record = with_evidence(record, case, scores, options.layer, options.head)
        record.matrix(None, options.layer, options.head)  # raises if the layer or head does not exist
        return replace(record, beams=beams)

    def explain(
        self, one: Any, how: str, options: LookOptions, choice: ExplainOptions, against: Any = None
    ) -> ValueTable:
        """Explain the predicted or given output; `against` is the second input of patching."""
        options = replace(options, method=ABOUT_OUTPUT[0])
        with evaluating(self.model):
            told = self._told(one, options)[0]
            if against is None:
                case = self._case(one, told, options)
                if case.rows not in case.axes:
                    raise CallError("this model compares its input with another: give it with output= or --target")
                return explain(how, case, None, choice)
            case, other = (
                self._case(each, replace(self.output.rescore(self.model, told, each), instead=told.instead), options)
                for each in (one, against)
            )
            return explain(how, case, other, choice)

    def weight(self, one: Any, options: LookOptions, row: int, column: int, **which: Any) -> Weight:
        """Explain one weight of `look`; `which`: kind, layer and head."""
        refuse(self.recipe.job, self.output, prefix=options.prefix)
        with evaluating(self.model):
            told = self.output.tell(self.model, one, options)[0]
            return weight(self.output.case(self.model, one, told), row, column, **which)

    def head_profile(self, examples: Sequence[Example]) -> ValueTable:
        """Describe what each head attends to when the target is the forced output."""
        with evaluating(self.model):
            cases = []
            for example in examples:
                with suppress(CallError):  # a label that is not in the training data
                    options = LookOptions(output=self.output.reference(example))
                    told = self.output.tell(self.model, example.input, options)[0]
                    cases.append(self.output.case(self.model, example.input, told))
            return head_profile(cases)

    def _told(self, one: Any, options: LookOptions) -> list[OutputRef]:
        found = self.output.tell(self.model, one, options)
        if options.instead is None:
            return found
        return [replace(told, instead=self.output.choice(options.instead)) for told in found]

    def _case(self, one: Any, ref: OutputRef, options: LookOptions) -> ExplainTarget:
        return replace(self.output.case(self.model, one, ref), instead=options.instead)

    def _record(self, one: Any, ref: OutputRef, options: LookOptions) -> AttentionRecord:
        if ref.instead is not None:
            require_contrast(options.method)
        case = self.output.case(self.model, one, ref)
        found = attentions(case, options.method)
        method = method_shown(case, options.method, found)
        method = method if options.instead is None else f"{method}, and not {options.instead!r}"
        alone = case if ref.instead is None else self.output.case(self.model, one, replace(ref, instead=None))
        record = AttentionRecord(
            found, case.axes, method=method, model=options.name, input=self.input.name(one), output=ref.text,
            score=ref.score, scores=step_scores(alone), gold=options.gold,
            next_tokens=self.output.next_tokens(self.model, one, ref), said=ref.said,
            evidence=tuple(figure for one in found for figure in one.figures),
            forced=options.output is not None,
        )  # fmt: skip
        return self.output.finalize_record(record, ref)


def make_job(recipe: Recipe) -> Job:
    """Return the job of a recipe: its input, and its output over that."""
    row = JOBS[recipe.job]
    where = row.input[recipe.data.kind] if isinstance(row.input, Mapping) else row.input
    input = load_object(where)(recipe) if isinstance(where, str) else _joint(recipe, *where)
    return Job(recipe, input, load_object(row.output)(recipe, input))


def _joint(recipe: Recipe, first: str, second: str) -> Input:
    from regard.inputs.joint import JointInput

    return JointInput(recipe, load_object(first)(recipe), load_object(second)(recipe))
