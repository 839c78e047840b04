"""The graph of a language model: tokens and keys and values of those before → logits, keys and values.

With nothing before (a length of 0) it scores a whole text; with one token a row it is a step of writing.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention.cache import KeyValue
from regard.attention.trace import Trace
from regard.decoders.transformer_state import TransformerState
from regard.exporters.onnx.graph import ATTENTION, Flat, Graph, names_in, weights_in
from regard.models.language_model import LanguageModel

Tensors = dict[str, Tensor]
ROWS, PAST, NEW = 2, 3, 4  # sizes of the example


def empty_past(model: LanguageModel, rows: int, length: int = 0) -> Tensors:
    found: Tensors = {}
    for number, block in enumerate(model.decoder._blocks()):
        heads = block.attention.kv_heads
        width = block.attention.sizes[1] // heads
        for kind in ("key", "value"):
            found[f"past_{kind}_{number}"] = torch.zeros(rows, heads, length, width)
    return found


def graphs(model: LanguageModel, attention: bool) -> list[Graph]:
    past, names = empty_past(model, ROWS, PAST), list[str]()
    if attention:
        with Trace(model) as trace:
            model.features(torch.full((ROWS, NEW), 5))
        names = names_in(trace)
    inputs = {"tokens": torch.full((ROWS, NEW), 5), **past}

    def read(given: Tensors) -> Sequence[Tensor]:
        numbers = range(len(model.decoder.layers))
        kept = tuple(KeyValue(given[f"past_key_{n}"], given[f"past_value_{n}"]) for n in numbers)
        tokens = given["tokens"]
        state = TransformerState(
            kept, (None,) * len(kept), None, kept[0].key.shape[-2], tokens.shape[0], 1, tokens.device
        )
        with Trace(model) as trace:
            features, after = model.decoder.read(tokens, state)
        pairs = [one for one in after.past if isinstance(one, KeyValue)]
        return [
            model.output(features), *(tensor for pair in pairs for tensor in pair), *weights_in(trace, names)
        ]  # fmt: skip

    dynamic = {"tokens": {0: "rows", 1: "new"}} | {name: {0: "rows", 2: "past"} for name in past}
    outputs = ["logits", *(f"next_{name}" for name in past), *map(ATTENTION.format, names)]
    return [Graph("decoder", Flat(model, list(inputs), read), inputs, dynamic, outputs)]
