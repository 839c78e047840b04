"""Outputs of a model. Each kind is a folder beside this file with a subclass of `Output`, and works with any input.

    Memory → (a decoder or a head) → loss                              training
    Memory → (a decoder or a head) → output → text, scores             prediction

The defaults here serve every output whose targets are ids (tokens of a text, classes). An output with other targets
(spans, numbers, pictures) defines its own examples and batches.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.cost.estimate import count, duration, memory
from regard.cost.hardware import machine_memory, step_cost, weight_bytes
from regard.data.check_report import CheckReport
from regard.data.examples import Example, ExampleBatches, Examples
from regard.data.pairs import excerpt
from regard.data.tables import Role
from regard.errors import CallError
from regard.inputs.base import Input, Vocabulary
from regard.look.axis import Axis
from regard.look.case import ExplainTarget
from regard.look.methods import ABOUT_OUTPUT
from regard.look.records import AttentionRecord, NextToken, OutputView
from regard.metrics.alignment import Gold
from regard.settings.recipe import Decision, Recipe
from regard.tasks.batched import case_of, device_of
from regard.tasks.result import Candidate, LookOptions, Measure, Prediction, ReportPicture, Scores, Tally
from regard.work import Answers, Take, at_once

I = TypeVar("I", bound=Input)  # noqa: E741 (the field writes I)
M = TypeVar("M", bound=nn.Module)
R = TypeVar("R", bound=Recipe)


@dataclass(frozen=True)
class OutputRef:
    """An output to explain: as the model represents it (ids, classes, codes), as text, its ranking score, and what
    else can be shown of it.

    `instead`: what else could have been said in its place, as the model has it; a case then asks for the lead over it.
    """

    target: Any
    text: str
    score: float | None = None
    said: OutputView | None = None
    instead: int | None = None


class ModelPlan(NamedTuple):
    """Size of a recipe's model, from a model on the meta device, before any data is read. It is an upper bound."""

    model: nn.Module
    length: int  # tokens of a typical text
    texts: int  # of that length, for each example of a batch
    note: str  # what was assumed


