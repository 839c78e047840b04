"""Where a reader looks: which words of the document those of the question attend to.

    transformer    of every layer and head, the rows of the question and the columns of the document (`cross`), and the
                   whole table (`encoder`). What is not on the document went to the question and the marks.
    recurrent      layer 0: document words look at question words, turned round, so that columns sum to one;
                   layer 1: question words look at document words (see `models/attention_flow.py`)

A long document is shown by the window in which the answer has the most context on both sides. The answer stands in
brackets ⟦ ⟧. input-gradient and leave-one-out ask what both texts did for log p(start) + log p(end) of the answer,
which is then the only row; the answer's own words cannot be left out.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.errors import CallError
from regard.inputs.question.input import QuestionInput, WindowItem
from regard.look import Attention, Axis
from regard.look.axis import whole
from regard.look.case import Case, Parts
from regard.look.passes import in_passes
from regard.look.placing import Table
from regard.models.reader import Reader
from regard.outputs.base import Told
from regard.outputs.batched import device_of


def reader_case(model: Reader, input: QuestionInput, one: Any, told: Told) -> Case:
    """`told.target`: the characters of the answer; None if there is none."""
    item, first, last = _window(input, one, told.target)
    (question, document), device = input.sides(item), device_of(model)
    asked = len(item.question)
    own = frozenset(range(asked + first - 1, asked + last)) if first else frozenset()  # parts that stay

    def ask(without: Sequence[Parts]) -> Tensor:
        return in_passes(without, input.length(item), _point)

    def _point(without: Sequence[Parts]) -> Tensor:
        pair = input.collate([input.without(item, parts - own) for parts in without]).to(device)
        before = [sum(asked <= part < asked + first - 1 for part in parts) for parts in without]
        places = torch.tensor([[[first - less, last - less]] for less in before], device=device)  # N 1 2
        pointers = torch.stack(model.point(pair.question, pair.document), dim=2).float().log_softmax(1)
        return pointers.gather(1, places).sum(2)

    def place(case: Case, tables: Sequence[Table]) -> list[Attention]:
        found = []
        for name, role, weights in tables:
            between = weights[:, question, document]
            if role.kind == "encoder":
                found.append(Attention(name, "encoder", role.layer, weights, "source", "source"))
            else:
                between = weights.swapaxes(1, 2) if role.layer == 0 else weights
            found.append(Attention(name, "cross", role.layer, between, "question", "document"))
        return found

    both = _bracketed(input.axis(item), document.start, first, last)
    axes = {"target": whole(told.text or "(no answer)"), "source": both}
    axes |= {"question": both.taken(range(len(both))[question]), "document": both.taken(range(len(both))[document])}
    return Case(
        model, ask, axes, input.parts(item), vectors=input.vectors(model),
        gather=lambda products: input.gather(item, products), place=place, by_step=False,
    )  # fmt: skip


def _window(input: QuestionInput, one: Any, chars: tuple[int, int] | None) -> tuple[WindowItem, int, int]:
    """The window in which the answer has the most context on its poorer side, and its tokens there, from 1; the first
    window, and 0, if there is none."""
    items = list(input.in_windows(one))
    if not input.length(items[0]):
        raise CallError("the question or the document has no token: there is nothing to look at")
    tokens = None if chars is None else input.document(one).tokens_of(*chars)
    if tokens is None:
        return items[0], 0, 0
    first, last = tokens
    item = max(items, key=lambda item: min(first - item.start, item.start + len(item.document) - 1 - last))
    return item, first - item.start + 1, last - item.start + 1


def _bracketed(axis: Axis, document: int, first: int, last: int) -> Axis:
    """The answer's tokens (from 1; 0: none) in brackets."""
    tokens = list(axis.tokens)
    if first:
        for place, (before, after) in ((first, ("⟦", "")), (last, ("", "⟧"))):
            token = tokens[document + place - 1]
            tokens[document + place - 1] = replace(token, text=before + token.text + after)
    return replace(axis, tokens=tuple(tokens))
