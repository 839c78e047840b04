"""Settings of what reads a series into modules."""

from regard.encoders.series import PatchEncoder, RecurrentSeriesEncoder, TransformerSeriesEncoder
from regard.inputs.series.settings import PatchSettings, RecurrentSeriesSettings, TransformerSeriesSettings
from regard.layers.transformer import Block
from regard.parts import build_score

EncoderSettings = RecurrentSeriesSettings | TransformerSeriesSettings | PatchSettings
SeriesEncoder = RecurrentSeriesEncoder | TransformerSeriesEncoder | PatchEncoder


def build_encoder(s: EncoderSettings, columns: int, look_back: int | None = None) -> SeriesEncoder:
    """For series of so many columns. `look_back`: all windows have this length, which patches have to know."""
    if isinstance(s, RecurrentSeriesSettings):
        return RecurrentSeriesEncoder(
            columns, s.width, cell=s.cell, depth=s.encoder_layers, bidirectional=s.bidirectional, dropout=s.dropout
        )
    if isinstance(s, TransformerSeriesSettings):
        blocks = [series_block(s, cross=False) for _ in range(s.encoder_layers)]
        return TransformerSeriesEncoder(columns, s.width, blocks, dropout=s.dropout)
    if look_back is None:
        raise ValueError("patches need windows of one length: look_back")
    blocks = [
        Block(s.width, s.heads, s.feed_forward, activation="gelu", dropout=s.dropout, hidden_dropout=s.dropout)
        for _ in range(s.layers)
    ]
    return PatchEncoder(look_back, s.patch, s.stride, s.width, blocks, dropout=s.dropout)


def series_block(s: TransformerSeriesSettings, *, cross: bool) -> Block:
    return Block(
        s.width, s.heads, s.feed_forward, cross=cross, activation="gelu", dropout=s.dropout,
        score=lambda width: build_score(s.score, width, width, width),
    )  # fmt: skip
