"""Settings into readers."""

from functools import partial

from torch import Tensor

from regard.data.tokens import Tokenizer
from regard.errors import CallError
from regard.layers.embedding import Embedding
from regard.models.reader import PairReader, Reader
from regard.models.recurrent_reader import RecurrentReader
from regard.outputs.span.settings import RecurrentReaderSettings
from regard.parts import build_encoder, build_score
from regard.settings.encoder import EncoderSettings


def build_reader(
    settings: RecurrentReaderSettings | EncoderSettings,
    tokenizer: Tokenizer,
    weights: dict[str, Tensor] | None = None,
    frozen: int = 0,
) -> Reader:
    """`weights` are those of a trained encoder, if training begins with one; `frozen` of its layers do not learn."""
    specials = tokenizer.specials
    pad = 0 if specials.pad is None else specials.pad
    if isinstance(settings, RecurrentReaderSettings):
        s = settings
        embedding = Embedding(tokenizer.size, s.embedding, dropout=s.dropout, pad=pad)
        return RecurrentReader(
            embedding, s.width, score=partial(build_score, s.score, s.width, s.width, s.width),
            to_document=s.to_document, cell=s.cell, depth=s.layers, reading_depth=s.reading_layers,
            match=s.match, dropout=s.dropout, pad=pad,
        )  # fmt: skip
    if specials.start is None or specials.end is None:
        raise CallError("this vocabulary has no tokens that begin and end a text, which a pair of texts needs")
    encoder = build_encoder(settings, tokenizer.size, pad=pad)
    if weights is not None:
        encoder.load_state_dict(weights)
    if frozen:
        for part in (encoder.embedding, encoder.types, encoder.embedding_norm, *encoder.layers[:frozen]):
            if part is not None:
                part.requires_grad_(False)
    return PairReader(
        encoder, settings.width, cls=specials.start, sep=specials.end, pad=pad, types=settings.token_types > 1,
        dropout=settings.dropout,
    )  # fmt: skip
