"""Where a language model looks: the self-attention of every layer and head, over what was read.

Rows are the tokens that were told, columns those that were read: row t + 1 is written after looking at columns 0 … t.
The last row is the token that the model thinks most probable after the text.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from regard.attention import Trace
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError, nearest
from regard.look import Attention, AttentionRecord
from regard.look.axis import Axis, Token
from regard.look.methods.rollout import rollout
from regard.models.language_model import LanguageModel

METHODS = ("raw", "rollout")


def look(
    model: LanguageModel,
    tokenizer: Tokenizer,
    tokens: Sequence[int],
    context: int,
    *,
    method: str = "raw",
    name: str = "",
    text: str = "",
    output: str = "",
) -> AttentionRecord:
    if method not in METHODS:
        raise CallError(f"method={method!r} is not known for language models{nearest(method, METHODS)}")
    if len(tokens) > context:
        raise CallError(f"the text has {len(tokens)} tokens, but this model looks back at {context}: give less of it")
    read = torch.tensor([list(tokens)], device=model.output.weight.device)
    with torch.no_grad(), Trace(model) as seen:
        following = int(model.logits(model.features(read))[0, -1].argmax())
    attentions = [
        Attention(name, "decoder", layer, _numbers(seen[name][0]), "target", "read")
        for layer, name in enumerate(seen.names)
    ]
    if method == "rollout":
        table = rollout([attention.weights for attention in attentions])
        attentions = [Attention("rollout.decoder", "decoder", 0, table[None].astype(np.float32), "target", "read")]
    written = [*tokens[1:], following]
    axes = {"target": _axis(tokenizer, written), "read": _axis(tokenizer, list(tokens))}
    scores = tuple(log_probabilities(model, [*tokens, following]).tolist())
    return AttentionRecord(
        tuple(replace(a, weights=np.ascontiguousarray(a.weights, np.float32)) for a in attentions), axes,
        method=method, model=name, input=text, output=output or tokenizer.decode([following]), scores=scores,
    )  # fmt: skip


@torch.no_grad()
def log_probabilities(model: LanguageModel, tokens: Sequence[int]) -> np.ndarray:
    """log p(y_t | y_<t) of each token but the first."""
    whole = torch.tensor([list(tokens)], device=model.output.weight.device)
    table = model.logits(model.features(whole[:, :-1]))[0].log_softmax(-1, dtype=torch.float32)
    return _numbers(table.gather(1, whole[0, 1:, None]).squeeze(1))


def _axis(tokenizer: Tokenizer, ids: list[int]) -> Axis:
    """The tokens with their places in the text that they make together."""
    spans = tokenizer.decoded_spans(ids)
    labels = tokenizer.labels(ids)
    tokens = [
        Token(label, special=True)
        if index in tokenizer.specials.names
        else Token(label, (span.start, span.end), span.word)
        for index, label, span in zip(ids, labels, spans, strict=True)
    ]
    return Axis(tuple(tokens), tokenizer.decode(ids))


def _numbers(x: Tensor) -> np.ndarray:
    return x.detach().float().cpu().numpy()
