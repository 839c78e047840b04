"""What looking has to know of a Transformer that writes: its layers, and how it comes from them to words."""

from collections.abc import Sequence

from torch import nn

from regard.data.tokenizer import Tokenizer
from regard.decoders.transformer import TransformerDecoder
from regard.errors import CallError
from regard.look.stream import Stream


def token_of(tokenizer: Tokenizer, word: str) -> int:
    """The token that a word begins with."""
    ids = tokenizer.encode(word)
    if not ids or ids[0] == tokenizer.specials.unk:
        raise CallError(f"instead={word!r} is not in the vocabulary of this model")
    return ids[0]


def stream_of(
    decoder: nn.Module, output: nn.Linear, tokenizer: Tokenizer, answers: Sequence[int], instead: int | None
) -> Stream | None:
    """None: a decoder that is no Transformer has no such stream."""
    if not isinstance(decoder, TransformerDecoder):
        return None
    plain = isinstance(decoder.enter, nn.Identity)
    return Stream(
        list(decoder.layers), decoder.norm, output, answers, tokenizer.labels, instead,
        decoder.embedding.positions if plain else None,
    )  # fmt: skip
