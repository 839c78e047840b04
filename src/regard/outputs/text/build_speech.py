"""The settings of a speech recognizer into modules."""

from regard.encoders.audio_convolution import ConvolutionEncoder
from regard.encoders.audio_pyramid import PyramidEncoder
from regard.models.ctc import SpeechToText
from regard.outputs.text.transcribe_settings import ListenerSettings, SpeechTransformerSettings
from regard.parts import (
    added_positions,
    final_norm,
    recurrent_decoder,
    transformer_blocks,
    transformer_decoder,
)


def build_speech(s: ListenerSettings | SpeechTransformerSettings, bands: int, vocabulary: int) -> SpeechToText:
    """For features of so many bands, and a vocabulary of so many entries."""
    if isinstance(s, ListenerSettings):
        encoder = PyramidEncoder(
            bands, s.width,
            cell=s.cell, depth=s.encoder_layers, pyramid=s.pyramid, stack=s.stack,
            positions=s.positions, dropout=s.dropout,
        )  # fmt: skip
        decoder = recurrent_decoder(
            s, vocabulary, memory_width=encoder.memory_width, summary_width=encoder.summary_width
        )
    else:
        encoder = ConvolutionEncoder(
            bands, s.channels, transformer_blocks(s, s.encoder_layers, decoder=False),
            positions=added_positions(s), dropout=s.dropout, final_norm=final_norm(s),
        )  # fmt: skip
        decoder = transformer_decoder(s, vocabulary)
    return SpeechToText(encoder, decoder, tie=s.tied, label_smoothing=s.label_smoothing, ctc=s.ctc)
