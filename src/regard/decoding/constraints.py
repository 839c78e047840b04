"""Constraints on outputs: lengths, forced prefixes, symbols that are never an output."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import CallError
from regard.special_tokens import END, PAD, START

NEVER = (PAD, START)


@dataclass(frozen=True)
class Constraints:
    """Rules for a sentence, all lengths counted without the end symbol; one that reaches `max_length` has to end there.

    A rule takes choices away; it does not change the probabilities of what is left, so that a hypothesis scores as the
    same tokens would by teacher forcing.
    """

    max_length: int
    min_length: int = 0
    prefix: Sequence[int] = ()  # what the output has to begin with
    forbidden: Sequence[int] = NEVER

    def __post_init__(self) -> None:
        if not 0 <= self.min_length <= self.max_length:
            raise CallError(f"min_length={self.min_length} must be between 0 and max_length={self.max_length}")
        if len(self.prefix) > self.max_length:
            raise CallError(f"the prefix has {len(self.prefix)} tokens: max_length={self.max_length} is too small")
        if any(token in (*NEVER, END, *self.forbidden) for token in self.prefix):
            raise CallError(f"the prefix contains a token that cannot be generated: {list(self.prefix)}")

    def only(self, step: int) -> int | None:
        """The one token that may come at this step; None: several may."""
        if step < len(self.prefix):
            return self.prefix[step]
        return END if step >= self.max_length else None


def constrain(logits: Float[Tensor, "N V"], rules: Sequence[tuple[Constraints, int]]) -> None:
    """Put −∞ over whatever a sentence may not say. Works in place.

    `rules`: the constraints of each sentence and its step; every sentence has as many rows as any other.
    """
    by_sentence = logits.view(len(rules), -1, logits.shape[1])
    same = all(one.forbidden == rules[0][0].forbidden for one, _ in rules)
    for part, (one, _) in [(logits, rules[0])] if same else zip(by_sentence, rules, strict=True):
        part[:, list(one.forbidden)] = -torch.inf
    if early := [number for number, (one, step) in enumerate(rules) if step < one.min_length]:
        by_sentence[early, :, END] = -torch.inf
    only = [one.only(step) for one, step in rules]
    if forced := [number for number, token in enumerate(only) if token is not None]:
        _keep(by_sentence, forced, torch.tensor([only[number] for number in forced], device=logits.device))


def _keep(logits: Float[Tensor, "S W V"], sentences: list[int], tokens: Int[Tensor, " F"]) -> None:
    """Of these sentences, these tokens only."""
    index = tokens[:, None, None].expand(-1, logits.shape[1], 1)
    some = logits[sentences]
    logits[sentences] = torch.full_like(some, -torch.inf).scatter(2, index, some.gather(2, index))
