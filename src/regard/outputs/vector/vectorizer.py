"""Inputs into vectors, and why a vector is near another one.

    cos(v(x), w)          w is the other one: of another text, or of a text beside a picture

The two do not see each other, so each of them is asked alone, with the other one as it was.
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
from regard.look.axis import Axis
from regard.look.case import Case
from regard.look.pooled_attention import pooled
from regard.outputs.batched import case_of, device_of, rows_of


@dataclass(frozen=True)
class Vectorizer:
    """`embed` makes vectors, of `width`, of what the input collates; `batch_tokens` go through it together."""

    input: Input
    encoder: nn.Module
    pooling: nn.Module
    embed: Callable[[Any], Float[Tensor, "B D"]]
    width: int
    batch_tokens: int

    def vectors(self, items: Sequence[Any]) -> Float[Tensor, "N D"]:
        """In the order of the items, on the CPU."""
        found = rows_of(self.input, self.encoder, items, self.embed, self.batch_tokens)
        return torch.stack(found) if found else torch.empty(0, self.width)

    def unit(self, items: Sequence[Any]) -> Float[Tensor, "N D"]:
        """The same, of length 1."""
        return normalize(self.vectors(items), dim=-1)

    def case(
        self, model: nn.Module, item: Any, other: Float[Tensor, " D"], axes: Mapping[str, Axis], **how: Any
    ) -> Case:
        """The cosine of an item with the other vector, as something to look into; what that is of is the one row."""
        other = other.clone().to(device_of(model))  # a vector for inference has no part in gradients

        def cosine(source: Any) -> Float[Tensor, "N 1"]:
            return (normalize(self.embed(source).float(), dim=-1) @ other)[:, None]

        place = pooled(by_class_token(self.encoder, self.pooling))
        how |= {"place": place, "at_once": self.batch_tokens}
        return case_of(self.input, model, self.encoder, item, cosine, axes, **how)
