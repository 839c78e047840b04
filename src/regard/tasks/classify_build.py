"""Settings of a classifier into modules."""

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention.layer import Attention
from regard.data.labels import Labels
from regard.data.specials import Specials
from regard.encoders.text import RecurrentEncoder
from regard.errors import CallError
from regard.layers.embedding import Embedding
from regard.layers.pooling import Attended, AttentionPooling, Pooling
from regard.models.classifier import Classifier, WordDropout
from regard.settings.classify import (
    PretrainedClassifierSettings,
    RecurrentClassifierSettings,
    TransformerClassifierSettings,
)  # fmt: skip
from regard.settings.encoder import EncoderSettings
from regard.tasks.build import build_encoder, build_score

TextModel = RecurrentClassifierSettings | TransformerClassifierSettings | PretrainedClassifierSettings


def build_text_classifier(
    s: TextModel,
    vocabulary: int,
    specials: Specials,
    classes: int,
    pretrained: EncoderSettings | None = None,
    weights: Float[Tensor, " N"] | None = None,
) -> Classifier:
    """`vocabulary`: how many entries it has, and which are special; `pretrained`: the sizes of that encoder."""
    pad = specials.pad or 0
    if isinstance(s, RecurrentClassifierSettings):
        encoder: nn.Module = RecurrentEncoder(
            Embedding(vocabulary, s.embedding, dropout=s.dropout), s.width,
            cell=s.cell, depth=s.layers, bidirectional=s.bidirectional, dropout=s.dropout,
        )  # fmt: skip
        width = s.width
    else:
        sizes = s if isinstance(s, TransformerClassifierSettings) else pretrained
        assert sizes is not None, "prepare or restore comes first"
        encoder, width = build_encoder(sizes, vocabulary, pad=pad), sizes.width
    pooling: nn.Module
    if s.pooling == "attention":
        pooling = AttentionPooling(build_score(s.score, width, width, width), width)
    else:
        pooling = Pooling(s.pooling)
    if isinstance(s, RecurrentClassifierSettings) and s.self_attention:
        pooling = Attended(Attention(build_score(s.score, width, width, width), width, width), pooling)
    noise = None
    if s.word_dropout:
        if specials.unk is None:
            raise CallError(f"model.word_dropout={s.word_dropout:g} needs a vocabulary with a token for unknown words")
        keep = [index for index in (pad, specials.start, specials.end) if index is not None]
        noise = WordDropout(s.word_dropout, unknown=specials.unk, keep=keep)
    frozen = isinstance(s, PretrainedClassifierSettings) and s.frozen
    return Classifier(
        encoder, pooling, width, classes, dropout=s.head_dropout, label_smoothing=s.label_smoothing,
        class_weights=weights, noise=noise, frozen=frozen,
        layer_decay=s.layer_decay if isinstance(s, PretrainedClassifierSettings) else 1.0,
    )  # fmt: skip


def class_weights(
    wish: str | dict[str, float], labels: Labels, counts: NDArray[np.int64], total: int
) -> Float[Tensor, " N"] | None:
    """Weights whose mean over the training examples is one (of several labels: what a yes weighs beside a no).

    balanced: one label, w_c = M / (N m_c), so that all classes weigh the same together (King and Zeng 2001); several
    labels, w_c = (M − m_c) / m_c, so that yes and no do. `counts` has the m_c of training, `total` is M.
    """
    if wish == "none":
        return None
    count = torch.from_numpy(counts).clamp(min=1).float()
    if isinstance(wish, dict):
        given = {labels.require(name): value for name, value in wish.items()}
        found = torch.tensor([given.get(number, 1.0) for number in range(len(labels))])
        return found if labels.several else found * total / (found * count).sum()
    return (total - count).clamp(min=1) / count if labels.several else total / (len(labels) * count)
