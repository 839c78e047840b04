"""What may come next: lengths, forced prefixes, symbols that are never an output."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import CallError
from regard.special_tokens import END, PAD, START


class Constraints:
    """Rules for a list of sentences, all lengths counted without the end symbol.

    `max_length`: one number, or one a sentence; a sentence that reaches it has to end there. `prefixes`: tokens that a
    sentence's output has to begin with, one (perhaps empty) list a sentence. A rule takes choices away; it does not
    change the probabilities of what is left, so that a hypothesis scores as the same tokens would by teacher forcing.
    """

    def __init__(
        self,
        max_length: int | Sequence[int],
        *,
        min_length: int = 0,
        prefixes: Sequence[Sequence[int]] | None = None,
        forbidden: Sequence[int] = (PAD, START),
    ) -> None:
        self.max_length, self.min_length = max_length, min_length
        self.prefixes, self.forbidden = prefixes, list(forbidden)
        self.longest = max_length if isinstance(max_length, int) else max(max_length, default=0)
        shortest_limit = max_length if isinstance(max_length, int) else min(max_length, default=0)
        if not 0 <= min_length <= shortest_limit:
            raise CallError(f"min_length={min_length} must be between 0 and max_length={shortest_limit}")
        for number, prefix in enumerate(prefixes or ()):
            if len(prefix) > self.limit(number):
                raise CallError(
                    f"prefix {number} has {len(prefix)} tokens: max_length={self.limit(number)} is too small"
                )
            if any(token in (PAD, START, END, *forbidden) for token in prefix):
                raise CallError(f"prefix {number} has a token in it that is never an output: {list(prefix)}")
        self._shortest_limit = shortest_limit
        self._longest_prefix = max((len(prefix) for prefix in prefixes or ()), default=0)

    def limit(self, sentence: int) -> int:
        return self.max_length if isinstance(self.max_length, int) else self.max_length[sentence]

    def apply(self, logits: Float[Tensor, "N V"], step: int, sentences: Int[Tensor, " N"]) -> None:
        """Put −∞ over whatever `sentences` (the sentence of each row) may not say at this step. Works in place."""
        logits[:, self.forbidden] = -torch.inf
        if step < self.min_length:
            logits[:, END] = -torch.inf
        if step >= self._shortest_limit:
            self._force(logits, [END if step >= self.limit(s) else None for s in sentences.tolist()])
        if step < self._longest_prefix and self.prefixes is not None:
            forced = [self.prefixes[s][step] if step < len(self.prefixes[s]) else None for s in sentences.tolist()]
            self._force(logits, forced)

    @staticmethod
    def _force(logits: Tensor, choices: list[int | None]) -> None:
        rows = [row for row, choice in enumerate(choices) if choice is not None]
        if rows:
            index = torch.tensor(rows, device=logits.device)
            only = torch.tensor([c for c in choices if c is not None], device=logits.device).unsqueeze(1)
            kept = logits[index].gather(1, only)
            logits[index] = torch.full_like(logits[index], -torch.inf).scatter(1, only, kept)
