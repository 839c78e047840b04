"""One side of a comparison: an input and what makes one vector of it, held against the vector of the other side.

    cos(v(x), w)          w is the other side's: of another text, or of a text beside a picture

Two sides do not see each other, so each of them is asked alone, with what the other one said as it was.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from regard.encoders.class_token import by_class_token
from regard.inputs.base import Input
from regard.look.axis import Axis, Token
from regard.look.case import Case, Parts
from regard.look.pooled_attention import pooled
from regard.look.records import Kind
from regard.outputs.text.search import grouped


@dataclass(frozen=True)
class Side:
    """`embed` makes vectors, of `width`, of what the input collates; `batch_tokens` go through it together."""

    input: Input
    encoder: nn.Module
    pooling: nn.Module
    embed: Callable[[Tensor], Float[Tensor, "B D"]]
    width: int
    batch_tokens: int

    @torch.inference_mode()
    def vectors(self, items: Sequence[Any]) -> Float[Tensor, "N D"]:
        """In the order of the items, on the CPU."""

        def embed(numbers: list[int]) -> list[Tensor]:
            return list(self._embed([items[number] for number in numbers]).float().cpu())

        lengths = [self.input.length(item) for item in items]
        found = grouped(len(items), lengths, self.batch_tokens, embed)
        return torch.stack(found) if found else torch.empty(0, self.width)

    def unit(self, items: Sequence[Any]) -> Float[Tensor, "N D"]:
        """The same, of length 1."""
        return normalize(self.vectors(items), dim=-1)

    def case(
        self,
        model: nn.Module,
        item: Any,
        other: Float[Tensor, " D"],
        axes: Mapping[str, Axis],
        *,
        columns: str = "source",
        kind: Kind = "cross",
        beside: Sequence[Case] = (),
    ) -> Case:
        """The cosine of an item with the other side, as something to look into; the other side is the one row."""
        input, device = self.input, next(self.encoder.parameters()).device
        other = other.clone().to(device)  # a vector for inference has no part in gradients

        def ask(without: Sequence[Parts]) -> Tensor:
            items = [input.without(item, parts) if parts else item for parts in without]
            at_once = max(1, self.batch_tokens // (input.length(item) + 1))
            found = [self._embed(items[start : start + at_once]) for start in range(0, len(items), at_once)]
            return (normalize(torch.cat(found).float(), dim=-1) @ other)[:, None]

        return Case(
            model, ask, axes, input.parts(item), vectors=input.vectors(self.encoder),
            gather=lambda products: input.gather(item, products), columns=columns, kind=kind,
            place=pooled(by_class_token(self.encoder, self.pooling)), beside=beside,
        )  # fmt: skip

    def _embed(self, items: Sequence[Any]) -> Float[Tensor, "B D"]:
        return self.embed(self.input.collate(items).to(next(self.encoder.parameters()).device))


def whole(text: str) -> Axis:
    """A text as the one thing that looks."""
    return Axis((Token(text, (0, len(text)), 0),), text)
