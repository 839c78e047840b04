"""What a run writes for some inputs, in a way that other programs can repeat.

By the beam of its recipe, without what belongs to regard alone (coverage, words put in for unknown ones). An output that
is cut off at `decoding.max_length` has no end that searches could agree on; there, both write greedily.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.api import Run
from regard.exporters.agreement import tied
from regard.outputs.text.output import GREEDY
from regard.special_tokens import PAD, START, UNK

PLAIN = {"n_best": 1, "coverage_penalty": 0.0, "sample": False, "replace_unknown": False, "plain": True}


@dataclass(frozen=True)
class Searched:
    tokens: list[int]  # without the end
    greedy: bool
    longest: int  # tokens of an output, at the most

    def tied(self, run: Run, one: Any, said: str) -> bool:
        return tied(run, one, run.job.output.tokenizer.decode(self.tokens), said)  # pyright: ignore[reportAttributeAccessIssue]


def searched(run: Run, inputs: Sequence[Any]) -> list[Searched]:
    items, output = [run.job.input.read(one) for one in inputs], run.job.output
    longest, beam = run.recipe.decoding.max_length, run.recipe.decoding.beam  # pyright: ignore[reportAttributeAccessIssue]
    found = [hypotheses[0].tokens for hypotheses in output.search(run.model, items, **PLAIN)]  # pyright: ignore[reportAttributeAccessIssue]
    greedily = [hypotheses[0].tokens for hypotheses in output.search(run.model, items, **{**PLAIN, **GREEDY})]  # pyright: ignore[reportAttributeAccessIssue]
    return [
        Searched(other, True, longest) if beam == 1 or len(one) >= longest else Searched(one, False, longest)
        for one, other in zip(found, greedily, strict=True)
    ]


def never(decoding: Any) -> list[int]:
    """Tokens that are never written."""
    return [PAD, START] if decoding.unknown or decoding.replace_unknown else [PAD, UNK, START]
