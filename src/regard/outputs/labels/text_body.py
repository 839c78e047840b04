"""Settings of what reads a text into one vector, into modules: an encoder and its pooling."""

from typing import NamedTuple

from torch import nn

from regard.attention.layer import Attention
from regard.data.specials import Specials
from regard.encoders.text import RecurrentEncoder
from regard.errors import CallError
from regard.inputs.text.body_settings import PretrainedTextSettings, RecurrentTextSettings, TransformerTextSettings
from regard.layers.embedding import Embedding
from regard.layers.pooling import Attended, AttentionPooling, Pooling
from regard.layers.word_dropout import WordDropout
from regard.parts import build_encoder, build_score
from regard.settings.encoder import EncoderSettings

TextBodySettings = RecurrentTextSettings | TransformerTextSettings | PretrainedTextSettings


class TextBody(NamedTuple):
    """`pooling` makes one vector, of `width`, of the memory that `encoder` makes of the tokens that `noise` leaves."""

    encoder: nn.Module
    pooling: nn.Module
    width: int
    noise: nn.Module | None
    frozen: bool


def build_text_body(
    s: TextBodySettings, vocabulary: int, specials: Specials, pretrained: EncoderSettings | None = None
) -> TextBody:
    """`vocabulary`: how many entries it has, and which are special; `pretrained`: the sizes of that encoder."""
    pad = specials.pad or 0
    if isinstance(s, RecurrentTextSettings):
        encoder: nn.Module = RecurrentEncoder(
            Embedding(vocabulary, s.embedding, dropout=s.dropout), s.width,
            cell=s.cell, depth=s.layers, bidirectional=s.bidirectional, dropout=s.dropout,
        )  # fmt: skip
        width = s.width
    else:
        sizes = s if isinstance(s, TransformerTextSettings) else pretrained
        assert sizes is not None, "prepare or restore comes first"
        encoder, width = build_encoder(sizes, vocabulary, pad=pad), sizes.width
    pooling: nn.Module
    if s.pooling == "attention":
        pooling = AttentionPooling(build_score(s.score, width, width, width), width)
    else:
        pooling = Pooling(s.pooling)
    if isinstance(s, RecurrentTextSettings) and s.self_attention:
        pooling = Attended(Attention(build_score(s.score, width, width, width), width, width), pooling)
    noise = None
    if s.word_dropout:
        if specials.unk is None:
            raise CallError(f"word_dropout={s.word_dropout:g} needs a vocabulary with a token for unknown words")
        keep = [index for index in (pad, specials.start, specials.end) if index is not None]
        noise = WordDropout(s.word_dropout, unknown=specials.unk, keep=keep)
    return TextBody(encoder, pooling, width, noise, isinstance(s, PretrainedTextSettings) and s.frozen)
