"""What comes out. Each kind is a folder beside this file, and an `Output` in it; it works with any input it is given.

    Memory → (a decoder or a head) → loss                              training
    Memory → (a decoder or a head) → what it says → text, scores       prediction

What is here by default serves every output whose targets are written as ids (tokens of a text, classes); an output with
targets of another kind (spans, numbers, pictures) brings its own examples and batches.
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

from regard.arriving import Answers, Take, at_once
from regard.cost.hardware import machine_memory
from regard.cost.step import step_cost, weight_bytes
from regard.cost.units import count, duration, memory
from regard.data.check_report import CheckReport
from regard.data.examples import Example, ExampleBatches, Examples
from regard.data.pairs import excerpt
from regard.data.tables import Role
from regard.errors import CallError
from regard.inputs.base import Input, Vocabulary
from regard.look.axis import Axis
from regard.look.case import Case
from regard.look.methods import ABOUT_OUTPUT
from regard.look.records import AttentionRecord
from regard.look.said import NextToken, Said
from regard.metrics.alignment import Gold
from regard.outputs.batched import case_of, device_of
from regard.outputs.looking import LookOptions
from regard.outputs.result import Candidate, Measure, Picture, Prediction, Scores, Tally
from regard.settings.decisions import Decision
from regard.settings.recipe import Recipe

I = TypeVar("I", bound=Input)  # noqa: E741 (the field writes I)
M = TypeVar("M", bound=nn.Module)
R = TypeVar("R", bound=Recipe)


@dataclass(frozen=True)
class Told:
    """An output that is looked at: as the model has it (ids, classes, codes), as text, what it was ranked by, and what
    else there is to show of it.

    `instead`: what else could have been said in its place, as the model has it; a case then asks for the lead over it.
    """

    target: Any
    text: str
    score: float | None = None
    said: Said | None = None
    instead: int | None = None


class Planned(NamedTuple):
    """A model on the meta device that is as large as its recipe allows, before any data is read."""

    model: nn.Module
    length: int  # tokens of a typical text
    texts: int  # of that length, for each example of a batch
    note: str  # what was assumed


class Output(ABC, Generic[R, I, M]):
    """Of one recipe. `input` is what the same recipe reads; `prepare` (training) or `restore` (prediction) comes first.

    What is learned from data (a vocabulary, scales) stays here; the model is given to whoever needs it.
    """

    takes_prefix: ClassVar[bool] = False  # whether what it says can be made to begin in some way: predict(prefix=)
    gives_attention: ClassVar[bool] = False  # whether a prediction can say where the model looked: predict(attention=)
    takes_gold: ClassVar[bool] = False  # whether it has words that gold links with those of its input
    takes_alignments: ClassVar[bool] = False  # whether `evaluate` can hold where it looked against gold
    writes_text: ClassVar[bool] = False  # whether it can be told while it is written: `stream`
    takes_prompt: ClassVar[bool] = False  # whether what it writes goes on from its input, and is shown after it
    takes_instead: ClassVar[bool] = False  # whether what it says is a choice among words: `choice`
    gives_vectors: ClassVar[bool] = False  # whether what it says of an input is a vector
    draws: ClassVar[bool] = False  # whether its predictions are pictures, which are written to files
    draws_alone: ClassVar[bool] = False  # whether what it draws for an input depends on its number only, not on others
    takes_files: ClassVar[bool] = False  # whether a given output is the name of a file
    gives: ClassVar[str] = "text"  # what comes out, in a word or two
    unit: ClassVar[str] = "tokens"  # what the loss counts
    learns_from_all: ClassVar[bool] = False  # whether `learn` has to see every target of the training data

    def __init__(self, recipe: R, input: I) -> None:
        self.recipe, self.input = recipe, input

    @property
    def by_chance(self) -> bool:
        """Whether what it says is drawn at random, and so depends on which other inputs there are."""
        return False

    # -------------------------------------------------------------------------------------------------------- targets
    def with_recipe(self, recipe: R, input: I) -> Any:
        """The same with what was prepared or restored, under a changed recipe."""
        changed = copy(self)
        changed.recipe, changed.input = recipe, input
        return changed

    @property
    def key(self) -> Any:
        """What the vocabulary of targets depends on beside their texts; None: on nothing, it is there."""
        return None

    def learn(self, texts: Iterable[str]) -> Vocabulary:
        """The vocabulary of targets, from those of the training data; as it is, if it was learned before."""
        raise CallError("this output learns nothing from texts")

    def load(self, written: str) -> Vocabulary:
        """The vocabulary as its `to_json` wrote it."""
        raise CallError("this output learns nothing from texts")

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        """What the loss is taken against; of no target at all, a row that counts nothing."""
        raise CallError("this output has batches of its own")

    def save(self, folder: Path) -> None:
        """What was learned."""

    def restore(self, folder: Path) -> None:
        """The inverse of `save`."""

    # ------------------------------------------------------------------------------------------------------- training
    def decided(self) -> list[Decision]:
        """What a few examples decide beside the data section, where a recipe leaves it to them (auto)."""
        return []

    def prepare(self, cache: Path, *, strict: bool = True) -> dict[Role, Any]:
        """The splits there are, train and valid at least, and all that the data decides."""
        return self.input.prepare(cache, self, strict=strict)

    def check(self, splits: dict[Role, Any]) -> CheckReport:
        """What is wrong with data that was prepared with `strict=False`."""
        return self.input.check(splits, self.vocabulary)

    @property
    def vocabulary(self) -> Vocabulary:
        """That of the targets."""
        raise CallError("this output learns nothing from texts")

    def batches(self, split: Any, max_tokens: int, *, seed: int = 0) -> Any:
        return ExampleBatches(split, self.collate, max_tokens, seed=seed, ahead=self.input.ahead)

    @abstractmethod
    def build(self) -> M:
        """The model, untrained; `forward(batch)` gives its loss."""

    def planned(self) -> Planned | None:
        """For `regard cost`; None: how large the model is depends on the data, which `regard check` reads."""
        return None

    def estimates(self, splits: dict[Role, Any]) -> dict[str, str]:
        """What the model will cost on this data, by one step of training on this machine: the same for every job.

        Of a large model a smaller batch is measured; one that does not fit here is not built at all.
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
        """The loss over all validation data, and quick scores of some of it."""
        losses = mean_loss(model, self.scored_batches(valid))
        return {**losses, **self.quick(model, valid)}

    def scored_batches(self, split: Any) -> Any:
        """Batches of data that is scored, all of it: one example always fits into a batch."""
        longest = 0
        if isinstance(split, Examples):
            source, target = split.lengths()
            longest = int((source + target).max(initial=0))
        return self.batches(split, max(self.recipe.training.max_tokens, longest))

    def quick(self, model: M, valid: Any) -> dict[str, float]:
        """Scores of some of the validation data beside the loss, while training goes on."""
        return {}

    def some(self, valid: Any, most: int) -> list[Example]:
        """Validation examples to show; always the same."""
        examples = valid.examples(QUICK)
        start = max(0, (len(examples) - most) // 2)
        return examples[start : start + most]

    def reference(self, example: Example) -> Any:
        """The output that would be right for a validation example, as `look` is given one; None: there is none."""
        return example.texts[0] if example.texts else None

    def sample(self, model: M, example: Example) -> str:
        """Something to show while training."""
        (found,) = self.predict(model, [example.input])
        wanted = " | ".join(example.texts)
        said = excerpt(found.text, 2 * max(SHORT_TEXT, len(wanted)))  # a beginner says the same words again and again
        return f"{found.input}\n→ {said}\n= {wanted}"

    def pictures(self, model: M, valid: Any) -> list[Picture]:
        """What the report of a run shows beside its curves and what it looked at."""
        return []

    # ----------------------------------------------------------------------------------------------------- prediction
    @abstractmethod
    def predict(self, model: M, inputs: Sequence[Any]) -> list[Prediction]:
        """Of each input. One with `takes_prefix` also takes `prefix`, one with `gives_attention` takes `attention`."""

    def predict_arriving(self, model: M, take: Take, given: Callable[[Any], Any], *, prefix: str = "") -> Answers:
        """The same for inputs that come while others are worked on (`regard.arriving`). `given(one)` is what `predict`
        would be given."""
        options = {"prefix": prefix} if prefix else {}

        def work(some: list[Any]) -> list[Prediction]:
            return self.predict(model, [given(one) for one in some], **options)

        return at_once(work, take)

    def stream(self, model: M, one: Any, tell: Callable[[str, str], None], *, prefix: str = "") -> Prediction:
        """`tell(token, text so far)` while it is written. It may raise, which ends the work."""
        raise CallError("this model writes nothing that could be streamed")

    def score(self, model: M, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Prediction]:
        """How probable the model finds given outputs."""
        found = zip(inputs, self.given_candidates(model, inputs, outputs), strict=True)
        return [Prediction(self.input.name(one), [candidate]) for one, candidate in found]

    def given_candidates(self, model: M, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Candidate]:
        """Each output with the log-probability, or the score, that the model gives it for its input."""
        raise CallError("what this model says cannot be scored; regard evaluate holds it against data")

    def given(self, words: Sequence[str]) -> list[Any]:
        """What words that name an output stand for; see `takes_files`."""
        return list(words)

    # --------------------------------------------------------------------------------------------------------- looking
    @abstractmethod
    def tell(self, model: M, one: Any, options: LookOptions) -> list[Told]:
        """The outputs that are looked at: the given one, or the model's own and its runners-up, best first."""

    @abstractmethod
    def case(self, model: M, one: Any, told: Told) -> Case:
        """All that looking needs to know of one input and one output."""

    def reader(self, model: M) -> nn.Module:
        """The part of the model that is asked again for each input of the same output."""
        return model

    def again(self, model: M, told: Told, one: Any) -> Told:
        """What was said of some input, held against this one."""
        return self.tell(model, one, LookOptions(output=told.text, method=ABOUT_OUTPUT[0]))[0]

    def next_tokens(self, model: M, one: Any, told: Told) -> tuple[tuple[NextToken, ...], ...]:
        """The most probable tokens at each step, where text is written step by step."""
        return ()

    def choice(self, word: str) -> int:
        """A word that could have been said instead, as the model has it; see `Told.instead`."""
        raise CallError(f"instead={word!r}: what this model says is no choice among words: leave instead out")

    def gold(self, example: Example) -> Gold | None:
        """Gold links of a validation example, where its corpus knows them."""
        return None

    def looked(self, record: AttentionRecord, told: Told) -> AttentionRecord:
        """A last word on a record of ours."""
        return record

    # ------------------------------------------------------------------------------------------------------ evaluation
    @property
    def has_test_data(self) -> bool:
        """Whether `evaluate` has something to score, by the recipe alone."""
        return self.input.has_test_data

    def evaluate(self, model: M, *, alignments: bool = False) -> Scores:
        """Scores on the test data."""
        examples, skipped = self.test()
        scores = self.test_scores(model, examples, alignments)
        long = self.overlong(examples)
        notes = {"data": self.input.test_name} | ({"skipped": skipped} if skipped else {})
        notes |= {"longer inputs": long} if long else {}
        return replace(scores, notes=scores.notes | notes)

    def test(self) -> tuple[Any, str]:
        """The test data, and a note on what of it could not be used."""
        return self.input.test()

    def overlong(self, examples: Any) -> str:
        """How many inputs of test examples are longer than the model's limit, and what is done to them; or nothing."""
        if not (limit := self.limit) or not isinstance(examples, Sequence):
            return ""
        count = sum(map(self.is_overlong, examples))
        return f"{count:,} of {len(examples):,} are longer than {limit}" if count else ""

    @property
    def limit(self) -> str:
        """What examples may be longer than, and what is done to them then (`Input.limit`)."""
        return self.input.limit

    def is_overlong(self, example: Example) -> bool:
        """Whether something that is read of an example is longer than the limit."""
        return self.input.is_overlong(example.input)

    def measure(self) -> Measure | None:
        """The score that ends a training, compared with simple baselines (`final_score.py`); None if there is none."""
        return None

    def spread(self, examples: Any, most: int) -> Any:
        """At most so many test examples, evenly spread over all of them."""
        return examples[:: max(1, -(-len(examples) // max(1, most)))]

    def answers(self, model: M, examples: Any) -> Any:
        """What the model says of test examples, as `tally` takes it."""
        return [found.text for found in self.predict(model, [example.input for example in examples])]

    def baselines(self, train: Any, examples: Any) -> dict[str, Any]:
        """What simple methods, which learn from the training split, say of test examples: by the name of each."""
        return {}

    def tally(self, answers: Any, examples: Any) -> Tally:
        """What each test example adds to the score that `measure` names; of the model and of baselines alike."""
        raise CallError("this output has no score that baselines could be compared by")

    @abstractmethod
    def test_scores(self, model: M, examples: Any, alignments: bool) -> Scores:
        """Of what `test` gives; `alignments` only with `takes_alignments`."""

    # ----------------------------------------------------------------------------------------------------------- help
    def item_of(self, one: Any) -> Any:
        """The item of an input that is looked at: one with something in it."""
        item = self.input.read(one)
        if not self.input.length(item):
            raise CallError(f"the input {self.input.name(one)!r} has no token: there is nothing to look at")
        return item

    def asked(
        self, model: nn.Module, item: Any, steps: Callable[..., Tensor], axes: Mapping[str, Axis], **how: Any
    ) -> Case:
        """The case of an item of our input; see `batched.case_of`."""
        return case_of(self.input, model, model.get_submodule("encoder"), item, steps, axes, **how)


LONGEST = 1024  # tokens of the step that `estimates` measures, at the most
MEASURED = 10_000_000_000  # and weights × tokens of it
TYPICAL = 32  # tokens of a typical sentence
QUICK = 200  # validation examples that are decoded while training goes on
SHORT_TEXT = 60  # letters


@torch.inference_mode()
def mean_loss(model: nn.Module, batches: Any) -> dict[str, float]:
    """The loss, and how many percent were right where a model counts it, over one epoch of batches."""
    device = device_of(model)
    total, count_, correct, counted = 0.0, 0, 0, False
    for batch in batches.epoch(0):
        found = model(batch.to(device))
        total, count_ = total + float(found.total), count_ + int(found.count)
        if found.correct is not None:
            correct, counted = correct + int(found.correct), True
    scores = {"loss": total / max(1, count_)}
    return scores | ({"accuracy": 100 * correct / max(1, count_)} if counted else {})
