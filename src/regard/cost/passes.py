"""Cost of a model of this package: one pass of each kind of model on synthetic input, for `estimate`."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.cost.estimate import Cost, estimate
from regard.cost.hardware import Hardware
from regard.encoders.image import VisionTransformer
from regard.models.classifier import Classifier
from regard.models.language_model import LanguageModel
from regard.models.seq2seq import Seq2Seq


def model_cost(
    model: nn.Module,
    *,
    batch: int,
    length: int,
    name: str = "model",
    hardware: Hardware | None = None,
    dtype: str | None = None,
    utilization: float | None = None,
    training_tokens: int | None = None,
    notes: tuple[str, ...] = (),
) -> Cost:
    """Estimate the cost of a translator, language model or classifier on the meta device. See `estimate`.

    Operations of a translator are per target token and source token: sources are as long as targets.
    """
    device = next(model.parameters()).device
    tokens = torch.ones(batch, length, dtype=torch.long, device=device)
    unit, decoder = "token", None
    forward: Callable[[], Tensor]
    if isinstance(model, Seq2Seq):
        decoder, forward = model.decoder, lambda: model.logits(model.features(model.encode(tokens), tokens))
    elif isinstance(model, LanguageModel):
        decoder, forward = model.decoder, lambda: model.logits(model.features(tokens))
    elif isinstance(model, Classifier) and isinstance(model.encoder, VisionTransformer):
        images = torch.zeros(batch, model.encoder.channels, *model.encoder.size, device=device)
        unit, forward = "image", lambda: model.logits(images)
    elif isinstance(model, Classifier):
        forward = lambda: model.logits(tokens)  # noqa: E731
    else:
        raise TypeError(
            f"a {type(model).__name__} has no cost estimate: use a translator, language model or classifier"
        )
    return estimate(
        model,
        forward,
        batch=batch,
        length=length,
        name=name,
        unit=unit,
        decoder=decoder,
        hardware=hardware,
        dtype=dtype,
        utilization=utilization,
        training_tokens=training_tokens,
        notes=notes,
    )
