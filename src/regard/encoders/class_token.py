"""Whether a pooled vector is that of a class token: [CLS] of BERT, the class token of a ViT."""

from torch import nn

from regard.encoders.bert import Bert
from regard.encoders.image import VisionTransformer
from regard.encoders.image_input import PictureEncoder
from regard.layers.pooling import Attended, Pooling


def by_class_token(encoder: nn.Module, pooling: nn.Module) -> bool:
    final = pooling.pooling if isinstance(pooling, Attended) else pooling
    if not isinstance(final, Pooling):
        return False
    return final.kind == "cls" or (final.kind == "summary" and _summed_up_by_it(encoder))


def _summed_up_by_it(encoder: nn.Module) -> bool:
    if isinstance(encoder, PictureEncoder):  # what is projected or told its place is summed up by its mean
        return isinstance(encoder.body, VisionTransformer) and encoder.project is None and encoder.positions is None
    return isinstance(encoder, Bert) and encoder.pooler is not None
