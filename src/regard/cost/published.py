"""Published models by name, built from modules of this package on the meta device, with the figures of their papers.

`docs/cost.md` lists inconsistent figures in papers, and the chosen values.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from regard.attention import Sinusoidal
from regard.cost.estimate import Cost, count, model_cost
from regard.cost.hardware import Hardware
from regard.decoders.transformer import TransformerDecoder
from regard.encoders.image import VisionTransformer
from regard.encoders.text import TransformerEncoder
from regard.errors import CallError, nearest
from regard.layers.embedding import Embedding
from regard.layers.pooling import Pooling
from regard.layers.transformer import Block
from regard.models.classifier import Classifier
from regard.models.language_model import LanguageModel
from regard.models.seq2seq import Seq2Seq
from regard.settings.language_model import SIZES

# Constructors of published models from modules of this package, with the figures of their papers (see `published`).


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


_GPT2 = "Radford et al. 2019, Table 2; count of the published weights"
_GPT3 = "Brown et al. 2020, arXiv:2005.14165, Table 2.1"
_VIT = "Dosovitskiy et al. 2020, arXiv:2010.11929, Table 1"
_DEIT = "Touvron et al. 2020, arXiv:2012.12877, Table 1"

PUBLISHED: dict[str, Published] = {
    "transformer-base": transformer_entry(
        512, 8, 2048, 41_000, 65e6, 100_000,
        (
            "WMT14: 27.3 BLEU English-German, 38.1 English-French (Table 2)",
            "vocabulary of 41,000, as the paper's Table 3 implies; with the 37,000 of its text, 63.1M (docs/cost.md)",
        ),
    ),
    "transformer-big": transformer_entry(
        1024, 16, 4096, 37_000, 213e6, 300_000, ("WMT14: 28.4 BLEU English-German, 41.8 English-French (Table 2)",)
    ),
    "gpt2": gpt_entry("gpt2", 124e6, _GPT2),
    "gpt2-medium": gpt_entry("gpt2-medium", 355e6, _GPT2),
    "gpt2-large": gpt_entry("gpt2-large", 774e6, _GPT2),
    "gpt2-xl": gpt_entry("gpt2-xl", 1.56e9, _GPT2),
    "gpt3-small": gpt_entry("gpt3-small", 125e6, _GPT3, 300_000_000_000),
    "gpt3-medium": gpt_entry("gpt3-medium", 350e6, _GPT3, 300_000_000_000),
    "gpt3-large": gpt_entry("gpt3-large", 760e6, _GPT3, 300_000_000_000),
    "gpt3-1.3b": gpt_entry("gpt3-1.3b", 1.3e9, _GPT3, 300_000_000_000),
    "gpt3-2.7b": gpt_entry("gpt3-2.7b", 2.7e9, _GPT3, 300_000_000_000),
    "gpt3-6.7b": gpt_entry("gpt3-6.7b", 6.7e9, _GPT3, 300_000_000_000),
    "gpt3-13b": gpt_entry("gpt3-13b", 13e9, _GPT3, 300_000_000_000),
    "gpt3-175b": gpt_entry("gpt3-175b", 175e9, _GPT3, 300_000_000_000),
    "vit-ti16": vit_entry(192, 3, 5.7e6, _DEIT),
    "vit-s16": vit_entry(384, 6, 22e6, _DEIT),
    "vit-b16": vit_entry(768, 12, 86e6, _VIT),
}  # fmt: skip


def build(name: str) -> nn.Module:
    """Build a published model on the meta device."""
    with torch.device("meta"):
        return find(name).build()


def find(name: str) -> Published:
    if name not in PUBLISHED:
        raise CallError(f"{name!r} is not a known published model{nearest(name, PUBLISHED)}")
    return PUBLISHED[name]


def published_cost(
    name: str,
    *,
    hardware: Hardware | None = None,
    dtype: str | None = None,
    utilization: float | None = None,
    batch: int | None = None,
    length: int | None = None,
) -> Cost:
    """Estimate the cost of a published model, by default with its published batch and length."""
    entry = find(name)
    return model_cost(
        build(name),
        batch=batch or entry.batch,
        length=length or entry.length,
        name=name,
        hardware=hardware,
        dtype=dtype,
        utilization=utilization,
        training_tokens=entry.training_tokens,
        notes=(f"published: {count(entry.parameters)} parameters, {entry.source}", *entry.notes),
    )
