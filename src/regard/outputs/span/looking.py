"""Where a reader looks: which words of the document those of the question attend to.

    transformer    of every layer and head, the rows of the question and the columns of the document (`cross`), and the
                   whole table (`encoder`). What is not on the document went to the question and the marks.
    recurrent      layer 0: document words look at question words, turned round, so that columns sum to one;
                   layer 1: question words look at document words (see `models/attention_flow.py`)

A long document is shown by the window in which the answer has the most context on both sides. The answer stands in
brackets ⟦ ⟧. input-gradient and leave-one-out ask what both texts did for the answer, which is then the only row; the
answer's own words cannot be left out.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import Trace
from regard.data.batches import padded
from regard.data.tokens import Tokenizer
from regard.errors import CallError, nearest
from regard.layers.embedding import Embedding
from regard.look import Attention, AttentionRecord, Axis, Token
from regard.look.card import normalized
from regard.look.methods import METHODS
from regard.look.methods.gradients import gradient_times_attention, input_times_gradient
from regard.look.methods.rollout import rollout
from regard.look.of_model import evaluating
from regard.models.reader import PairReader, Reader
from regard.models.recurrent_reader import RecurrentReader
from regard.outputs.span.reading import Ask, Texts

KNOWN = tuple(method for method in METHODS if method != "norm")
GROUP = 4096  # tokens that go through the model together
Tables = dict[str, np.ndarray]  # of each attention, by the name of its module: heads × rows × columns


class Case(NamedTuple):
    """One question and window as ids, and the tokens of the window that are pointed to, from 1; 0: no answer."""

    question: list[int]
    document: list[int]
    start: int
    end: int


def look(
    model: Reader, texts: Texts, ask: Ask, chars: tuple[int, int] | None, *, method: str = "raw"
) -> AttentionRecord:
    """`chars` are those of the answer; None if there is none."""
    if method not in KNOWN:
        raise CallError(f"method={method!r} is not known for readers{nearest(method, KNOWN)}")
    document, question = texts.document(ask.document), texts.question(ask.question)
    if not question or not len(document):
        raise CallError("the question or the document has no token: there is nothing to look at")
    tokens = None if chars is None else document.tokens_of(*chars)
    start, stop = _window(texts.windows(question, document), tokens)
    first, last = (0, 0) if tokens is None else (tokens[0] - start + 1, tokens[1] - start + 1)
    case = Case(question, document.ids[start:stop].tolist(), first, last)
    asked = _tokens(texts.tokenizer, ask.question, case.question, 0)
    read = _bracketed(_tokens(texts.tokenizer, ask.document, case.document, start), first, last)
    output = "" if chars is None else ask.document[slice(*chars)]
    with evaluating(model):
        if method in ("input-gradient", "leave-one-out"):
            weights = (_input_gradient if method == "input-gradient" else _leave_one_out)(model, case)
            label = output or "(no answer)"
            axes = {"target": Axis((Token(label, (0, len(label)), 0),), label), "source": _pair(ask, asked, read)}
            found = [Attention(method, "cross", 0, weights[None], "target", "source")]
        else:
            axes = {"target": Axis(asked, ask.question), "source": Axis(read, ask.document)}
            if isinstance(model, PairReader):
                axes["pair"] = _pair(ask, asked, read, texts.tokenizer)
            found = _placed(model, case, _tables(model, case, method), method)
    return AttentionRecord(tuple(found), axes, method=method, input=ask.question, output=output)


# ------------------------------------------------------------------------------------------------------------ the axes
def _window(windows: Sequence[tuple[int, int]], tokens: tuple[int, int] | None) -> tuple[int, int]:
    """The window in which the answer has the most context on its poorer side; the first one, if there is none."""
    if tokens is None:
        return windows[0]
    first, last = tokens
    return max(windows, key=lambda window: min(first - window[0], window[1] - 1 - last))


def _tokens(tokenizer: Tokenizer, text: str, ids: list[int], skipped: int) -> tuple[Token, ...]:
    spans = tokenizer.spans(text)[skipped : skipped + len(ids)]
    unknown = tokenizer.specials.unk
    labels = [
        text[span.start : span.end] or label if index == unknown else label
        for index, label, span in zip(ids, tokenizer.labels(ids), spans, strict=True)
    ]
    return tuple(Token(label, (span.start, span.end), span.word) for label, span in zip(labels, spans, strict=True))


def _bracketed(tokens: tuple[Token, ...], first: int, last: int) -> tuple[Token, ...]:
    """The answer's tokens (from 1; 0: none) in brackets."""

    def label(place: int, text: str) -> str:
        return ("⟦" if place == first else "") + text + ("⟧" if place == last else "")

    return tuple(replace(token, text=label(place, token.text)) for place, token in enumerate(tokens, start=1))


def _pair(ask: Ask, asked: tuple[Token, ...], read: tuple[Token, ...], tokenizer: Tokenizer | None = None) -> Axis:
    """Both texts as one; with the marks around them, if a tokenizer is given that names them."""
    shift, words = len(ask.question) + 1, 1 + max((token.word or 0 for token in asked), default=0)
    moved = tuple(
        replace(token, span=(token.span[0] + shift, token.span[1] + shift), word=(token.word or 0) + words)
        for token in read
        if token.span is not None
    )
    text = f"{ask.question} {ask.document}"
    if tokenizer is None:
        return Axis((*asked, *moved), text)
    names = tokenizer.specials.names
    cls, sep = (Token(names[index], special=True) for index in (tokenizer.specials.start, tokenizer.specials.end))
    return Axis((cls, *asked, sep, *moved, sep), text)


