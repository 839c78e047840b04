"""Teacher forcing of given texts for many inputs at once: their probability and attention.

Decoding is never traced. The output (or a reference) is forced through the model under a trace, which gives
the weights of decoding, also for the best hypothesis of a beam search.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention import Trace
from regard.data.batches import pad_sentences
from regard.data.tokenizer import Tokenizer
from regard.decoders.transformer import TransformerDecoder
from regard.errors import CallError
from regard.generation.alignment import forced_alignment
from regard.inputs.base import Input
from regard.look.case import evaluating
from regard.look.hooks import ROWS_AT_ONCE
from regard.look.stream import ResidualStream
from regard.models.seq2seq import Seq2Seq, SpeechToText
from regard.tasks.batched import device_of
from regard.tasks.result import group_by_length
from regard.tasks.text.writing import CrossAttentionArrays, Ids

T = TypeVar("T")


def log_probabilities(model: Seq2Seq, input: Input, items: Sequence[Any], targets: Sequence[Ids]) -> list[float]:
    """Return log p(target | item) of each pair, including the end token."""
    return score_forced(
        model, input, items, targets, lambda some, source, target: model.score(source, target).sum(1).tolist()
    )


def cross_attention(
    model: Seq2Seq, input: Input, items: Sequence[Any], targets: Sequence[Ids], tokens: int = ROWS_AT_ONCE
) -> list[CrossAttentionArrays]:
    """Return the attention over the input when the model generates each target; about `tokens` tokens per batch."""

    def look(some: list[Ids], source: Any, target: Int[Tensor, "B T"]) -> list[CrossAttentionArrays]:
        with Trace(model) as seen:
            memory = model.encode(source)
            model.features(memory, target)
        tables = _over_the_memory(seen)
        mask, K = memory.mask, memory.vectors.shape[1]
        counts = [K] * len(some) if mask is None else mask.sum(1).tolist()
        heard = model.ctc_scores(memory).cpu() if isinstance(model, SpeechToText) and model.ctc is not None else None
        return [
            CrossAttentionArrays(
                {name: table[row, :, : len(ids) + 1, :count] for name, table in tables.items()},
                None if heard is None else forced_alignment(heard[row, :count], list(ids)),
            )
            for row, (ids, count) in enumerate(zip(some, counts, strict=True))
        ]

    with evaluating(model):
        return score_forced(model, input, items, targets, look, tokens)


@torch.inference_mode()
def score_forced(
    model: Seq2Seq,
    input: Input,
    items: Sequence[Any],
    targets: Sequence[Ids],
    work: Callable[[list[Ids], Any, Tensor], list[T]],
    tokens: int = ROWS_AT_ONCE,
) -> list[T]:
    """Run `work(targets, source, target)` on groups of similar length, as an encoder and a decoder read them."""
    device = device_of(model)

    def force(numbers: list[int]) -> list[T]:
        some = [targets[number] for number in numbers]
        source = input.collate([items[number] for number in numbers]).to(device)
        return work(some, source, pad_sentences(some).to(device))

    lengths = [max(input.length(item), len(target)) for item, target in zip(items, targets, strict=True)]
    return group_by_length(lengths, tokens, force)


def _over_the_memory(trace: Trace) -> dict[str, np.ndarray]:
    """Return the cross-attention weights, times their gate if there is one."""
    try:
        roles = {name: trace.role(name).kind for name in trace.names}
    except RuntimeError:  # a model without attention
        return {}
    gate = next((trace[name] for name, kind in roles.items() if kind == "gate"), None)
    found = {name: trace[name] for name, kind in roles.items() if kind == "cross"}
    return {name: (one if gate is None else one * gate).float().cpu().numpy() for name, one in found.items()}


# The residual stream of a Transformer decoder, for `look`: its layers, and its output layer.


def token_of(tokenizer: Tokenizer, word: str) -> int:
    """Return the first token of a word."""
    ids = tokenizer.encode(word)
    if not ids or ids[0] == tokenizer.specials.unk:
        raise CallError(f"instead={word!r} is not in the vocabulary of this model")
    return ids[0]


def stream_of(
    decoder: nn.Module, output: nn.Linear, tokenizer: Tokenizer, answers: Sequence[int], instead: int | None
) -> ResidualStream | None:
    """Return the residual stream; None if the decoder is not a Transformer."""
    if not isinstance(decoder, TransformerDecoder):
        return None
    plain = isinstance(decoder.enter, nn.Identity)
    return ResidualStream(
        list(decoder.layers), decoder.norm, output, answers, tokenizer.labels, instead,
        decoder.embedding.positions if plain else None,
    )  # fmt: skip
