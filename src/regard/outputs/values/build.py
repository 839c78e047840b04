"""Build the model of a forecasting recipe from its settings."""

from torch import nn

from regard.decoders.recurrent import RecurrentReader
from regard.decoders.recurrent_parts import Context
from regard.decoders.series import RecurrentSeriesDecoder, TransformerSeriesDecoder
from regard.encoders.series import PatchEncoder
from regard.inputs.series.input import series_block
from regard.inputs.series.windows import Layout
from regard.models.forecaster import EncoderDecoderForecaster, Forecaster
from regard.models.patch_forecaster import PatchForecaster
from regard.outputs.values.settings import ModelSettings, PatchForecasterSettings, RecurrentForecasterSettings
from regard.parts import build_score


def build_forecaster(s: ModelSettings, encoder: nn.Module, lay: Layout) -> Forecaster:
    """Build the forecaster for windows of this layout."""
    if isinstance(s, PatchForecasterSettings):
        assert isinstance(encoder, PatchEncoder)
        return PatchForecaster(
            encoder, lay.horizon, lay.targets, s.quantiles,
            loss=s.loss, instance_norm=s.instance_norm, dropout=s.head_dropout,
            shortcut=lay.look_back if s.shortcut else None,
        )  # fmt: skip
    return EncoderDecoderForecaster(
        encoder, _decoder(s, lay), lay.targets, s.quantiles, loss=s.loss, instance_norm=s.instance_norm
    )


def _decoder(s: ModelSettings, lay: Layout) -> RecurrentSeriesDecoder | TransformerSeriesDecoder:
    if isinstance(s, RecurrentForecasterSettings):
        attends = s.context == "attention"
        context: Context = s.query if s.context == "attention" else s.context
        reader = RecurrentReader(
            s.width, s.width, s.width, memory_width=s.width, summary_width=s.width, context=context,
            score=build_score(s.score, s.width, s.width, s.width) if attends else None,
            cell=s.cell, depth=s.decoder_layers, dropout=s.dropout,
        )  # fmt: skip
        return RecurrentSeriesDecoder(lay.ahead, s.width, lay.says_from, reader, dropout=s.dropout)
    assert not isinstance(s, PatchForecasterSettings)
    blocks = [series_block(s, cross=True) for _ in range(s.decoder_layers)]
    return TransformerSeriesDecoder(lay.ahead, s.width, lay.says_from, blocks, dropout=s.dropout)
