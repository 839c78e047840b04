"""Token axes of texts in attention pictures: tokens with their positions in the text and their words. No model here."""

from collections.abc import Container, Sequence
from dataclasses import replace

from regard.data.tokenizer import Tokenizer
from regard.look.axis import Axis, Token


def text_tokens(tokenizer: Tokenizer, text: str, ids: Sequence[int], first: int = 0) -> list[Token]:
    """Return tokens of a text, numbered from `first`, with positions; unknown tokens as they are written."""
    unknown, spans = tokenizer.specials.unk, tokenizer.spans(text)[first:]
    return [
        Token(text[span.start : span.end] or label, span[:2], span.word, unknown=True)
        if index == unknown
        else Token(label, span[:2], span.word)
        for index, label, span in zip(ids, tokenizer.labels(ids), spans, strict=False)  # it may have been cut
    ]


def read_axis(tokenizer: Tokenizer, text: str, ids: Sequence[int], first: int | None, end: int) -> Axis:
    """Return the axis of one text, with its begin token (or none) and its end token."""
    around = [] if first is None else [first]
    *before, last = (Token(label, special=True) for label in tokenizer.labels([*around, end]))
    return Axis((*before, *text_tokens(tokenizer, text, ids), last), text)


def two_axis(
    tokenizer: Tokenizer,
    texts: tuple[str, str],
    ids: tuple[Sequence[int], Sequence[int]],
    first: int | None,
    end: int | None,
    start: int = 0,
) -> Axis:
    """Return the axis of two texts; the second starts at token `start`. `first` precedes them and `end` follows each
    of them, if these tokens are read.
    """
    one, other = text_tokens(tokenizer, texts[0], ids[0]), text_tokens(tokenizer, texts[1], ids[1], start)
    shift, words = len(texts[0]) + 1, 1 + max((token.word or 0 for token in one), default=0)
    after = [
        replace(token, span=(token.span[0] + shift, token.span[1] + shift), word=(token.word or 0) + words)
        for token in other
        if token.span is not None
    ]
    before, last = (
        [Token(label, special=True) for label in tokenizer.labels([] if mark is None else [mark])]
        for mark in (first, end)
    )
    return Axis((*before, *one, *last, *after, *last), " ".join(texts))


def written_axis(tokenizer: Tokenizer, ids: Sequence[int], specials: Container[int]) -> Axis:
    """Return tokens with their positions in the text that they form; `specials` are not part of it."""
    tokens = [
        Token(label, special=True) if index in specials else Token(label, (span.start, span.end), span.word)
        for index, label, span in zip(ids, tokenizer.labels(ids), tokenizer.decoded_spans(ids), strict=True)
    ]
    return Axis(tuple(tokens), tokenizer.decode(ids))
