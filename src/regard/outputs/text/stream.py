"""The residual stream of a Transformer decoder, for `look`: its layers, and its output layer."""

from collections.abc import Sequence

from torch import nn

from regard.data.tokenizer import Tokenizer
from regard.decoders.transformer import TransformerDecoder
from regard.errors import CallError
from regard.look.stream import Stream


def token_of(tokenizer: Tokenizer, word: str) -> int:
    """Return the first token of a word."""
    ids = tokenizer.encode(word)
    if not ids or ids[0] == tokenizer.specials.unk:
        raise CallError(f"instead={word!r} is not in the vocabulary of this model")
    return ids[0]


def stream_of(
    decoder: nn.Module, output: nn.Linear, tokenizer: Tokenizer, answers: Sequence[int], instead: int | None
) -> Stream | None:
    """Return the residual stream; None if the decoder is not a Transformer."""
    if not isinstance(decoder, TransformerDecoder):
        return None
    plain = isinstance(decoder.enter, nn.Identity)
    return Stream(
        list(decoder.layers), decoder.norm, output, answers, tokenizer.labels, instead,
        decoder.embedding.positions if plain else None,
    )  # fmt: skip
