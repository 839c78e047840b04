"""Settings of a classifier into modules."""

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data.special_ids import SpecialIds
from regard.models.classifier import Classifier
from regard.outputs.labels.classify_settings import (
    PretrainedClassifierSettings,
    RecurrentClassifierSettings,
    TransformerClassifierSettings,
)  # fmt: skip
from regard.outputs.labels.labels import Labels
from regard.outputs.labels.text_body import build_text_body
from regard.settings.encoder import EncoderSettings

TextModel = RecurrentClassifierSettings | TransformerClassifierSettings | PretrainedClassifierSettings


def build_text_classifier(
    s: TextModel,
    vocabulary: int,
    specials: SpecialIds,
    classes: int,
    pretrained: EncoderSettings | None = None,
    weights: Float[Tensor, " N"] | None = None,
) -> Classifier:
    """`vocabulary`: how many entries it has, and which are special; `pretrained`: the sizes of that encoder."""
    body = build_text_body(s, vocabulary, specials, pretrained)
    return Classifier(
        body.encoder, body.pooling, body.width, classes, dropout=s.head_dropout, label_smoothing=s.label_smoothing,
        class_weights=weights, noise=body.noise, frozen=body.frozen,
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