class Output(ABC, Generic[R, I, M]):
    """The output of one recipe. `input` is the input of the same recipe; call `prepare` (training) or `restore`
    (prediction) first.

    The output keeps what is learned from data (a vocabulary, scales). The model is passed to each method that needs it.
    """

    takes_prefix: ClassVar[bool] = False  # whether the output can start with a forced prefix: predict(prefix=)
    gives_attention: ClassVar[bool] = False  # whether a prediction can include attention: predict(attention=)
    takes_gold: ClassVar[bool] = False  # whether gold links can join its words to those of the input
    takes_alignments: ClassVar[bool] = False  # whether `evaluate` can compare attention with gold alignments
    writes_text: ClassVar[bool] = False  # whether it can be streamed: `stream`
    takes_prompt: ClassVar[bool] = False  # whether the output continues the input, and is shown after it
    takes_instead: ClassVar[bool] = False  # whether the model chooses among words: `choice`
    gives_vectors: ClassVar[bool] = False  # whether the output is a vector
    draws: ClassVar[bool] = False  # whether predictions are pictures, written to files
    draws_alone: ClassVar[bool] = False  # whether a sample depends on the number of its input only, not on other inputs
    takes_files: ClassVar[bool] = False  # whether a given output is a file name
    gives: ClassVar[str] = "text"  # the output, in a word or two
    unit: ClassVar[str] = "tokens"  # what the loss counts
    learns_from_all: ClassVar[bool] = False  # whether `learn` needs every target of the training data

    def __init__(self, recipe: R, input: I) -> None:
        self.recipe, self.input = recipe, input

    @property
    def is_sampling(self) -> bool:
        """Whether outputs are sampled, and so depend on which other inputs there are."""
        return False

    # -------------------------------------------------------------------------------------------------------- targets
    def with_recipe(self, recipe: R, input: I) -> Any:
        """Return a copy under a changed recipe, which keeps what was prepared or restored."""
        changed = copy(self)
        changed.recipe, changed.input = recipe, input
        return changed

    @property
    def key(self) -> Any:
        """Return what the target vocabulary depends on besides the target texts; None if it needs no learning."""
        return None

    def learn(self, texts: Iterable[str]) -> Vocabulary:
        """Learn the vocabulary from the targets of the training data. If it was learned before, return it unchanged."""
        raise CallError("this output learns nothing from texts")

    def load(self, written: str) -> Vocabulary:
        """Load the vocabulary from its `to_json` text."""
        raise CallError("this output learns nothing from texts")

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        """Batch the targets of the loss. A missing target becomes a row that is not counted."""
        raise CallError("this output has batches of its own")

    def save(self, folder: Path) -> None:
        """Save what was learned."""

    def restore(self, folder: Path) -> None:
        """The inverse of `save`."""

    # ------------------------------------------------------------------------------------------------------- training
    def auto_settings(self) -> list[Decision]:
        """Return the settings that a recipe leaves to auto, decided from a few examples."""
        return []

    def prepare(self, cache: Path, *, strict: bool = True) -> dict[Role, Any]:
        """Return the splits, at least train and valid, and set all that depends on the data."""
        return self.input.prepare(cache, self, strict=strict)

    def check(self, splits: dict[Role, Any]) -> CheckReport:
        """Report problems of data that was prepared with `strict=False`."""
        return self.input.check(splits, self.vocabulary)

    @property
    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary of the targets."""
        raise CallError("this output learns nothing from texts")

    def batches(self, split: Any, max_tokens: int, *, seed: int = 0) -> Any:
        return ExampleBatches(split, self.collate, max_tokens, seed=seed, ahead=self.input.ahead)

    @abstractmethod
    def build(self) -> M:
        """Build the untrained model; `forward(batch)` returns its loss."""

    def planned(self) -> ModelPlan | None:
        """Return the model's size for `regard cost`; None if it depends on the data, which `regard check` reads."""
        return None

    def estimates(self, splits: dict[Role, Any]) -> dict[str, str]:
        """Estimate the cost of the model on this data from one training step on this machine. It is the same for
        every job.

        A large model is measured with a smaller batch. A model that does not fit is not built.
        """
        training, train = self.recipe.training, splits["train"]
        with torch.device("meta"):
            plan = self.build()
        trained = sum(weights.numel() for weights in plan.parameters() if weights.requires_grad)
        frozen = sum(weights.numel() for weights in plan.parameters()) - trained
        batches = self.batches(train, training.max_tokens).len_epoch(0)
        found = {
            "parameters": count(trained) + (f", and {count(frozen)} that are frozen" if frozen else ""),
            "memory for training": f"{memory(weight_bytes(plan))} and what a batch takes: more than this machine has",
            "steps in an epoch": f"{-(-batches // training.accumulate):,}",
            "time for an epoch": "not known: the model does not fit into this machine",
        }
        if weight_bytes(plan) > machine_memory():
            return found
        tokens = min(training.max_tokens, LONGEST, max(1, MEASURED // max(1, trained)))
        some = self.batches(train, tokens)
        with torch.random.fork_rng([]):
            cost = step_cost(self.build().train(), next(some.epoch(0)))
        whole = cost.weights + cost.activations * training.max_tokens // tokens
        seconds = cost.seconds * some.len_epoch(0)
        return found | {
            "memory for training": f"about {memory(whole)}",
            "time for an epoch": f"about {duration(seconds)} on this machine's processor, by one step of it",
        }

    def validate(self, model: M, valid: Any) -> dict[str, float]:
        """Return the loss over all validation data, and quick scores on a part of it."""
        losses = mean_loss(model, self.scored_batches(valid))
        return {**losses, **self.quick(model, valid)}

    def scored_batches(self, split: Any) -> Any:
        """Return batches of all data to score: one example always fits into a batch."""
        longest = 0
        if isinstance(split, Examples):
            source, target = split.lengths()
            longest = int((source + target).max(initial=0))
        return self.batches(split, max(self.recipe.training.max_tokens, longest))

    def quick(self, model: M, valid: Any) -> dict[str, float]:
        """Return scores besides the loss on a part of the validation data, during training."""
        return {}

    def sample_examples(self, valid: Any, most: int) -> list[Example]:
        """Return validation examples to show, always the same ones."""
        examples = valid.examples(QUICK)
        start = max(0, (len(examples) - most) // 2)
        return examples[start : start + most]

    def reference(self, example: Example) -> Any:
        """Return the correct output of a validation example, as `look` takes it; None if it has none."""
        return example.texts[0] if example.texts else None

    def sample(self, model: M, example: Example) -> str:
        """Return a sample prediction to show during training."""
        (found,) = self.predict(model, [example.input])
        wanted = " | ".join(example.texts)
        said = excerpt(found.text, 2 * max(SHORT_TEXT, len(wanted)))  # an untrained model repeats the same words
        return f"{found.input}\n→ {said}\n= {wanted}"

    def pictures(self, model: M, valid: Any) -> list[ReportPicture]:
        """Return the figures that a run's report shows besides its curves and attention."""
        return []

    # ----------------------------------------------------------------------------------------------------- prediction
    @abstractmethod
    def predict(self, model: M, inputs: Sequence[Any]) -> list[Prediction]:
        """Return a prediction for each input. `prefix` needs `takes_prefix`; `attention` needs `gives_attention`."""

    def predict_arriving(self, model: M, take: Take, parse: Callable[[Any], Any], *, prefix: str = "") -> Answers:
        """Predict inputs that arrive while others are processed (`regard.work`). `given(one)` returns the input
        of `predict`.
        """
        options = {"prefix": prefix} if prefix else {}

        def work(some: list[Any]) -> list[Prediction]:
            return self.predict(model, [parse(one) for one in some], **options)

        return at_once(work, take)

    def stream(self, model: M, one: Any, on_text: Callable[[str, str], None], *, prefix: str = "") -> Prediction:
        """Predict one input and call `tell(token, text so far)` during generation. An exception in `on_text` ends the
        work.
        """
        raise CallError("this model writes nothing that could be streamed")

    def score(self, model: M, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Prediction]:
        """Return the log-probability of each given output."""
        found = zip(inputs, self.score_outputs(model, inputs, outputs), strict=True)
        return [Prediction(self.input.name(one), [candidate]) for one, candidate in found]

    def score_outputs(self, model: M, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Candidate]:
        """Return each output with its log-probability or score for its input."""
        raise CallError("the output of this model cannot be scored; use regard evaluate")

    def given(self, words: Sequence[str]) -> list[Any]:
        """Parse command-line arguments that name outputs; see `takes_files`."""
        return list(words)

    # --------------------------------------------------------------------------------------------------------- looking
    @abstractmethod
    def tell(self, model: M, one: Any, options: LookOptions) -> list[OutputRef]:
        """Return the outputs to explain: the given one, or the predicted ones, best first."""

    @abstractmethod
    def case(self, model: M, one: Any, ref: OutputRef) -> ExplainTarget:
        """Return the case of one input and one output, for the methods of `look`."""

    def reader(self, model: M) -> nn.Module:
        """Return the part of the model that is run again for each variant of the input."""
        return model

    def rescore(self, model: M, ref: OutputRef, one: Any) -> OutputRef:
        """Re-score an earlier output against another input."""
        return self.tell(model, one, LookOptions(output=ref.text, method=ABOUT_OUTPUT[0]))[0]

    def next_tokens(self, model: M, one: Any, ref: OutputRef) -> tuple[tuple[NextToken, ...], ...]:
        """Return the most probable tokens at each step, where text is generated step by step."""
        return ()

    def choice(self, word: str) -> int:
        """Return the id of a contrast word; see `Told.instead`."""
        raise CallError(f"instead={word!r}: this model does not predict tokens or classes; remove instead")

    def gold(self, example: Example) -> Gold | None:
        """Return the gold links of a validation example, if its corpus has them."""
        return None

    def finalize_record(self, record: AttentionRecord, ref: OutputRef) -> AttentionRecord:
        """Finish an attention record: subclasses can add to it."""
        return record

    # ------------------------------------------------------------------------------------------------------ evaluation
    @property
    def has_test_data(self) -> bool:
        """Whether `evaluate` has data to score, judged by the recipe alone."""
        return self.input.has_test_data

    def evaluate(self, model: M, *, alignments: bool = False) -> Scores:
        """Return the scores on the test data."""
        examples, skipped = self.test()
        scores = self.test_scores(model, examples, alignments)
        long = self.overlong(examples)
        notes = {"data": self.input.test_name} | ({"skipped": skipped} if skipped else {})
        notes |= {"longer inputs": long} if long else {}
        return replace(scores, notes=scores.notes | notes)

    def test(self) -> tuple[Any, str]:
        """Return the test data, and a note on the part that could not be used."""
        return self.input.test()

    def overlong(self, examples: Any) -> str:
        """Report how many inputs of test examples exceed the model's limit, and how they are treated; empty if none
        does.
        """
        if not (limit := self.limit) or not isinstance(examples, Sequence):
            return ""
        count = sum(map(self.is_overlong, examples))
        return f"{count:,} of {len(examples):,} are longer than {limit}" if count else ""

    @property
    def limit(self) -> str:
        """Return the length limit of examples, and how longer ones are treated (`Input.limit`)."""
        return self.input.limit

    def is_overlong(self, example: Example) -> bool:
        """Whether any text of an example exceeds the limit."""
        return self.input.is_overlong(example.input)

    def measure(self) -> Measure | None:
        """Return the final score, which is compared with simple baselines (`final_score.py`); None if there is none."""
        return None

    def spread(self, examples: Any, most: int) -> Any:
        """Return at most `most` test examples, evenly spread over all of them."""
        return examples[:: max(1, -(-len(examples) // max(1, most)))]

    def answers(self, model: M, examples: Any) -> Any:
        """Return the predictions for test examples, as `tally` takes them."""
        return [found.text for found in self.predict(model, [example.input for example in examples])]

    def baselines(self, train: Any, examples: Any) -> dict[str, Any]:
        """Return the predictions of simple baselines for test examples, by name. They learn from the training split."""
        return {}

    def tally(self, answers: Any, examples: Any) -> Tally:
        """Return what each test example adds to the score of `measure`, for the model and the baselines."""
        raise CallError("this output has no score that baselines could be compared by")

    @abstractmethod
    def test_scores(self, model: M, examples: Any, alignments: bool) -> Scores:
        """Return the scores on the data of `test`; `alignments` only with `takes_alignments`."""

    # ----------------------------------------------------------------------------------------------------------- help
    def item_of(self, one: Any) -> Any:
        """Return the item of an input to look at. Raise if it is empty."""
        item = self.input.read(one)
        if not self.input.length(item):
            raise CallError(f"the input {self.input.name(one)!r} has no token: there is nothing to look at")
        return item

    def asked(
        self, model: nn.Module, item: Any, steps: Callable[..., Tensor], axes: Mapping[str, Axis], **how: Any
    ) -> ExplainTarget:
        """Return the case of an item of this input; see `batched.case_of`."""
        return case_of(self.input, model, model.get_submodule("encoder"), item, steps, axes, **how)


LONGEST = 1024  # maximum tokens of the step that `estimates` measures
MEASURED = 10_000_000_000  # maximum weights × tokens of that step
TYPICAL = 32  # tokens of a typical sentence
QUICK = 200  # validation examples decoded during training
SHORT_TEXT = 60  # letters


@torch.inference_mode()
def mean_loss(model: nn.Module, batches: Any) -> dict[str, float]:
    """Return the mean loss over one epoch of batches, and the percentage of correct targets if the model counts it."""
    device = device_of(model)
    total, count_, correct, counted = 0.0, 0, 0, False
    for batch in batches.epoch(0):
        found = model(batch.to(device))
        total, count_ = total + float(found.total), count_ + int(found.count)
        if found.correct is not None:
            correct, counted = correct + int(found.correct), True
    scores = {"loss": total / max(1, count_)}
    return scores | ({"accuracy": 100 * correct / max(1, count_)} if counted else {})
