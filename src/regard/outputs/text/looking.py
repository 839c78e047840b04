"""A record of where a text-to-text model looked, for one input and one output, by any of the methods.

The output is forced through the model, so decoding is as it was without anybody looking. Rows of the decoder's tables
are the tokens it wrote; what it looked at are the source (`cross`) and the tokens it had read before (`decoder`), which
begin with <s>.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import Trace
from regard.attention.multihead import MultiHead
from regard.data.tokenizer import Span, Tokenizer
from regard.errors import CallError, nearest
from regard.look import Attention, AttentionRecord, Axis, Token
from regard.look.methods import METHODS
from regard.look.methods.erasure import faithfulness, leave_one_out
from regard.look.methods.gradients import gradient_times_attention, input_times_gradient
from regard.look.methods.norms import norm_weighted
from regard.look.methods.rollout import decoder_rollout, rollout
from regard.look.records import Head, Kind
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text import gradients
from regard.outputs.text.search import Ids, in_groups, to_tensor
from regard.special_tokens import END, PAD, START

GROUP = 4096  # tokens that go through the model together


def look(
    model: Seq2Seq, source: Tokenizer, target: Tokenizer, text: str, tokens: Ids, *, method: str = "raw", name: str = ""
) -> AttentionRecord:
    """Where the model looks when it writes `tokens` for `text`."""
    if method not in METHODS:
        raise CallError(f"method={method!r} is not known{nearest(method, METHODS)}")
    ids = source.encode(text)
    if not ids:
        raise CallError(f"the input {text!r} has no token: there is nothing to look at")
    axes = {
        "target": _axis(target, [*tokens, END], target.decode(tokens), target.decoded_spans([*tokens, END])),
        "source": _axis(source, [*ids, END], text, [*source.spans(text), None]),
        "read": _axis(target, [START, *tokens], target.decode(tokens), target.decoded_spans([START, *tokens])),
    }
    ways: dict[str, Callable[[], list[Attention]]] = {
        "raw": lambda: raw(model, ids, tokens),
        "rollout": lambda: _rollout(raw(model, ids, tokens)),
        "norm": lambda: _norms(model, ids, tokens),
        "gradient": lambda: _gradients(model, ids, tokens),
        "input-gradient": lambda: [_one(input_times_gradient(*gradients.by_input(model, ids, tokens)), method)],
        "leave-one-out": lambda: [_one(_leave_one_out(model, ids, tokens), method)],
    }
    with evaluating(model):
        attentions = [replace(a, weights=np.ascontiguousarray(a.weights, np.float32)) for a in ways[method]()]
        scores = log_probabilities(model, tokens, [ids])[0]
    return AttentionRecord(
        tuple(attentions), axes, method=method, model=name, input=text, output=target.decode(tokens),
        scores=tuple(scores.tolist()),
    )  # fmt: skip


def evidence(
    model: Seq2Seq, source: Tokenizer, tokens: Ids, record: AttentionRecord, layer: int | None, head: Head
) -> AttentionRecord:
    """The record, with comprehensiveness and sufficiency of its attention over the source."""
    if "cross" not in record.kinds:
        return record
    ids, matrix = source.encode(record.input), record.matrix("cross", layer, head)
    ask = partial(log_probabilities, model, tokens)
    with evaluating(model):
        figures = faithfulness(matrix.weights[:, : len(ids)], ids, ask, matrix.title)
    return replace(record, evidence=tuple(figures))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Dropout off, and then as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _axis(tokenizer: Tokenizer, ids: Ids, text: str, spans: Sequence[Span | None]) -> Axis:
    tokens = []
    for index, label, span in zip(ids, tokenizer.labels(ids), spans, strict=True):
        if index in (PAD, START, END) or span is None:
            tokens.append(Token(label, special=True))
        else:
            tokens.append(Token(label, (span.start, span.end), span.word))
    return Axis(tuple(tokens), text)


def _place(name: str) -> tuple[Kind, int]:
    """The kind and the layer of an attention, from the name of its module."""
    layer = int(name.split(".")[2]) if ".layers." in name else 0
    if name.endswith(".cross") or name == "decoder.attention":
        return "cross", layer
    return ("encoder" if name.startswith("encoder.") else "decoder"), layer


def _attention(name: str, weights: np.ndarray, kind: Kind, layer: int) -> Attention:
    rows = "source" if kind == "encoder" else "target"
    return Attention(name, kind, layer, weights, rows, "read" if kind == "decoder" else "source")


def _one(weights: np.ndarray, method: str) -> Attention:
    """A method that asks about the whole model has one table, and none for the end symbol: it is always there."""
    return _attention(method, np.pad(weights, ((0, 0), (0, 1)))[None], "cross", 0)


def _numbers(x: Tensor) -> np.ndarray:
    return x.detach().float().cpu().numpy()


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


# --------------------------------------------------------------------------------------------------------- the methods
def raw(model: Seq2Seq, ids: Ids, tokens: Ids) -> list[Attention]:
    with torch.no_grad(), Trace(model) as seen:
        model.features(model.encode(to_tensor([ids], _device(model))), to_tensor([tokens], _device(model)))
    found = [_attention(name, _numbers(seen[name][0]), *_place(name)) for name in _names(seen)]
    return sorted(found, key=lambda one: ("cross", "encoder", "decoder").index(one.kind))


def _names(seen: Trace) -> list[str]:
    try:
        return seen.names
    except RuntimeError:
        raise CallError(
            "this model has no attention, so there is nothing to look at; the methods input-gradient and leave-one-out "
            "ask any model what it heeds"
        ) from None


def _rollout(weights: list[Attention]) -> list[Attention]:
    kinds: dict[Kind, list[np.ndarray]] = {"encoder": [], "decoder": [], "cross": []}
    for one in weights:
        kinds[one.kind].append(one.weights)
    if not kinds["encoder"] or not kinds["decoder"]:
        raise CallError(
            "method='rollout' follows attention from layer to layer, which takes a Transformer; in a recurrent model, "
            "attention over the source is one step: method='raw' shows it"
        )
    encoder = rollout(kinds["encoder"])
    written, source = decoder_rollout(kinds["decoder"], kinds["cross"], encoder)
    tables: dict[Kind, np.ndarray] = {"cross": source, "encoder": encoder, "decoder": written}
    return [_attention(f"rollout.{kind}", table[None], kind, 0) for kind, table in tables.items()]


def _norms(model: Seq2Seq, ids: Ids, tokens: Ids) -> list[Attention]:
    parts = {name: module for name, module in model.named_modules() if isinstance(module, MultiHead)}
    brought: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}

    def note(name: str, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        assert isinstance(module, MultiHead)
        attended = named.get("memory") if len(inputs) == 1 else inputs[1]
        vectors: Tensor = inputs[0] if attended is None else attended
        value = module.project_memory(vectors).value[0]  # Hkv K dv
        value = value.repeat_interleave(module.heads // module.kv_heads, 0)
        output = module.out.weight.T.unflatten(0, (module.heads, -1))  # H dv D
        brought[name] = (_numbers(value), _numbers(output))

    hooks = [module.register_forward_pre_hook(partial(note, name), with_kwargs=True) for name, module in parts.items()]
    try:
        found = raw(model, ids, tokens)
    finally:
        for hook in hooks:
            hook.remove()
    if not parts:  # a recurrent decoder averages the memory itself
        with torch.no_grad():
            brought[found[0].name] = (_numbers(model.encode(to_tensor([ids], _device(model))).vectors), None)
    return [replace(one, weights=norm_weighted(one.weights, *brought[one.name])) for one in found]


def _gradients(model: Seq2Seq, ids: Ids, tokens: Ids) -> list[Attention]:
    found = raw(model, ids, tokens)
    felt = gradients.by_weights(model, ids, tokens, {one.name: one.kind == "encoder" for one in found})
    return [replace(one, weights=gradient_times_attention(one.weights, felt[one.name])) for one in found]


def _leave_one_out(model: Seq2Seq, ids: Ids, tokens: Ids) -> np.ndarray:
    return leave_one_out(ids, partial(log_probabilities, model, tokens))


@torch.no_grad()
def log_probabilities(model: Seq2Seq, tokens: Ids, sources: Sequence[Ids]) -> np.ndarray:
    """log p(y_t | y_<t, x) of each token of one output, its end included, for each of several inputs."""

    def score(numbers: list[int]) -> list[np.ndarray]:
        source = to_tensor([sources[number] for number in numbers], _device(model))
        return list(_numbers(model.score(source, to_tensor([tokens] * len(numbers), _device(model)))))

    lengths = [max(len(source), len(tokens)) for source in sources]
    found = dict(in_groups(range(len(sources)), lengths, GROUP, score))
    return np.stack([found[number] for number in range(len(sources))])
