"""Attention of a language model: rows are the predicted tokens, columns the tokens read before them."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import CallError
from regard.inputs.prompt.input import Prompt, PromptInput
from regard.look.case import Case, Parts
from regard.look.passes import in_passes
from regard.models.language_model import LanguageModel
from regard.outputs.batched import device_of
from regard.outputs.text.stream import stream_of


def continuation_case(
    model: LanguageModel, input: PromptInput, one: str, tokens: Sequence[int], context: int, instead: int | None
) -> Case:
    """Return the case. `tokens`: all tokens of the prompt and its continuation. Row t was predicted after columns 0 …
    t. `instead`: the contrast token, whose lead is scored.
    """
    read, told = Prompt(one, list(tokens[:-1])), tokens[1:]
    if len(read.ids) > context:
        raise CallError(f"the text has {len(read.ids)} tokens; this model reads at most {context}: shorten it")
    if not told:
        raise CallError(
            f"{input.tokenizer.decode(tokens)!r} has no predicted token; "
            "a language model predicts every token but the first: give more text"
        )

    def ask(without: Sequence[Parts]) -> Tensor:
        return in_passes(without, len(read.ids), lambda some: _told_without(model, input, read, told, some, instead))

    return Case(
        model, ask, {"target": input.axis(Prompt("", list(told))), "read": input.axis(read)},
        input.parts(read), columns="read", first=max(0, min(len(input.read(one).ids), len(told)) - 1),
        vectors=input.vectors(model.decoder), gather=lambda products: input.gather(read, products),
        stream=stream_of(model.decoder, model.output, input.tokenizer, told, instead),
    )  # fmt: skip


def _told_without(
    model: LanguageModel,
    input: PromptInput,
    read: Prompt,
    told: Sequence[int],
    without: Sequence[Parts],
    instead: int | None,
) -> Float[Tensor, "N T"]:
    """Return log p of each predicted token, given the tokens before it that are not occluded.

    Occluding a token does not change earlier predictions. Without any token to read, all tokens are equally probable.
    """
    device, places = device_of(model), input.parts(read)
    kept = torch.ones(len(without), len(read.ids), dtype=torch.long, device=device)
    for row, parts in zip(kept, without, strict=True):
        row[[places[part] for part in parts]] = 0
    last = kept.cumsum(1) - 1  # the position of the last token read before each step
    shortened = [input.without(read, parts) for parts in without]
    features = model.features(input.collate(shortened).to(device))
    features = features.take_along_dim(last.clamp(min=0).unsqueeze(2), dim=1)
    tokens = torch.tensor(told, device=device).expand(len(without), -1)
    known = model.log_probabilities(features, tokens, instead)
    return torch.where(last < 0, -math.log(model.output.out_features) if instead is None else 0.0, known)
