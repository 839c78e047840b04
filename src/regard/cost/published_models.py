"""Constructors of published models from modules of this package, with the figures of their papers (see `published`)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from regard.attention import Sinusoidal
from regard.decoders.transformer import TransformerDecoder
from regard.encoders.image import VisionTransformer
from regard.encoders.text import TransformerEncoder
from regard.layers.embedding import Embedding
from regard.layers.pooling import Pooling
from regard.layers.transformer import Block
from regard.models.classifier import Classifier
from regard.models.language_model import LanguageModel
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text.generate_settings import SIZES


@dataclass(frozen=True)
class Published:
    """A model as published. `training_tokens`, if in the paper: target tokens for translation."""

    build: Callable[[], nn.Module]
    parameters: float  # as the paper states it, or as counted in the published weights if the paper is wrong
    source: str
    batch: int
    length: int
    training_tokens: int | None = None
    notes: tuple[str, ...] = ()


def transformer(vocabulary: int, width: int, heads: int, feed_forward: int, layers: int = 6) -> Seq2Seq:
    """Vaswani et al. 2017: post-norm, sinusoids, one table for both embeddings and the output layer."""

    def embedding() -> Embedding:
        return Embedding(vocabulary, width, positions=Sinusoidal(width))

    def blocks(cross: bool) -> list[Block]:
        return [Block(width, heads, feed_forward, cross=cross, norm_first=False) for _ in range(layers)]

    encoder = TransformerEncoder(embedding(), blocks(cross=False), final_norm=None)
    decoder = TransformerDecoder(embedding(), blocks(cross=True), final_norm=None)
    return Seq2Seq(encoder, decoder, tie="all")


def vision_transformer(width: int, heads: int) -> Classifier:
    """Dosovitskiy et al. 2020, for images of 224 × 224 pixels in 1,000 classes, patches of 16 × 16."""
    encoder = VisionTransformer((224, 224), patch=16, width=width, heads=heads, layers=12)
    return Classifier(encoder, Pooling("summary"), width, classes=1000)


def transformer_entry(
    width: int, heads: int, feed_forward: int, vocabulary: int, parameters: float, steps: int, notes: tuple[str, ...]
) -> Published:
    return Published(
        partial(transformer, vocabulary, width, heads, feed_forward),
        parameters,
        "Vaswani et al. 2017, arXiv:1706.03762, Tables 2 and 3",
        batch=112,  # 25,000 tokens on 8 GPUs, and sentences of about 28 tokens
        length=28,
        training_tokens=steps * 25_000,
        notes=notes,
    )


def gpt_entry(name: str, parameters: float, source: str, tokens: int | None = None) -> Published:
    """Return the entry of this `model.size`, with GPT-2's vocabulary."""
    size = SIZES[name]
    build = partial(
        LanguageModel, 50_257, size["width"], size["heads"], size["layers"],
        max_length=size["context"], activation=size["activation"],
    )  # fmt: skip
    return Published(build, parameters, source, batch=1, length=size["context"], training_tokens=tokens)


def vit_entry(width: int, heads: int, parameters: float, source: str) -> Published:
    return Published(partial(vision_transformer, width, heads), parameters, source, batch=1, length=197)
