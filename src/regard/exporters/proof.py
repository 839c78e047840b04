"""The check of an export: the same inputs give the same results in the run and in the export.

    logits    |ours − theirs| ≤ 1e-4, everywhere
    outputs   equal; or a tie: the model scores both equally, within the same 1e-4

With dtypes other than float32, differences are reported and nothing is refused.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.api import Run
from regard.data.pairs import excerpt
from regard.errors import CallError, RegardError
from regard.exporters.base import Comparison, ExportPlan
from regard.job import Job
from regard.layers.loss import OutputLoss
from regard.models.language_model import LanguageModel
from regard.special_tokens import END, PAD, START, UNK
from regard.tasks.text.output import GREEDY

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Proof:
    inputs: int
    largest_difference: float
    equal_outputs: float  # the share
    ties: int  # among outputs that differ
    texts: int  # outputs with words, not only numbers

    def sentence(self) -> str:
        said = f"checked on {self.inputs} inputs: largest difference {self.largest_difference:.2g}"
        if not self.texts:
            return f"{said}; no output has words to compare"
        ties = f" (and {self.ties} ties)" if self.ties else ""
        return f"{said}, {self.equal_outputs:.1%} of outputs equal{ties}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def prove(compared: Iterable[Comparison], *, exact: bool) -> Proof:
    """Return the result of the comparison; with `exact`, raise a `RegardError` on a difference."""
    largest, equal, ties, texts, count = 0.0, 0, 0, 0, 0
    for one in compared:
        if math.isnan(one.difference):
            raise RegardError(f"the export gives no numbers (NaN): {one.place} of {excerpt(one.input)!r}")
        if exact and one.difference > TOLERANCE:
            raise RegardError(
                f"the export is not equal to the run: {one.place} of {excerpt(one.input)!r} differs by "
                f"{one.difference:.2g}, more than {TOLERANCE:g}; nothing was written"
            )
        if exact and one.ours != one.theirs and not one.tied:
            raise RegardError(
                f"the output of the export differs for {excerpt(one.input)!r}: {one.theirs!r} instead of "
                f"{one.ours!r}; nothing was written"
            )
        largest, ties = max(largest, one.difference), ties + one.tied
        equal, texts, count = equal + (one.ours == one.theirs), texts + bool(one.ours), count + 1
    if not count:
        raise RegardError("no input to check the export with")
    return Proof(count, largest, equal / count, ties, texts)


# Comparison of the numbers and outputs of a run and its export.


class Difference(NamedTuple):
    largest: float
    place: str


def difference(ours: Tensor, theirs: Tensor, what: str) -> Difference:
    """Return the largest difference and its position, such as `logits[3, 17]`."""
    if ours.shape != theirs.shape:
        shapes = f"{tuple(theirs.shape)} instead of {tuple(ours.shape)}"
        raise RegardError(f"the export returns {what} of the shape {shapes}")
    apart = (ours.detach().double().cpu() - theirs.detach().double().cpu()).abs()
    if not apart.numel():
        return Difference(0.0, what)
    if apart.isnan().any():
        return Difference(float("nan"), what)
    place = torch.unravel_index(apart.argmax(), apart.shape)
    return Difference(float(apart.max()), f"{what}[{', '.join(str(int(index)) for index in place)}]")


def worst(found: Iterable[Difference]) -> Difference:
    """Return the largest difference; NaN counts as larger than all."""
    return max(found, key=lambda one: math.inf if math.isnan(one.largest) else one.largest)


def require_same_tokens(ours: Sequence[int], theirs: Sequence[int], text: str) -> None:
    if list(ours) != list(theirs):
        raise RegardError(
            f"the tokenizer of the export splits {text[:60]!r} differently: {list(theirs)[:20]} instead of "
            f"{list(ours)[:20]}; nothing was written"
        )


def is_tie(run: Run, one: Any, ours: str, theirs: str) -> bool:
    """Return whether the model scores two outputs of one input equally."""
    if ours == theirs:
        return False
    try:
        first, second = run.job.score([one, one], [ours, theirs])
    except CallError:
        return False
    return abs((first.score or 0.0) - (second.score or 0.0)) <= TOLERANCE


def tied_at(logits: Tensor, ours: Sequence[int], theirs: Sequence[int], within: float = TOLERANCE) -> bool:
    """Return whether two greedy texts differ first at a tie of two tokens. Row t of the logits predicts token t."""
    pairs = zip(ours, theirs, strict=False)
    step = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
    if step is None:
        return False
    return abs(float(logits[step, ours[step]] - logits[step, theirs[step]])) <= within


# Reproducible outputs of a run, to compare an export with.
#
# Decoding is that of the recipe, without sampling. Other programs use the same beam, without the parts that only regard
# has (coverage, CTC, replaced unknown words). An output that is cut at `decoding.max_length` has no common end in two
# searches; then both sides decode greedily.

#: Settings that only regard has, and their values when off.
OWN = {"coverage_penalty": 0.0, "replace_unknown": False, "ctc": 0.0, "language_model": None, "rerank": None}
#: One output, without sampling.
CERTAIN = {"n_best": 1, "candidates": 1, "sample": False, "temperature": 0.0}


def certain_recipe(recipe: Any, changed: Mapping[str, Any] = CERTAIN) -> Any:
    """Return the recipe without sampling."""
    how = getattr(recipe, "decoding", None)
    if how is None:
        return recipe
    known = {name: value for name, value in changed.items() if hasattr(how, name)}
    return recipe.model_copy(update={"decoding": how.model_copy(update=known)})


def certain_job(run: Run, *, own: bool) -> Job:
    """Return the job of a run without sampling, with or without the settings that only regard has."""
    return run.job.with_recipe(certain_recipe(run.recipe, CERTAIN if own else {**OWN, **CERTAIN}))


@dataclass(frozen=True)
class Searched:
    """Tokens of one output, without the end token."""

    tokens: list[int]
    greedily: list[int]
    longest: int  # maximum number of tokens of an output

    def held_against(self, ask: Callable[[bool], Sequence[int]]) -> tuple[list[int], list[int]]:
        """Return the tokens of the run and of the export; `ask(greedy)` decodes with the export."""
        if len(self.tokens) < self.longest:
            theirs = self._cut_at_end(ask(False))
            if len(theirs) < self.longest:
                return self.tokens, theirs
        return self.greedily, self._cut_at_end(ask(True))

    def _cut_at_end(self, tokens: Sequence[int]) -> list[int]:
        tokens = list(tokens)
        return tokens[: tokens.index(END)] if END in tokens[: self.longest] else tokens[: self.longest]


def search_outputs(run: Run, inputs: Sequence[Any]) -> list[Searched]:
    output: Any = certain_job(run, own=False).output
    items = [run.job.input.read(one) for one in inputs]
    found, greedily = (
        [hypotheses[0].tokens for hypotheses in output.search(run.model, items, **how)] for how in ({}, GREEDY)
    )
    return [Searched(*both, output.recipe.decoding.max_length) for both in zip(found, greedily, strict=True)]


def compare_texts(run: Run, one: Any, tokens: tuple[list[int], list[int]]) -> tuple[str, str, bool]:
    """Return both outputs as texts, and whether they are tied."""
    ours, theirs = (run.job.output.tokenizer.decode(side) for side in tokens)  # pyright: ignore[reportAttributeAccessIssue]
    return ours, theirs, is_tie(run, one, ours, theirs)


def never(decoding: Any) -> list[int]:
    """Return the tokens that are never generated."""
    return [PAD, START] if decoding.unknown or decoding.replace_unknown else [PAD, UNK, START]


# Greedy decoding by a language model, for the check.

WRITTEN = 16  # tokens that both sides generate in the check


def suppressed_ids(special: Any) -> list[int]:
    """Return the special tokens that are never generated."""
    return sorted({special.pad, special.unk, special.start} - {special.end, None})


def greedy_tokens(run: Run, read: Sequence[int], most: int) -> list[int]:
    """Return the greedy continuation of the tokens `read`, with the end token."""
    model: Any = run.model
    special = run.job.output.tokenizer.specials  # pyright: ignore[reportAttributeAccessIssue]
    return greedy_decode(lambda ids: model.logits(model.features(torch.tensor([ids]))[:, -1])[0], special, read, most)


def greedy_decode(ask: Callable[[list[int]], Tensor], special: Any, read: Sequence[int], most: int) -> list[int]:
    """Decode greedily from any function that returns next-token logits; `special`: tokens that are not text."""
    said: list[int] = []
    while len(said) < most and (not said or said[-1] != special.end):
        logits = ask([*read, *said]).clone()
        logits[suppressed_ids(special)] = -torch.inf
        said.append(int(logits.argmax()))
    return said


# Cost of dtypes other than float32: test scores of the run and of its export.

MOST = 500  # examples, at most
SAID = 3  # scores in the line that is printed; the card has all


@dataclass(frozen=True)
class Quality:
    """Scores by name, as in `regard evaluate`."""

    examples: int
    run: dict[str, float]
    export: dict[str, float]

    def sentence(self, dtype: str) -> str:
        told = ", ".join(
            f"{name} {_short(self.run[name])} → {_short(self.export[name])}" for name in [*self.run][:SAID]
        )
        return f"on {self.examples} examples of the test part, float32 → {dtype}: {told}"

    def table(self, dtype: str) -> list[str]:
        """Return the lines of a Markdown table for the card."""
        rows = [f"| {name} | {_short(one)} | {_short(self.export[name])} |" for name, one in self.run.items()]
        head = f"Scores of {self.examples} examples of the test part (`regard evaluate` uses all):"
        return [head, "", f"| score | float32 (the run) | {dtype} (this export) |", "|---|---|---|", *rows]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _short(number: float) -> str:
    return f"{number:.4g}"


def measure(run: Run, plan: ExportPlan, folder: Path) -> Quality | str:
    """Return the scores, or a sentence on why there are none."""
    output = certain_job(run, own=plan.searches).output
    if not output.has_test_data:
        return "the run has no test data (data.test=FILE)"
    try:
        examples, _ = output.test()
        some = examples[:MOST] if isinstance(examples, Sequence) else examples
        own, other = output.test_scores(run.model, some, False).values, plan.test_scores(folder, output, some)
    except (RegardError, OSError) as problem:
        return f"the test data cannot be read ({problem})"
    if other is None:
        return "its runtime returns no scores: `regard evaluate` has those of the run"
    told = [name for name in own if name in other]  # scores of attention are missing in an export
    return Quality(len(some), {name: own[name] for name in told}, {name: other[name] for name in told})


# Adapters that give an exported model the interface of a regard model.


def round_weights(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Return the model with its weights rounded to `dtype`, computed in float32."""
    copy = deepcopy(model)
    for weights in copy.parameters():
        weights.data = weights.data.to(dtype).to(weights.dtype)
    return copy


class LogitsModel(LanguageModel):
    """Language model whose features are logits; `ask` maps tokens to next-token logits."""

    def __init__(self, like: LanguageModel, ask: Callable[[Tensor], Tensor]) -> None:
        nn.Module.__init__(self)
        self.pad, self.anchor = like.pad, nn.Parameter(torch.zeros(0))  # its device: the CPU
        self._ask = ask

    def features(self, tokens: Tensor) -> Tensor:
        return self._ask(tokens)

    def logits(self, features: Tensor) -> Tensor:
        return features

    def loss(self, features: Tensor, targets: Tensor, *, pad: int, smoothing: float = 0.0) -> OutputLoss:
        total = F.cross_entropy(features, targets, ignore_index=pad, reduction="sum", label_smoothing=smoothing)
        real = targets != pad
        return OutputLoss(total, int(real.sum()), ((features.argmax(-1) == targets) & real).sum())
