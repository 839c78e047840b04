"""The model of a recipe that matches pictures and texts."""

from regard.data.tokenizer import Tokenizer
from regard.encoders.image_input import PictureEncoder
from regard.inputs.image.pictures import build_body, colors
from regard.inputs.image.store import PictureStore
from regard.layers.pooling import AttentionPooling, Pooling
from regard.layers.transformer import Block
from regard.models.two_towers import Tower, TwoTowers
from regard.outputs.labels.text_body import build_text_body
from regard.outputs.text.captioned import frozen
from regard.outputs.vector.match_settings import MatchRecipe
from regard.parts import build_score
from regard.settings.encoder import EncoderSettings


def tower_encoder(recipe: MatchRecipe, train: PictureStore | None, *, pretrained: bool = False) -> PictureEncoder:
    """`train`: the pictures whose mean and deviation are taken; None where weights or a package bring them."""
    s = recipe.model.image
    return PictureEncoder(
        build_body(s.encoder, recipe.data, pretrained=pretrained),
        colors=colors(s.encoder, recipe.data, train),
        frozen=frozen(s.encoder),
        width=s.width,
        positions=s.width is not None,
        layers=[Block(s.width, s.heads, 4 * s.width, dropout=s.dropout) for _ in range(s.layers) if s.width],
        dropout=s.dropout,
    )


def build_two_towers(
    recipe: MatchRecipe,
    tokenizer: Tokenizer,
    settings: EncoderSettings | None = None,
    train: PictureStore | None = None,
    *,
    pretrained: bool = False,
) -> TwoTowers:
    """`settings`: the sizes of a pretrained text encoder; `pretrained`: load the weights of a picture encoder."""
    s = recipe.model
    encoder = tower_encoder(recipe, train, pretrained=pretrained)
    seen = encoder.memory_width
    if s.image.pooling == "attention":
        pooling = AttentionPooling(build_score(s.image.score, seen, seen, seen), seen)
    else:
        pooling = Pooling(s.image.pooling)
    image = Tower(encoder, pooling, seen, s.width, dropout=s.dropout)
    body = build_text_body(s.text, tokenizer.size, tokenizer.specials, settings)
    text = Tower(
        body.encoder, body.pooling, body.width, s.width, dropout=s.dropout, noise=body.noise, frozen=body.frozen
    )
    return TwoTowers(image, text, temperature=s.temperature)