# --------------------------------------------------------------------------------------------------------- the methods
def _point(model: Reader, cases: Sequence[Case]) -> Tensor:
    """log p(start) + log p(end) of each case, within its window."""
    where = next(model.parameters()).device
    question = padded([np.array(case.question) for case in cases], model.pad).to(where)
    document = padded([np.array(case.document) for case in cases], model.pad).to(where)
    pointers = model.point(question, document)
    targets = torch.tensor([[case.start, case.end] for case in cases], device=where).unbind(1)
    chosen = [
        scores.float().log_softmax(1).gather(1, at[:, None]) for scores, at in zip(pointers, targets, strict=True)
    ]
    return torch.cat(chosen, dim=1).sum(1)


def _tables(model: Reader, case: Case, method: str) -> Tables:
    """Weights, or weights times their gradient."""
    if method != "gradient":
        with torch.no_grad(), Trace(model) as seen:
            _point(model, [case])
        return {name: _numbers(seen[name][0]) for name in seen.names}
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False), Trace(model, gradients=True) as seen:
        total = _point(model, [case]).sum()
    felt = seen.gradients(total)
    return {
        name: gradient_times_attention(_numbers(seen[name][0]), _numbers(gradient[0]))
        for name, gradient in felt.items()
    }


def _placed(model: Reader, case: Case, tables: Tables, method: str) -> list[Attention]:
    """Tables by name of their module → question × document."""
    if isinstance(model, RecurrentReader):
        if method == "rollout":
            raise CallError(
                "method='rollout' follows attention from layer to layer, which takes a Transformer; in a recurrent "
                "reader, attention is one step: method='raw' shows it"
            )
        to_question, to_document = tables["to_question"].swapaxes(1, 2), tables["to_document"]
        to_question = normalized(to_question) if method == "gradient" else to_question
        return [
            Attention("to_question", "cross", 0, _ready(to_question), "target", "source"),
            Attention("to_document", "cross", 1, _ready(to_document), "target", "source"),
        ]
    if method == "rollout":
        tables = {"rollout": rollout(list(tables.values()))[None]}
    rows = slice(1, 1 + len(case.question))
    columns = slice(rows.stop + 1, rows.stop + 1 + len(case.document))
    layers = list(enumerate(tables.items()))
    return [
        *(
            Attention(name, "cross", n, _ready(table[:, rows, columns]), "target", "source")
            for n, (name, table) in layers
        ),
        *(Attention(name, "encoder", n, _ready(table), "pair", "pair") for n, (name, table) in layers),
    ]


def _input_gradient(model: Reader, case: Case) -> np.ndarray:
    """Of each token of the question and of the document; the marks of a pair are left out."""
    table = next(part.table for part in model.modules() if isinstance(part, Embedding))
    vectors: list[Tensor] = []

    def note(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        vectors.append(output if output.requires_grad else output.requires_grad_())
        return vectors[-1]

    hook = table.register_forward_hook(note)
    try:
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            felt = torch.autograd.grad(_point(model, [case]).sum(), vectors)
    finally:
        hook.remove()
    read = [(_numbers(vector[0]), _numbers(gradient)) for vector, gradient in zip(vectors, felt, strict=True)]
    if isinstance(model, PairReader):
        (vector, gradient), Q = read[0], len(case.question)
        places = [*range(1, Q + 1), *range(Q + 2, Q + 2 + len(case.document))]
        return _ready(input_times_gradient(vector[places], gradient[:, places]))
    joined = np.concatenate([vector for vector, _ in read]), np.concatenate([gradient for _, gradient in read], axis=1)
    return _ready(input_times_gradient(*joined))


@torch.no_grad()
def _leave_one_out(model: Reader, case: Case) -> np.ndarray:
    """(log p − log p without the token)⁺; the answer's own tokens have to stay."""
    Q = len(case.question)
    cases, places = [case], []
    for at in range(Q if Q > 1 else 0):
        cases.append(case._replace(question=case.question[:at] + case.question[at + 1 :]))
        places.append(at)
    for at in range(len(case.document)):
        if not case.start <= at + 1 <= case.end and len(case.document) > 1:
            less = int(at + 1 < case.start)
            rest = case.document[:at] + case.document[at + 1 :]
            cases.append(Case(case.question, rest, case.start - less, case.end - less))
            places.append(Q + at)
    rows = max(1, GROUP // (Q + len(case.document) + 3))
    found = torch.cat([_point(model, cases[start : start + rows]) for start in range(0, len(cases), rows)])
    lost = np.zeros((1, Q + len(case.document)))
    lost[0, places] = np.maximum(_numbers(found[0] - found[1:]), 0.0)
    return _ready(normalized(lost))


def _numbers(x: Tensor) -> np.ndarray:
    return x.detach().float().cpu().numpy()


def _ready(table: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(table, np.float32)
