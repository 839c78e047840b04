"""The model of a recipe that matches pictures and texts: a tower for each of them."""

from torch import nn

from regard.attention.layer import Attention
from regard.errors import CallError
from regard.inputs.base import Input
from regard.inputs.text.body_settings import PretrainedTextSettings, RecurrentTextSettings
from regard.inputs.text.input import TextInput
from regard.layers.pooling import Attended
from regard.layers.word_dropout import WordDropout
from regard.models.two_towers import Tower
from regard.outputs.vector.match_settings import MatchModelSettings
from regard.parts import build_pooling, build_score


def image_tower(s: MatchModelSettings, input: Input) -> Tower:
    encoder = input.encoder(s.image)
    width = _width(encoder)
    pooling = build_pooling(s.image.pooling, s.image.score, width)
    return Tower(encoder, pooling, width, s.width, dropout=s.dropout)


def text_tower(s: MatchModelSettings, input: TextInput) -> Tower:
    encoder, how = input.encoder(), s.text
    width = _width(encoder)
    pooling = build_pooling(how.pooling, how.score, width)
    if isinstance(how, RecurrentTextSettings) and how.self_attention:
        pooling = Attended(Attention(build_score(how.score, width, width, width), width, width), pooling)
    noise = word_dropout(how.word_dropout, input) if how.word_dropout else None
    frozen = isinstance(how, PretrainedTextSettings) and how.frozen
    return Tower(encoder, pooling, width, s.width, dropout=s.dropout, noise=noise, frozen=frozen)


def word_dropout(share: float, input: TextInput) -> WordDropout:
    unknown, frame = input.tokenizer.specials.unk, input.frame
    if unknown is None:
        raise CallError(f"word_dropout={share:g} needs a vocabulary with a token for unknown words")
    keep = [index for index in (frame.pad, frame.first, frame.end) if index is not None]
    return WordDropout(share, unknown=unknown, keep=keep)


def _width(encoder: nn.Module) -> int:
    return int(encoder.memory_width)  # pyright: ignore[reportArgumentType] (every encoder has it)
