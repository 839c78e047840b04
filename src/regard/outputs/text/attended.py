"""Where a decoder looked while it wrote given texts: weights of a forced pass, for many inputs at once.

Decoding is never traced. The output (or a reference) is forced through the model once more under a trace, which gives
the weights that decoding had, for the winner of a beam search as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from regard.attention import Trace
from regard.data.batches import pad_sentences
from regard.decoding.ctc import forced_alignment
from regard.inputs.base import Input
from regard.look.attribution import evaluating
from regard.models.ctc import SpeechToText
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text.search import Ids, grouped

GROUP = 4096  # tokens that go through the model together


@dataclass(frozen=True)
class Attended:
    """Each attention's heads × tokens (the end included) × vectors of the memory; empty for a model without any."""

    weights: dict[str, np.ndarray]
    ctc: list[tuple[int, int]] | None = None  # by CTC: the first and last vector of each token

    @property
    def mean(self) -> Float[np.ndarray, "T K"]:
        """Over all heads of all layers."""
        return np.mean([heads.mean(axis=0) for heads in self.weights.values()], axis=0)


@torch.inference_mode()
def attended(
    model: Seq2Seq, input: Input, items: Sequence[Any], targets: Sequence[Ids], group: int = GROUP
) -> list[Attended]:
    device = next(model.parameters()).device

    def look(numbers: list[int]) -> list[Attended]:
        source = input.collate([items[number] for number in numbers]).to(device)
        target = pad_sentences([targets[number] for number in numbers]).to(device)
        with Trace(model) as seen:
            memory = model.encode(source)
            model.features(memory, target)
        tables = _over_the_memory(seen)
        mask, K = memory.mask, memory.vectors.shape[1]
        counts = [K] * len(numbers) if mask is None else mask.sum(1).tolist()
        heard = model.ctc_scores(memory).cpu() if isinstance(model, SpeechToText) and model.ctc is not None else None
        return [
            Attended(
                {name: table[row, :, : len(targets[n]) + 1, :count] for name, table in tables.items()},
                None if heard is None else forced_alignment(heard[row, :count], list(targets[n])),
            )
            for row, (n, count) in enumerate(zip(numbers, counts, strict=True))
        ]

    lengths = [max(input.length(item), len(target)) for item, target in zip(items, targets, strict=True)]
    with evaluating(model):
        return grouped(len(items), lengths, group, look)


def _over_the_memory(seen: Trace) -> dict[str, np.ndarray]:
    """Cross-attention, times its gate where there is one."""
    try:
        roles = {name: seen.role(name).kind for name in seen.names}
    except RuntimeError:  # nothing attends in this model
        return {}
    gate = next((seen[name] for name, kind in roles.items() if kind == "gate"), None)
    found = {name: seen[name] for name, kind in roles.items() if kind == "cross"}
    return {name: (one if gate is None else one * gate).float().cpu().numpy() for name, one in found.items()}
