"""Teacher forcing of given texts for many inputs at once: their probability and attention.

Decoding is never traced. The output (or a reference) is forced through the model under a trace, which gives
the weights of decoding, also for the best hypothesis of a beam search.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention import Trace
from regard.data.batches import pad_sentences
from regard.decoding.forced_alignment import forced_alignment
from regard.inputs.base import Input
from regard.look.asking import evaluating
from regard.look.passes import AT_ONCE
from regard.models.ctc import SpeechToText
from regard.models.seq2seq import Seq2Seq
from regard.outputs.batched import device_of
from regard.outputs.groups import grouped
from regard.outputs.text.seen import CrossAttention, Ids

T = TypeVar("T")


def log_probabilities(model: Seq2Seq, input: Input, items: Sequence[Any], targets: Sequence[Ids]) -> list[float]:
    """Return log p(target | item) of each pair, including the end token."""
    return forced(
        model, input, items, targets, lambda some, source, target: model.score(source, target).sum(1).tolist()
    )


def cross_attention(
    model: Seq2Seq, input: Input, items: Sequence[Any], targets: Sequence[Ids], tokens: int = AT_ONCE
) -> list[CrossAttention]:
    """Return the attention over the input when the model generates each target; about `tokens` tokens per batch."""

    def look(some: list[Ids], source: Any, target: Int[Tensor, "B T"]) -> list[CrossAttention]:
        with Trace(model) as seen:
            memory = model.encode(source)
            model.features(memory, target)
        tables = _over_the_memory(seen)
        mask, K = memory.mask, memory.vectors.shape[1]
        counts = [K] * len(some) if mask is None else mask.sum(1).tolist()
        heard = model.ctc_scores(memory).cpu() if isinstance(model, SpeechToText) and model.ctc is not None else None
        return [
            CrossAttention(
                {name: table[row, :, : len(ids) + 1, :count] for name, table in tables.items()},
                None if heard is None else forced_alignment(heard[row, :count], list(ids)),
            )
            for row, (ids, count) in enumerate(zip(some, counts, strict=True))
        ]

    with evaluating(model):
        return forced(model, input, items, targets, look, tokens)


@torch.inference_mode()
def forced(
    model: Seq2Seq,
    input: Input,
    items: Sequence[Any],
    targets: Sequence[Ids],
    work: Callable[[list[Ids], Any, Tensor], list[T]],
    tokens: int = AT_ONCE,
) -> list[T]:
    """Run `work(targets, source, target)` on groups of similar length, as an encoder and a decoder read them."""
    device = device_of(model)

    def force(numbers: list[int]) -> list[T]:
        some = [targets[number] for number in numbers]
        source = input.collate([items[number] for number in numbers]).to(device)
        return work(some, source, pad_sentences(some).to(device))

    lengths = [max(input.length(item), len(target)) for item, target in zip(items, targets, strict=True)]
    return grouped(lengths, tokens, force)


def _over_the_memory(seen: Trace) -> dict[str, np.ndarray]:
    """Return the cross-attention weights, times their gate if there is one."""
    try:
        roles = {name: seen.role(name).kind for name in seen.names}
    except RuntimeError:  # a model without attention
        return {}
    gate = next((seen[name] for name, kind in roles.items() if kind == "gate"), None)
    found = {name: seen[name] for name, kind in roles.items() if kind == "cross"}
    return {name: (one if gate is None else one * gate).float().cpu().numpy() for name, one in found.items()}
