"""Where a language model looked: rows are the tokens that were told, columns those that were read before them."""

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
    """`tokens`: all of them, the prompt's and what follows it. Row t was told after columns 0 … t. `instead`: a token
    of which the lead is asked for."""
    read, told = Prompt(one, list(tokens[:-1])), tokens[1:]
    if len(read.ids) > context:
        raise CallError(f"the text has {len(read.ids)} tokens, but this model looks back at {context}: give less of it")
    if not told:
        raise CallError(
            f"of {input.tokenizer.decode(tokens)!r}, nothing is told: a model tells each token but the first"
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
    """log p of each token that was told, by what was read before it and not left out.

    A token that is left out changes nothing before it. With nothing to read, all tokens are equally probable.
    """
    device, places = device_of(model), input.parts(read)
    kept = torch.ones(len(without), len(read.ids), dtype=torch.long, device=device)
    for row, parts in zip(kept, without, strict=True):
        row[[places[part] for part in parts]] = 0
    last = kept.cumsum(1) - 1  # the place of the last token that is read before each step
    shortened = [input.without(read, parts) for parts in without]
    features = model.features(input.collate(shortened).to(device))
    features = features.take_along_dim(last.clamp(min=0).unsqueeze(2), dim=1)
    tokens = torch.tensor(told, device=device).expand(len(without), -1)
    known = model.log_probabilities(features, tokens, instead)
    return torch.where(last < 0, -math.log(model.output.out_features) if instead is None else 0.0, known)
