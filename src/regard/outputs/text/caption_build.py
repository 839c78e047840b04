"""The model of a captioning recipe."""

from regard.encoders.image_input import PictureEncoder
from regard.inputs.image.pictures import build_body, colors
from regard.inputs.image.settings import EfficientNetSettings
from regard.inputs.image.store import PictureStore
from regard.models.captioner import Captioner
from regard.outputs.text.build import recurrent_decoder, transformer_blocks, transformer_decoder
from regard.outputs.text.caption_settings import CaptionRecipe, RecurrentCaptionerSettings


def picture_encoder(recipe: CaptionRecipe, train: PictureStore | None, *, pretrained: bool = False) -> PictureEncoder:
    """`train`: the pictures whose mean and deviation are taken; None where weights or a package bring them."""
    s, data = recipe.model, recipe.data
    recurrent = isinstance(s, RecurrentCaptionerSettings)
    return PictureEncoder(
        build_body(s.encoder, data, pretrained=pretrained),
        colors=colors(s.encoder, data, train),
        frozen=isinstance(s.encoder, EfficientNetSettings) and s.encoder.frozen,
        width=s.width,
        positions=s.positions if recurrent else True,
        layers=[] if recurrent else transformer_blocks(s, s.encoder_layers, decoder=False),
        dropout=s.dropout,
    )


def build_captioner(
    recipe: CaptionRecipe, vocabulary: int, train: PictureStore | None = None, *, pretrained: bool = False
) -> Captioner:
    s = recipe.model
    encoder = picture_encoder(recipe, train, pretrained=pretrained)
    if not isinstance(s, RecurrentCaptionerSettings):
        return Captioner(encoder, transformer_decoder(s, vocabulary), tie=s.tied, label_smoothing=s.label_smoothing)
    decoder = recurrent_decoder(
        s, vocabulary, memory_width=encoder.memory_width, summary_width=encoder.summary_width, gated=s.gate
    )
    return Captioner(
        encoder, decoder, tie=s.tied, label_smoothing=s.label_smoothing, doubly_stochastic=s.doubly_stochastic
    )
