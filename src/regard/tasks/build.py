"""Settings into modules: the one place where names of a recipe become classes."""

from regard.attention import Additive, Alibi, Bilinear, Concat, Learned, RelativeBias, Rotary, Score, Sinusoidal
from regard.catalog import SCORES, find
from regard.decoders.recurrent import RecurrentDecoder
from regard.decoders.transformer import TransformerDecoder
from regard.encoders.bert import Bert
from regard.encoders.text import RecurrentEncoder, TransformerEncoder
from regard.layers.embedding import Embedding
from regard.layers.norm import norm
from regard.layers.transformer import Block
from regard.models.seq2seq import Seq2Seq
from regard.settings.encoder import EncoderSettings
from regard.settings.model import RecurrentSettings, ScoreName, TransformerSettings


def build_seq2seq(settings: RecurrentSettings | TransformerSettings, source: int, target: int) -> Seq2Seq:
    """The model of a text-to-text recipe, for vocabularies of `source` and `target` entries."""
    build = _recurrent if isinstance(settings, RecurrentSettings) else _transformer
    encoder, decoder = build(settings, source, target)  # pyright: ignore[reportArgumentType]
    return Seq2Seq(encoder, decoder, tie=settings.tied, label_smoothing=settings.label_smoothing)


def build_score(name: ScoreName, query_width: int, key_width: int, hidden: int) -> Score:
    """Scores that have weights are told their widths; the others have nothing to be told."""
    score = find(SCORES, name)
    if score is Bilinear:
        return Bilinear(query_width, key_width)
    if score in (Additive, Concat):
        return score(query_width, key_width, hidden)
    return score()


def build_encoder(s: EncoderSettings, vocabulary: int, *, pad: int = 0) -> Bert:
    """An encoder on its own, for a vocabulary of so many entries of which `pad` is the one that is not there."""
    positions = None
    if s.positions == "learned":
        positions = Learned(s.width, s.max_positions)
    elif s.positions == "sinusoidal":
        positions = Sinusoidal(s.width)
    rotary = Rotary(s.width // s.heads) if s.positions == "rotary" else None
    gated = s.activation == "swiglu"
    blocks = [
        Block(
            s.width, s.heads, s.hidden, norm_first=s.norm_first, norm_kind=s.norm, norm_eps=s.eps,
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


def _recurrent(s: RecurrentSettings, source: int, target: int) -> tuple[RecurrentEncoder, RecurrentDecoder]:
    def embedding(vocabulary: int) -> Embedding:
        return Embedding(vocabulary, s.embedding, dropout=s.dropout)

    encoder = RecurrentEncoder(
        embedding(source), s.width,
        cell=s.cell, depth=s.encoder_layers, bidirectional=s.bidirectional, dropout=s.dropout,
    )  # fmt: skip
    attends = s.context == "attention"
    decoder = RecurrentDecoder(
        embedding(target), s.width,
        memory_width=encoder.memory_width, summary_width=encoder.summary_width,
        context=s.query if attends else s.context,  # pyright: ignore[reportArgumentType]
        score=build_score(s.score, s.width, encoder.memory_width, s.width) if attends else None,
        input_feeding=s.input_feeding, cell=s.cell, depth=s.decoder_layers, dropout=s.dropout,
    )  # fmt: skip
    return encoder, decoder


def _transformer(s: TransformerSettings, source: int, target: int) -> tuple[TransformerEncoder, TransformerDecoder]:
    def embedding(vocabulary: int) -> Embedding:
        positions = None
        if s.positions == "sinusoidal":
            positions = Sinusoidal(s.width, combine=s.combine)
        elif s.positions == "learned":
            positions = Learned(s.width, s.max_positions, combine=s.combine)
        return Embedding(vocabulary, s.width, positions=positions, dropout=s.dropout)

    def blocks(count: int, *, decoder: bool) -> list[Block]:
        # Positions inside attention are one object for all layers: their tables are the same (T5 shares its bias too).
        head_width = s.width // s.heads
        rotary = Rotary(head_width) if s.positions == "rotary" else None
        relative = None
        if s.positions == "alibi":
            relative = Alibi(s.heads)
        elif s.positions == "relative":
            relative = RelativeBias(s.heads, both_ways=not decoder)
        return [
            Block(
                s.width, s.heads, s.hidden,
                cross=decoder, norm_first=s.norm_first, norm_kind=s.norm,
                activation="relu" if s.activation == "relu" else "gelu", gated=s.activation == "swiglu",
                dropout=s.dropout, attention_dropout=s.attention_dropout, kv_heads=s.kv_heads,
                score=lambda width: build_score(s.score, width, width, width), rotary=rotary, relative=relative,
            )
            for _ in range(count)
        ]  # fmt: skip

    final_norm = s.norm if s.norm_first else None
    encoder = TransformerEncoder(embedding(source), blocks(s.encoder_layers, decoder=False), final_norm=final_norm)
    decoder = TransformerDecoder(embedding(target), blocks(s.decoder_layers, decoder=True), final_norm=final_norm)
    return encoder, decoder
