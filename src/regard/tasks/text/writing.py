"""Streamed text: converts tokens into final text while it is generated.

A token may be part of a character (bytes), and text may be the beginning of a stop text. The text of `new_text` is
final.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.generation.alignment import replace_unknown
from regard.look.records import NextToken
from regard.special_tokens import SPECIAL_TOKENS, UNK

HALF = "\ufffd"  # decoding of an incomplete character


class TextStreamer:
    """The text after a prompt and a prefix; `log_probability` is that of its tokens."""

    def __init__(self, tokenizer: Tokenizer, prompt: str, prefix: str = "", stop: Sequence[str] = ()) -> None:
        self._tokenizer, self._stop = tokenizer, [text for text in stop if text]
        self.begin = prompt + prefix
        self._prompt = tokenizer.encode(self.begin)
        self._before = len(tokenizer.decode(self._prompt))
        self.ids: list[int] = []
        self._told = 0  # characters returned by `new_text`
        self.log_probability = 0.0

    def add(self, token: int, log_probability: float) -> None:
        self.ids.append(token)
        self.log_probability += log_probability

    @property
    def text(self) -> str:
        """Return all generated text up to the first stop text."""
        whole = self._whole()
        return whole[: min((place for place in map(whole.find, self._stop) if place >= 0), default=len(whole))]

    @property
    def stopped(self) -> bool:
        whole = self._whole() if self._stop else ""
        return any(text in whole for text in self._stop)

    def new_text(self, last: bool = False) -> str:
        """Return the final text since the last call; after the last token, all of it."""
        text = self.text
        certain = len(text)
        if not last and not self.stopped:
            certain = len(text.rstrip(HALF))
            for stop in self._stop:  # the end of the text may be the beginning of a stop text
                longest = min(len(stop) - 1, certain)
                held = next((n for n in range(longest, 0, -1) if text[:certain].endswith(stop[:n])), 0)
                certain = min(certain, len(text[:certain]) - held)
        piece = text[self._told : certain]
        self._told = max(self._told, certain)
        return piece

    def _whole(self) -> str:
        return self._tokenizer.decode([*self._prompt, *self.ids])[self._before :]


# Attention of a generated text, as arrays of any backend. Needs no torch.

Ids = Sequence[int]


@dataclass(frozen=True)
class CrossAttentionArrays:
    """Weights of each attention: heads × tokens (including the end) × vectors of the memory; empty
    without attention.
    """

    weights: dict[str, np.ndarray]
    ctc: list[tuple[int, int]] | None = None  # the first and last vector of each token by CTC

    @property
    def mean(self) -> Float[np.ndarray, "T K"]:
        """Return the mean over all heads of all layers."""
        return np.mean([heads.mean(axis=0) for heads in self.weights.values()], axis=0)


# Replacement of unknown words by words of the source (`generation/alignment.py`). Needs no torch.


def with_source_words(
    target: Tokenizer, tokens: Ids, weights: CrossAttentionArrays, source: Tokenizer, text: str
) -> str:
    """Return the text with each unknown token replaced by its most attended source word. `text`: the input of
    `source`.
    """
    spans = source.spans(text)
    starts, ends = {span.word: span.start for span in reversed(spans)}, {span.word: span.end for span in spans}
    words = [text[starts[span.word] : ends[span.word]] for span in spans]
    marked = [SPECIAL_TOKENS[UNK] if token == UNK else "" for token in tokens]
    found = replace_unknown(marked, weights.mean, words)
    return target.decode(tokens, [word for word, token in zip(found, tokens, strict=True) if token == UNK])


# The most probable tokens of one step by name, and the text that each would add.

MOST = 5
BEFORE = 8  # previous tokens that may affect the spelling of the next one


def next_tokens_of(
    before: Sequence[int], ids: Sequence[int], log_probabilities: Sequence[float], tokenizer: Tokenizer
) -> tuple[NextToken, ...]:
    """Return the next tokens after the tokens `before`."""
    before = before[-BEFORE:]
    begin = len(tokenizer.decode(before))
    pieces = (tokenizer.decode([*before, index])[begin:] for index in ids)
    return tuple(map(NextToken, tokenizer.labels(ids), pieces, log_probabilities))


# A mapping between two vocabularies of the same tokens in different order. Needs no torch.


def token_places(name: str, theirs: Tokenizer, ours: Tokenizer) -> list[int]:
    """Return the language model's id of each of our tokens; its vocabulary must contain all of them. `name` is for
    errors.
    """
    if theirs.pieces(range(len(SPECIAL_TOKENS))) != SPECIAL_TOKENS:
        raise CallError(f"{name} has a vocabulary of another tool, with other start and end tokens")
    places = {piece: number for number, piece in enumerate(theirs.pieces(range(theirs.size)))}
    pieces = ours.pieces(range(ours.size))
    unknown = [piece for piece in pieces if piece not in places]
    if unknown:
        raise CallError(
            f"{name} lacks {len(unknown)} of the {len(pieces)} tokens of this model, "
            f"such as {unknown[0]!r}: both must have the same kind of tokens, learned from the same texts "
            "(data.tokenizer.kind=character in both will do)"
        )
    return [places[piece] for piece in pieces]
