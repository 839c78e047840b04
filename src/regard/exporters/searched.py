"""What a run writes for some inputs, in a way that its export can repeat.

As it does by default, but for chance. Programs of others search by the beam of its recipe, without what belongs to
regard alone (coverage, CTC, words put in for unknown ones); there, an output that is cut off at `decoding.max_length`
has no end that searches could agree on, and both write greedily.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.api import Run
from regard.exporters.agreement import tied
from regard.job import Job
from regard.outputs.text.output import GREEDY
from regard.special_tokens import END, PAD, START, UNK

#: What belongs to regard alone, and its value where it is not asked for.
OWN = {"coverage_penalty": 0.0, "replace_unknown": False, "ctc": 0.0, "language_model": None, "rerank": None}
#: One output, by no chance.
CERTAIN = {"n_best": 1, "candidates": 1, "sample": False, "temperature": 0.0}


def certain_recipe(recipe: Any, changed: Mapping[str, Any] = CERTAIN) -> Any:
    """The same without chance."""
    how = getattr(recipe, "decoding", None)
    if how is None:
        return recipe
    known = {name: value for name, value in changed.items() if hasattr(how, name)}
    return recipe.model_copy(update={"decoding": how.model_copy(update=known)})


def certain_job(run: Run, *, own: bool) -> Job:
    """The job of a run without chance, with or without what belongs to regard alone."""
    return run.job.with_recipe(certain_recipe(run.recipe, CERTAIN if own else {**OWN, **CERTAIN}))


@dataclass(frozen=True)
class Searched:
    """Tokens, without the end, of one output."""

    tokens: list[int]
    greedily: list[int]
    longest: int  # tokens of an output, at the most

    def held_against(self, ask: Callable[[bool], Sequence[int]]) -> tuple[list[int], list[int]]:
        """Ours and theirs; `ask(greedy)` gives theirs, by the beam or greedily."""
        if len(self.tokens) < self.longest:
            theirs = self._ended(ask(False))
            if len(theirs) < self.longest:
                return self.tokens, theirs
        return self.greedily, self._ended(ask(True))

    def _ended(self, tokens: Sequence[int]) -> list[int]:
        tokens = list(tokens)
        return tokens[: tokens.index(END)] if END in tokens[: self.longest] else tokens[: self.longest]


def searched(run: Run, inputs: Sequence[Any]) -> list[Searched]:
    output: Any = certain_job(run, own=False).output
    items = [run.job.input.read(one) for one in inputs]
    found, greedily = (
        [hypotheses[0].tokens for hypotheses in output.search(run.model, items, **how)] for how in ({}, GREEDY)
    )
    return [Searched(*both, output.recipe.decoding.max_length) for both in zip(found, greedily, strict=True)]


def said(run: Run, one: Any, tokens: tuple[list[int], list[int]]) -> tuple[str, str, bool]:
    """Both as texts, and whether they are tied: the end of what is compared."""
    ours, theirs = (run.job.output.tokenizer.decode(side) for side in tokens)  # pyright: ignore[reportAttributeAccessIssue]
    return ours, theirs, tied(run, one, ours, theirs)


def never(decoding: Any) -> list[int]:
    """Tokens that are never written."""
    return [PAD, START] if decoding.unknown or decoding.replace_unknown else [PAD, UNK, START]
