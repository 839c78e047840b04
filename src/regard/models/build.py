"""Build modules that inputs and outputs share from settings: names in recipes become classes here."""

from typing import Any

from torch import nn

from regard.attention import Alibi, Learned, RelativeBias, Rotary, Score, Sinusoidal
from regard.attention.layer import Attention
from regard.catalog import SCORES, find
from regard.decoders.recurrent import RecurrentDecoder
from regard.decoders.transformer import TransformerDecoder
from regard.encoders.text import Bert, RecurrentEncoder, TransformerEncoder
from regard.layers.embedding import Embedding
from regard.layers.feed_forward import NormKind, norm
from regard.layers.pooling import Attended, AttentionPooling, Pooling
from regard.layers.transformer import Block
from regard.models.seq2seq import Seq2Seq
from regard.settings.model import EncoderSettings, RecurrentSettings, ScoreName, TransformerSettings


def build_seq2seq(settings: RecurrentSettings | TransformerSettings, source: int, target: int) -> Seq2Seq:
    """Build a text-to-text model for vocabularies of `source` and `target` entries."""
    encoder = text_encoder(settings, source)
    decoder = text_decoder(settings, target, encoder)
    return Seq2Seq(
        encoder, decoder,
        tie=settings.tied, bias=settings.output_bias, label_smoothing=settings.label_smoothing,
    )  # fmt: skip


def text_decoder(
    s: RecurrentSettings | TransformerSettings, vocabulary: int, encoder: nn.Module
) -> RecurrentDecoder | TransformerDecoder:
    """Build a text decoder over the encoder output of any encoder."""
    if isinstance(s, TransformerSettings):
        return transformer_decoder(s, vocabulary)
    widths = {name: int(getattr(encoder, name)) for name in ("memory_width", "summary_width")}
    return recurrent_decoder(s, vocabulary, **widths)


def build_score(name: ScoreName, query_width: int, key_width: int, hidden: int) -> Score:
    """Build the attention score that a recipe names, for queries and keys of these widths."""
    return find(SCORES, name).for_widths(query_width, key_width, hidden)


def build_pooling(kind: str, score: ScoreName, width: int, *, self_attention: bool = False) -> nn.Module:
    """Build a module that pools many vectors of this width into one. `score`: attention score of query and vectors;
    `self_attention`: apply self-attention first.
    """
    pooling: nn.Module = (
        AttentionPooling(build_score(score, width, width, width), width) if kind == "attention" else Pooling(kind)  # pyright: ignore[reportArgumentType] (the names of a recipe are those of Pooling)
    )
    return Attended(build_attention(score, width), pooling) if self_attention else pooling


def build_attention(score: ScoreName, width: int) -> Attention:
    """Build self-attention over vectors of this width."""
    return Attention(build_score(score, width, width, width), width, width)


