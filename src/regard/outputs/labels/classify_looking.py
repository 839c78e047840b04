"""Where a text classifier looks when it gives a label, by any of the methods.

The label is the one row of what the answer looks at (`cross`); its columns are the tokens of the text:

    pooling=attention    the weights of the pooling
    pooling=cls          the row of the first token, in every layer and head
    else                 the mean over all rows of self-attention, as all of them are pooled alike

Self-attention of the encoder, token by token, is there too (`encoder`). A model without any attention can still be
asked by input-gradient and leave-one-out.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Trace
from regard.data.tokenizer import Tokenizer
from regard.encoders.bert import Bert
from regard.errors import CallError, nearest
from regard.inputs.text.labeled_batches import Frame
from regard.layers.embedding import Embedding
from regard.layers.pooling import Attended, AttentionPooling, Pooling
from regard.look import Attention, AttentionRecord, Axis, Token
from regard.look.methods import METHODS
from regard.look.methods.erasure import faithfulness, leave_one_out
from regard.look.methods.gradients import gradient_times_attention, input_times_gradient
from regard.look.methods.rollout import rollout
from regard.look.of_model import evaluating
from regard.look.records import Head
from regard.models.classifier import Classifier
from regard.outputs.labels.labels import Labels

Ids = Sequence[int]
KNOWN = tuple(method for method in METHODS if method != "norm")
GROUP = 4096  # tokens that go through the model together


class Pools(Protocol):
    """Whatever makes one vector of the memory of a text."""

    encoder: nn.Module
    pooling: nn.Module


def look(
    model: Classifier,
    tokenizer: Tokenizer,
    frame: Frame,
    text: str,
    ids: Ids,
    label: int,
    labels: Labels,
    *,
    method: str = "raw",
    layer: int | None = None,
    head: Head = "mean",
) -> AttentionRecord:
    """Where the model looks when it says class `label` of `ids`; with what happens without the tokens it looked at."""
    if method not in KNOWN:
        raise CallError(f"method={method!r} is not known for classifiers{nearest(method, KNOWN)}")
    if not ids:
        raise CallError(f"the input {text!r} has no token: there is nothing to look at")
    ask = partial(_log_probability, model, frame, label=label, several=labels.several)
    ways: dict[str, Callable[[], list[Attention]]] = {
        "raw": lambda: _raw(model, frame, ids),
        "rollout": lambda: _rollout(model, _raw(model, frame, ids)),
        "gradient": lambda: _gradient(model, frame, ids, ask),
        "input-gradient": lambda: [_whole(_input_gradient(model, frame, ids, ask), method, frame)],
        "leave-one-out": lambda: [_whole(leave_one_out(ids, lambda some: _numbers(ask(some)[:, None])), method, frame)],
    }
    name = labels.names[label]
    axes = {"target": Axis((Token(name, (0, len(name)), 0),), name), "source": text_axis(tokenizer, frame, text, ids)}
    with evaluating(model):
        attentions = [replace(a, weights=np.ascontiguousarray(a.weights, np.float32)) for a in ways[method]()]
        with torch.no_grad():
            score = float(ask([ids])[0])
        record = AttentionRecord(tuple(attentions), axes, method=method, input=text, output=name, scores=(score,))
        matrix = record.matrix("cross", layer, head)
        begin = 0 if frame.first is None else 1
        with torch.no_grad():
            figures = faithfulness(
                matrix.weights[:, begin : begin + len(ids)],
                ids,
                lambda some: _numbers(ask(some)[:, None]),
                matrix.title,
            )
    # One row has no other to be shuffled with.
    return replace(record, evidence=tuple(replace(figure, shuffled=None) for figure in figures))


def text_axis(tokenizer: Tokenizer, frame: Frame, text: str, ids: Ids) -> Axis:
    tokens = []
    for index, label, span in zip(ids, tokenizer.labels(ids), tokenizer.spans(text), strict=False):  # it may be cut
        label = text[span.start : span.end] or label if index == tokenizer.specials.unk else label
        tokens.append(Token(label, (span.start, span.end), span.word))
    first = [] if frame.first is None else [Token(tokenizer.labels([frame.first])[0], special=True)]
    return Axis((*first, *tokens, Token(tokenizer.labels([frame.end])[0], special=True)), text)


def _log_probability(model: Classifier, frame: Frame, texts: Sequence[Ids], *, label: int, several: bool) -> Tensor:
    """log p(label | text) of each text."""
    rows = max(1, GROUP // (max(map(len, texts)) + 2))
    where = next(model.parameters()).device
    found = []
    for start in range(0, len(texts), rows):
        logits = model.logits(frame.read(texts[start : start + rows]).to(where)).float()
        chance = torch.nn.functional.logsigmoid(logits) if several else logits.log_softmax(-1)
        found.append(chance[:, label])
    return torch.cat(found)


def _raw(model: Classifier, frame: Frame, ids: Ids) -> list[Attention]:
    with torch.no_grad(), Trace(model) as seen:
        model.logits(frame.read([ids]).to(next(model.parameters()).device))
    try:
        names = seen.names
    except RuntimeError:
        raise CallError(
            "this model has no attention, so there is nothing to look at; the methods input-gradient and leave-one-out "
            "ask any model what it heeds"
        ) from None
    return placed(model, {name: with_heads(_numbers(seen[name][0])) for name in names})


def placed(model: Pools, tables: dict[str, np.ndarray]) -> list[Attention]:
    """Tables by name of their module → what the pooled vector looks at, and what tokens look at."""
    pooled = [name for name in tables if name.startswith("pooling.") and isinstance(_final(model), AttentionPooling)]
    last = pooled[-1:]  # before it, there may be self-attention of the states
    own = [name for name in tables if name not in last]
    found = [Attention(name, "cross", 0, tables[name], "target", "source") for name in last]
    if not last:
        found = [
            Attention(f"{name} ({_reading(model)})", "cross", number, _pooled(model, tables[name]), "target", "source")
            for number, name in enumerate(own)
        ]
    return found + [
        Attention(name, "encoder", number, tables[name], "source", "source") for number, name in enumerate(own)
    ]


def _final(model: Pools) -> nn.Module:
    return model.pooling.pooling if isinstance(model.pooling, Attended) else model.pooling


def _by_class_token(model: Pools) -> bool:
    final, encoder = _final(model), model.encoder
    pooled = isinstance(encoder, Bert) and encoder.pooler is not None  # the summary is made of the first vector
    return isinstance(final, Pooling) and (final.kind == "cls" or (final.kind == "summary" and pooled))


def _reading(model: Pools) -> str:
    return "first token" if _by_class_token(model) else "mean over tokens"


def _pooled(model: Pools, table: Float[np.ndarray, "H K K"]) -> Float[np.ndarray, "H 1 K"]:
    """What the answer sees of self-attention: the row of the class token, or the mean of all."""
    return table[:, :1] if _by_class_token(model) else table.mean(axis=1, keepdims=True)


def _rollout(model: Classifier, raw: list[Attention]) -> list[Attention]:
    layers = [one.weights for one in raw if one.kind == "encoder"]
    if not layers:
        raise CallError(
            "method='rollout' follows attention from layer to layer, which takes a Transformer; here attention over "
            "the text is one step: method='raw' shows it"
        )
    through = rollout(layers)
    pooling = [one.weights for one in raw if one.kind == "cross" and one.name.startswith("pooling.")]
    table = (
        pooling[-1][0] @ through if isinstance(_final(model), AttentionPooling) else _pooled(model, through[None])[0]
    )
    return [
        Attention("rollout.cross", "cross", 0, table[None], "target", "source"),
        Attention("rollout.encoder", "encoder", 0, through[None], "source", "source"),
    ]


def _gradient(model: Classifier, frame: Frame, ids: Ids, ask: Callable[[Sequence[Ids]], Tensor]) -> list[Attention]:
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False), Trace(model, gradients=True) as seen:
        total = ask([ids]).sum()
    try:
        felt = seen.gradients(total)
    except RuntimeError:
        return _raw(model, frame, ids)  # which says that there is no attention
    tables = {
        name: gradient_times_attention(with_heads(_numbers(seen[name][0])), with_heads(_numbers(gradient[0])))
        for name, gradient in felt.items()
    }
    return placed(model, tables)


def _input_gradient(
    model: Classifier, frame: Frame, ids: Ids, ask: Callable[[Sequence[Ids]], Tensor]
) -> Float[np.ndarray, "1 S"]:
    embedding = model.encoder.embedding
    assert isinstance(embedding, Embedding)
    vectors: list[Tensor] = []

    def note(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        vectors.append(output if output.requires_grad else output.requires_grad_())  # a frozen encoder has no gradient
        return vectors[-1]

    hook = embedding.table.register_forward_hook(note)
    try:
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            (felt,) = torch.autograd.grad(ask([ids]).sum(), vectors[0])
    finally:
        hook.remove()
    begin = 0 if frame.first is None else 1
    places = slice(begin, begin + len(ids))
    return input_times_gradient(_numbers(vectors[0][0, places]), _numbers(felt[:, places]))


def _whole(weights: Float[np.ndarray, "1 S"], method: str, frame: Frame) -> Attention:
    """A method that asks about the whole model has one table, and none for the tokens that are always there."""
    begin = 0 if frame.first is None else 1
    return Attention(method, "cross", 0, np.pad(weights, ((0, 0), (begin, 1)))[None], "target", "source")


def with_heads(table: np.ndarray) -> np.ndarray:
    """Attention of one head has no dimension for it."""
    return table[None] if table.ndim == 2 else table


def _numbers(x: Tensor) -> np.ndarray:
    return x.detach().float().cpu().numpy()
