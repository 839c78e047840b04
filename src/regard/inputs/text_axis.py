"""Texts as a picture of attention names them: tokens with their places in the text and their words. No model here."""

from collections.abc import Container, Sequence

from regard.data.tokenizer import Tokenizer
from regard.look.axis import Axis, Token


def text_tokens(tokenizer: Tokenizer, text: str, ids: Sequence[int], first: int = 0) -> list[Token]:
    """Tokens of a text from number `first` on, with their places in it; what is not known, as it is written."""
    unknown, spans = tokenizer.specials.unk, tokenizer.spans(text)[first:]
    return [
        Token(text[span.start : span.end] or label, span[:2], span.word, unknown=True)
        if index == unknown
        else Token(label, span[:2], span.word)
        for index, label, span in zip(ids, tokenizer.labels(ids), spans, strict=False)  # it may have been cut
    ]


def read_axis(tokenizer: Tokenizer, text: str, ids: Sequence[int], first: int | None, end: int) -> Axis:
    """A text that is read, between the token that it begins with (or none) and the one that ends it."""
    around = [] if first is None else [first]
    *before, last = (Token(label, special=True) for label in tokenizer.labels([*around, end]))
    return Axis((*before, *text_tokens(tokenizer, text, ids), last), text)


def written_axis(tokenizer: Tokenizer, ids: Sequence[int], specials: Container[int]) -> Axis:
    """Tokens with their places in the text that they make together; `specials` are no part of it."""
    tokens = [
        Token(label, special=True) if index in specials else Token(label, (span.start, span.end), span.word)
        for index, label, span in zip(ids, tokenizer.labels(ids), tokenizer.decoded_spans(ids), strict=True)
    ]
    return Axis(tuple(tokens), tokenizer.decode(ids))
