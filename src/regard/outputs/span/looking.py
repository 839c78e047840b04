"""Attention of a reader: the words of the document that those of the question attend to.

    transformer    for every layer and head, the rows of the question and the columns of the document (`cross`), and the
                   whole table (`encoder`). The rest of the weight is on the question and the special tokens.
    recurrent      layer 0: document words attend to question words, transposed, so that columns sum to one;
                   layer 1: question words attend to document words (see `models/attention_flow.py`)

A long document is shown by the window in which the answer has the most context on both sides. The answer is in
brackets ⟦ ⟧. input-gradient and leave-one-out attribute log p(start) + log p(end) of the answer to both texts; the
answer is then the only row, and its words cannot be occluded.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.inputs.question.input import QuestionInput
from regard.look.case import Case, Parts
from regard.look.passes import in_passes
from regard.models.reader import Reader
from regard.outputs.base import Told
from regard.outputs.batched import device_of
from regard.outputs.span.placing import axes_of, between, shown_window


def reader_case(model: Reader, input: QuestionInput, one: Any, told: Told) -> Case:
    """Return the case. `told.target`: the characters of the answer; None if there is none."""
    shown = shown_window(input, one, told.target)
    (item, first, last), device = shown, device_of(model)
    asked = len(item.question)
    own = frozenset(range(asked + first - 1, asked + last)) if first else frozenset()  # parts that are never occluded

    def ask(without: Sequence[Parts]) -> Tensor:
        return in_passes(without, input.length(item), _point)

    def _point(without: Sequence[Parts]) -> Tensor:
        pair = input.collate([input.without(item, parts - own) for parts in without]).to(device)
        before = [sum(asked <= part < asked + first - 1 for part in parts) for parts in without]
        places = torch.tensor([[[first - less, last - less]] for less in before], device=device)  # N 1 2
        pointers = torch.stack(model.point(pair.question, pair.document), dim=2).float().log_softmax(1)
        return pointers.gather(1, places).sum(2)

    return Case(
        model, ask, axes_of(input, shown, told.text), input.parts(item), vectors=input.vectors(model),
        gather=lambda products: input.gather(item, products), place=between(*input.sides(item)), by_step=False,
    )  # fmt: skip
