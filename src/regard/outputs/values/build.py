"""Settings of a forecaster into modules."""

from collections.abc import Callable

from regard.decoders.recurrent import RecurrentReader
from regard.decoders.recurrent_parts import Context
from regard.decoders.series import RecurrentSeriesDecoder, TransformerSeriesDecoder
from regard.encoders.series import PatchEncoder, RecurrentSeriesEncoder, TransformerSeriesEncoder
from regard.inputs.series.windows import Layout
from regard.layers.transformer import Block
from regard.models.forecaster import EncoderDecoderForecaster, Forecaster
from regard.models.patch_forecaster import PatchForecaster
from regard.outputs.values.settings import (
    ModelSettings,
    PatchForecasterSettings,
    RecurrentForecasterSettings,
    TransformerForecasterSettings,
)
from regard.parts import build_score


def build_forecaster(s: ModelSettings, lay: Layout) -> Forecaster:
    """The model of a forecasting recipe, for windows of this layout."""
    if isinstance(s, PatchForecasterSettings):
        blocks = [
            Block(s.width, s.heads, s.feed_forward, activation="gelu", dropout=s.dropout, hidden_dropout=s.dropout)
            for _ in range(s.layers)
        ]
        encoder = PatchEncoder(lay.look_back, s.patch, s.stride, s.width, blocks, dropout=s.dropout)
        return PatchForecaster(
            encoder, lay.horizon, lay.targets, s.quantiles,
            loss=s.loss, instance_norm=s.instance_norm, dropout=s.head_dropout,
            shortcut=lay.look_back if s.shortcut else None,
        )  # fmt: skip
    encoder, decoder = _recurrent(s, lay) if isinstance(s, RecurrentForecasterSettings) else _transformer(s, lay)
    return EncoderDecoderForecaster(
        encoder, decoder, lay.targets, s.quantiles, loss=s.loss, instance_norm=s.instance_norm
    )


def _recurrent(s: RecurrentForecasterSettings, lay: Layout) -> tuple[RecurrentSeriesEncoder, RecurrentSeriesDecoder]:
    encoder = RecurrentSeriesEncoder(
        lay.inputs, s.width, cell=s.cell, depth=s.encoder_layers, bidirectional=s.bidirectional, dropout=s.dropout
    )
    context: Context = s.query if s.context == "attention" else s.context
    reader = RecurrentReader(
        s.width, s.width, s.width, memory_width=s.width, summary_width=s.width, context=context,
        score=build_score(s.score, s.width, s.width, s.width) if s.context == "attention" else None,
        cell=s.cell, depth=s.decoder_layers, dropout=s.dropout,
    )  # fmt: skip
    return encoder, RecurrentSeriesDecoder(lay.ahead, s.width, lay.says_from, reader, dropout=s.dropout)


def _transformer(
    s: TransformerForecasterSettings, lay: Layout
) -> tuple[TransformerSeriesEncoder, TransformerSeriesDecoder]:
    def block(*, cross: bool) -> Block:
        return Block(
            s.width, s.heads, s.feed_forward, cross=cross, activation="gelu", dropout=s.dropout,
            score=lambda width: build_score(s.score, width, width, width),
        )  # fmt: skip

    def blocks(count: int, make: Callable[[], Block]) -> list[Block]:
        return [make() for _ in range(count)]

    encoder = TransformerSeriesEncoder(
        lay.inputs, s.width, blocks(s.encoder_layers, lambda: block(cross=False)), dropout=s.dropout
    )
    decoder = TransformerSeriesDecoder(
        lay.ahead, s.width, lay.says_from, blocks(s.decoder_layers, lambda: block(cross=True)), dropout=s.dropout
    )
    return encoder, decoder
