"""Embedding of inputs, and explanation of the cosine of two vectors.

    cos(v(x), w)          w is the other vector: of another text, or of the text of a picture

The two inputs do not attend to each other, so each is explained separately with the other one fixed.
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
    """A pooled encoder. `embed` maps batches of the input to vectors of `width`; `batch_tokens` limits a batch."""

    input: Input
    encoder: nn.Module
    pooling: nn.Module
    embed: Callable[[Any], Float[Tensor, "B D"]]
    width: int
    batch_tokens: int

    def vectors(self, items: Sequence[Any]) -> Float[Tensor, "N D"]:
        """Return the vectors in the order of the items, on the CPU."""
        found = rows_of(self.input, self.encoder, items, self.embed, self.batch_tokens)
        return torch.stack(found) if found else torch.empty(0, self.width)

    def unit(self, items: Sequence[Any]) -> Float[Tensor, "N D"]:
        """Return `vectors` scaled to length 1."""
        return normalize(self.vectors(items), dim=-1)

    def case(
        self, model: nn.Module, item: Any, other: Float[Tensor, " D"], axes: Mapping[str, Axis], **how: Any
    ) -> Case:
        """Return the case of the cosine of an item with the other vector, which is the one row."""
        other = other.clone().to(device_of(model))  # a vector for inference is detached

        def cosine(source: Any) -> Float[Tensor, "N 1"]:
            return (normalize(self.embed(source).float(), dim=-1) @ other)[:, None]

        place = pooled(by_class_token(self.encoder, self.pooling))
        how |= {"place": place, "at_once": self.batch_tokens}
        return case_of(self.input, model, self.encoder, item, cosine, axes, **how)
