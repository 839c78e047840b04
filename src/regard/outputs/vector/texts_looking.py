"""Self-attention of a text encoder over one text, or over two that it reads as one pair."""

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
    """The text that another one is compared with; `joined`: both are read as one pair."""

    item: TextItem
    joined: bool


def texts_case(model: Embedder, input: TextInput, item: TextItem, second: TextItem | None, most: int) -> Case:
    """Return the case. `most`: maximum tokens of both texts together."""
    if second is not None and len(item.ids) + len(second.ids) > most:
        raise CallError(f"the two texts together have more tokens than the model's limit of {most}")
    tokens, types = input.tokenizer.framed(item.ids, None if second is None else second.ids)
    device = device_of(model)
    segments = None if second is None else torch.tensor([types], device=device)

    def ask(without: Sequence[Parts]) -> Tensor:
        memory = model.encoder(torch.tensor([tokens], device=device), segments)
        return memory.summary.new_empty(len(without), 0)  # there is no output with steps to score

    axis = input.axis(item)
    return Case(model, ask, {"source": axis if second is None else _joined(axis, input.axis(second))})


def _joined(first: Axis, second: Axis) -> Axis:
    """Join the axes of two texts, read one after the other; the second has no start token."""
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