def build_encoder(s: EncoderSettings, vocabulary: int, *, pad: int = 0) -> Bert:
    """Build an encoder for a vocabulary of this size; `pad` is the id of the padding token."""
    positions = None
    if s.positions == "learned":
        positions = Learned(s.width, s.max_positions)
    elif s.positions == "sinusoidal":
        positions = Sinusoidal(s.width)
    rotary = Rotary(s.width // s.heads) if s.positions == "rotary" else None
    gated = s.activation == "swiglu"
    blocks = [
        Block(
            s.width, s.heads, s.feed_forward, norm_first=s.norm_first, norm_kind=s.norm, norm_eps=s.eps,
            activation="relu" if s.activation == "swiglu" else s.activation, gated=gated,
            dropout=s.dropout, attention_dropout=s.attention_dropout, rotary=rotary,
        )
        for _ in range(s.layers)
    ]  # fmt: skip
    return Bert(
        Embedding(vocabulary, s.width, positions=positions, scaled=False, pad=pad), blocks,
        embedding_norm=norm(s.width, s.norm, eps=s.eps) if s.embedding_norm else None,
        final_norm=norm(s.width, s.norm, eps=s.eps) if s.norm_first else None,
        token_types=s.token_types, pooler=s.pooler, dropout=s.dropout,
    )  # fmt: skip


def recurrent_decoder(
    s: RecurrentSettings, vocabulary: int, *, memory_width: int, summary_width: int
) -> RecurrentDecoder:
    """Build the decoder of a recurrent model over an encoder output of these widths."""
    attends = s.context == "attention"
    return RecurrentDecoder(
        Embedding(vocabulary, s.embedding, dropout=s.dropout), s.width,
        memory_width=memory_width, summary_width=summary_width,
        context=s.query if attends else s.context,  # pyright: ignore[reportArgumentType]
        score=build_score(s.score, s.width, memory_width, s.width) if attends else None,
        input_feeding=s.input_feeding, gated=s.gate, cell=s.cell, depth=s.decoder_layers, dropout=s.dropout,
    )  # fmt: skip


def transformer_decoder(s: TransformerSettings, vocabulary: int) -> TransformerDecoder:
    """Build the decoder of a Transformer over an encoder output of its width."""
    return TransformerDecoder(
        _embedding(s, vocabulary), transformer_blocks(s, s.decoder_layers, decoder=True), final_norm=final_norm(s)
    )


def transformer_blocks(s: TransformerSettings, count: int, *, decoder: bool) -> list[Block]:
    # One position module for all layers: their tables are the same (T5 shares its bias too).
    head_width = s.width // s.heads
    rotary = Rotary(head_width) if s.positions == "rotary" else None
    relative = None
    if s.positions == "alibi":
        relative = Alibi(s.heads)
    elif s.positions == "relative":
        relative = RelativeBias(s.heads, both_ways=not decoder)
    return [
        Block(
            s.width, s.heads, s.feed_forward,
            cross=decoder, norm_first=s.norm_first, norm_kind=s.norm,
            activation="relu" if s.activation == "swiglu" else s.activation, gated=s.activation == "swiglu",
            dropout=s.dropout, attention_dropout=s.attention_dropout, kv_heads=s.kv_heads,
            score=lambda width: build_score(s.score, width, width, width), rotary=rotary, relative=relative,
        )
        for _ in range(count)
    ]  # fmt: skip


def added_positions(s: TransformerSettings) -> Sinusoidal | Learned | None:
    """Build the positions that are added before the first block; other kinds act inside attention."""
    if s.positions == "sinusoidal":
        return Sinusoidal(s.width, combine=s.combine)
    return Learned(s.width, s.max_positions, combine=s.combine) if s.positions == "learned" else None


def final_norm(s: TransformerSettings) -> NormKind | None:
    """Return the final norm: pre-norm blocks leave their sum without one."""
    return s.norm if s.norm_first else None


def text_encoder(s: Any, vocabulary: int, *, pad: int = 0) -> nn.Module:
    """Build the encoder of a text for a vocabulary of this size; `pad` is the id of the padding token."""
    if isinstance(s, TransformerSettings):
        embedding = _embedding(s, vocabulary)  # before the blocks: initial weights are sampled in this order
        return TransformerEncoder(
            embedding, transformer_blocks(s, s.encoder_layers, decoder=False), final_norm=final_norm(s)
        )
    if isinstance(s, EncoderSettings):
        return build_encoder(s, vocabulary, pad=pad)
    depth = s.encoder_layers if isinstance(s, RecurrentSettings) else s.layers
    return RecurrentEncoder(
        Embedding(vocabulary, s.embedding, dropout=s.dropout), s.width,
        cell=s.cell, depth=depth, bidirectional=s.bidirectional, dropout=s.dropout,
    )  # fmt: skip


def _embedding(s: TransformerSettings, vocabulary: int) -> Embedding:
    return Embedding(vocabulary, s.width, positions=added_positions(s), dropout=s.dropout)
