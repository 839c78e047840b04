"""Self-attention of an encoder of texts: over one text, or over two that it reads as one pair."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import CallError
from regard.inputs.text.input import TextInput, TextItem
from regard.look.axis import Axis
from regard.look.case import Case, Parts
from regard.models.embedder import Embedder
from regard.outputs.batched import device_of


class Other(NamedTuple):
    """The text that another one is held against; `joined`: both are read as one pair, in one go."""

    item: TextItem
    joined: bool


def texts_case(model: Embedder, input: TextInput, item: TextItem, second: TextItem | None, most: int) -> Case:
    """`most`: tokens that two texts may have together."""
    if second is not None and len(item.ids) + len(second.ids) > most:
        raise CallError(f"the two texts have more tokens together than the {most} that the model reads")
    tokens, types = input.tokenizer.framed(item.ids, None if second is None else second.ids)
    device = device_of(model)
    segments = None if second is None else torch.tensor([types], device=device)

    def ask(without: Sequence[Parts]) -> Tensor:
        memory = model.encoder(torch.tensor([tokens], device=device), segments)
        return memory.summary.new_empty(len(without), 0)  # nothing is said, so no step of it can be asked about

    axis = input.axis(item)
    return Case(model, ask, {"source": axis if second is None else _joined(axis, input.axis(second))})


def _joined(first: Axis, second: Axis) -> Axis:
    """Two texts, read one after the other; the second does not begin anew."""
    shift = len(first.text) + 1
    words = max((token.word for token in first.tokens if token.word is not None), default=-1) + 1
    rest = (
        replace(
            token,
            span=None if token.span is None else (token.span[0] + shift, token.span[1] + shift),
            word=None if token.word is None else token.word + words,
        )
        for token in second.tokens[1:]
    )
    return Axis((*first.tokens, *rest), f"{first.text} {second.text}")
