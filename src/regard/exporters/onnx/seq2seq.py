"""Graphs of models that generate text.

    encoder   source → the state before the first step; of a model with CTC also `ctc`
    decoder   token, state → logits of the next token, state: one step for each row
    scorer    source, target → logits of all steps at once, if no step needs the one before

A state is a list of tensors, rows first, except those of recurrent layers (`hidden`, `cell`: layers first). The search
repeats and selects rows, so any search works with these graphs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention.memory import KeyValue, Memory
from regard.attention.trace import Trace
from regard.decoders.recurrent import RecurrentDecoder, RecurrentState
from regard.decoders.transformer import TransformerDecoder, TransformerState
from regard.exporters.onnx.graph import ATTENTION, Flat, Graph, name_tensors, names_in, rebuilt, sequences, weights_in
from regard.generation.alignment import BLANK, NEVER
from regard.models.language_model import LanguageModel
from regard.models.seq2seq import Seq2Seq, SpeechToText
from regard.special_tokens import END, START

Tensors = dict[str, Tensor]
TARGET = {0: "batch", 1: "steps"}
LAYERS_FIRST = ("hidden", "cell")


def seq2seq_graphs(model: Seq2Seq, source: Any, attention: bool) -> list[Graph]:
    tensors = name_tensors(source)
    memory = _read(model, source)
    state, beside = start(model, memory), ctc_scores(model, memory)
    changing = [name for name in state if name not in _memory_part(state)]
    first, after = Trace(model), Trace(model)
    _read(model, source, first)
    tokens = torch.full((len(next(iter(tensors.values()))),), START)
    target = torch.tensor([[5, 4, END], [4, END, 0]])[: len(tokens)]
    # After one step: torch takes sizes 0 and 1 for constants.
    past = {**state, **_next(model, tokens, state, changing)[1]}
    with after:
        past = {**past, **_next(model, tokens, past, changing)[1]}
    inside, seen = (names_in(trace) if attention else [] for trace in (first, after))
    stepped = {"tokens": tokens, **past}
    dynamic = {"tokens": {0: "rows"}} | {name: _dims(name, tensor) for name, tensor in past.items()}

    def begin(inputs: Tensors) -> Sequence[Tensor]:
        trace = Trace(model)
        memory = _read(model, rebuilt(source, inputs), trace)
        return [*start(model, memory).values(), *ctc_scores(model, memory).values(), *weights_in(trace, inside)]

    def step(inputs: Tensors) -> Sequence[Tensor]:
        with Trace(model) as trace:
            logits, after = _next(model, inputs["tokens"], inputs, changing)
        return [logits, *after.values(), *weights_in(trace, seen)]

    def score(inputs: Tensors) -> Sequence[Tensor]:
        with Trace(model):
            features = model.features(model.encode(rebuilt(source, inputs)), inputs["target"])
        return [model.output(features)]

    def graph(
        name: str, inputs: Tensors, compute: Callable[[Tensors], Any], sizes: Any, outputs: Sequence[str]
    ) -> Graph:
        return Graph(name, Flat(model, list(inputs), compute), inputs, sizes, outputs)

    of_source = sequences(tensors)
    found = [
        graph("encoder", tensors, begin, of_source, [*state, *beside, *map(ATTENTION.format, inside)]),
        graph(
            "decoder",
            stepped,
            step,
            dynamic,
            ["logits", *(f"next_{name}" for name in changing), *map(ATTENTION.format, seen)],
        ),
    ]
    if not _one_by_one(model):
        sizes = {**of_source, "target": TARGET}
        found.append(graph("scorer", {**tensors, "target": target}, score, sizes, ["logits"]))
    return found


def _one_by_one(model: Seq2Seq) -> bool:
    """Return whether each step needs the one before, so that no graph computes all steps at once."""
    decoder = model.decoder
    return isinstance(decoder, RecurrentDecoder) and (decoder.context == "previous" or decoder.input_feeding)


def _read(model: Seq2Seq, source: Any, trace: Trace | None = None) -> Memory:
    """Encode a source, always with a mask; `trace` records the attention."""
    with trace or Trace(model):
        memory = model.encode(source)
    mask = torch.ones_like(memory.vectors[..., 0]) > 0 if memory.mask is None else memory.mask
    return Memory(memory.vectors, mask, memory.summary, memory.grid)


def ctc_scores(model: Seq2Seq, memory: Memory) -> Tensors:
    """Return log p of each token, or of the blank (0), at each vector of the memory; after its end, p(blank) = 1."""
    if not isinstance(model, SpeechToText) or model.ctc is None:
        return {}
    assert memory.mask is not None
    scores = model.ctc_scores(memory)
    nothing = torch.full_like(scores[:1, :1], NEVER)
    nothing[..., BLANK] = 0.0
    return {"ctc": torch.where(memory.mask.unsqueeze(2), scores, nothing)}


def start(model: Seq2Seq, memory: Memory) -> Tensors:
    """Return the state before the first step, with a row for each row of the source."""
    decoder = model.decoder
    if isinstance(decoder, RecurrentDecoder):
        state = decoder.start(memory)
        parts = {"hidden": state.hidden, "cell": state.cell, "fed": state.fed, "key": state.key, "value": state.value}
        parts |= {"mask": None if state.mask is None else state.mask.squeeze(1), "summary": state.summary}
        return {name: tensor for name, tensor in parts.items() if tensor is not None}
    assert isinstance(decoder, TransformerDecoder)
    assert memory.mask is not None
    found: Tensors = {"mask": memory.mask}
    for number, block in enumerate(decoder._blocks()):
        if block.cross is not None:
            key, value = block.cross.project_memory(memory.vectors)
            found |= {f"memory_key_{number}": key, f"memory_value_{number}": value}
            heads = block.attention.kv_heads
            empty = key.new_zeros(key.shape[0], heads, 0, block.attention.sizes[1] // heads)  # len(): a constant
            found |= {f"past_key_{number}": empty, f"past_value_{number}": empty.clone()}
    return found


def _next(model: Seq2Seq, tokens: Tensor, state: Tensors, changing: Sequence[str]) -> tuple[Tensor, Tensors]:
    """Return the logits of the next token, and the tensors of the state that a step changes."""
    decoder, rows = model.decoder, tokens.shape[0]
    if isinstance(decoder, RecurrentDecoder):
        mask = state.get("mask")
        before = RecurrentState(
            state["hidden"], state.get("cell"), state.get("fed"), state.get("key"), state.get("value"),
            None if mask is None else mask.unsqueeze(1), state.get("summary"), copies=1, watch=False,
        )  # fmt: skip
        features, after = decoder.step(tokens, before)
        return model.output(features), {name: getattr(after, name) for name in changing}
    assert isinstance(decoder, TransformerDecoder)
    numbers = range(len(decoder.layers))
    past = tuple(KeyValue(state[f"past_key_{n}"], state[f"past_value_{n}"]) for n in numbers)
    memory = tuple(KeyValue(state[f"memory_key_{n}"], state[f"memory_value_{n}"]) for n in numbers)
    before = TransformerState(past, memory, state["mask"], past[0].key.shape[-2], rows, 1, state["mask"].device)
    features, after = decoder.read(tokens.unsqueeze(1), before)
    found = {}
    for number, kept in enumerate(after.past):
        assert isinstance(kept, KeyValue)
        found |= {f"past_key_{number}": kept.key, f"past_value_{number}": kept.value}
    return model.output(features.squeeze(1)), found


def _memory_part(state: Tensors) -> list[str]:
    """Return the tensors of the memory; a step only reads them."""
    return [name for name in state if name.startswith("memory_") or name in ("mask", "key", "value", "summary")]


def _dims(name: str, tensor: Tensor) -> dict[int, str]:
    if name in LAYERS_FIRST:
        return {1: "rows"}
    if name.startswith("past_"):
        return {0: "rows", 2: "past"}
    if name.startswith("memory_"):
        return {0: "rows", 2: "memory"}
    return {0: "rows", 1: "memory"} if name in ("mask", "key", "value") else {0: "rows"}


# The graph of a language model: tokens, and keys and values of the tokens before → logits, keys and values.
#
# With no tokens before (length 0) it scores a whole text; with one token a row it is a step of generation.

ROWS, PAST, NEW = 2, 3, 4  # sizes of the example


def empty_past(model: LanguageModel, rows: int, length: int = 0) -> Tensors:
    found: Tensors = {}
    for number, block in enumerate(model.decoder._blocks()):
        heads = block.attention.kv_heads
        width = block.attention.sizes[1] // heads
        for kind in ("key", "value"):
            found[f"past_{kind}_{number}"] = torch.zeros(rows, heads, length, width)
    return found


def language_model_graphs(model: LanguageModel, attention: bool) -> list[Graph]:
    past, names = empty_past(model, ROWS, PAST), list[str]()
    if attention:
        with Trace(model) as trace:
            model.features(torch.full((ROWS, NEW), 5))
        names = names_in(trace)
    inputs = {"tokens": torch.full((ROWS, NEW), 5), **past}

    def read(inputs: Tensors) -> Sequence[Tensor]:
        numbers = range(len(model.decoder.layers))
        kept = tuple(KeyValue(inputs[f"past_key_{n}"], inputs[f"past_value_{n}"]) for n in numbers)
        tokens = inputs["tokens"]
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
