"""Series from series: an encoder makes a memory of the past, and every step ahead attends to it.

    memory = encoder(past)        f = decoder(known, memory)        ŷ_t = W f_t

The decoders are those of `decoders.series`; `patch_forecaster` has another way, a linear map of all patches. The level
of a window may be taken away before and given back after: see `layers.instance_norm`.

Loss: squared or absolute error, or the pinball loss of quantiles q (Koenker and Bassett 1978): max(q e, (q − 1) e),
e = y − ŷ_q, whose mean is least where ŷ_q has the share q of the values below it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.decoders.series import RecurrentSeriesDecoder, TransformerSeriesDecoder
from regard.layers.instance_norm import InstanceNorm, Level
from regard.layers.loss import Loss


@runtime_checkable
class Window(Protocol):
    """A training batch: scaled numbers of the past, values known ahead, and targets."""

    @property
    def past(self) -> Tensor: ...
    @property
    def known(self) -> Tensor: ...
    @property
    def target(self) -> Tensor: ...


class Forecaster(nn.Module, ABC):
    """Base of all forecasters, with loss, instance norm and quantiles; subclasses implement `say`."""

    quantiles: Tensor

    def __init__(
        self,
        targets: int,
        quantiles: Sequence[float] = (),
        *,
        loss: Literal["mse", "mae"] = "mse",
        instance_norm: InstanceNorm = "window",
    ) -> None:
        super().__init__()
        self.targets, self.loss = targets, loss
        self.instance_norm: InstanceNorm = instance_norm
        self.outputs = max(1, len(quantiles))  # for each target of each step
        self.middle = list(quantiles).index(0.5) if quantiles else 0
        self.register_buffer("quantiles", torch.tensor(list(quantiles)), persistent=False)
        self.past = nn.Identity()  # what gradients by the input are taken of

    @abstractmethod
    def say(self, past: Float[Tensor, "B S C"], known: Float[Tensor, "B T F"]) -> Float[Tensor, "B T M P"]:
        """Return the forecast from inputs after the instance norm, if there is one."""

    def predict(self, past: Float[Tensor, "B S C"], known: Float[Tensor, "B T F"]) -> Float[Tensor, "B T M P"]:
        """Return each target at each step ahead: one value, or one for each quantile; quantiles never cross."""
        past = self.past(past)
        if self.instance_norm == "none":
            said = self.say(past, known)
        else:
            own = past[..., : self.targets]
            level = Level.last(own) if self.instance_norm == "last" else Level.of(own)
            own = (past[..., : self.targets] - level.mean) / level.deviation
            said = self.say(torch.cat([own, past[..., self.targets :]], dim=-1), known)
            said = said * level.deviation.unsqueeze(-1) + level.mean.unsqueeze(-1)
        return said if self.training or self.outputs == 1 else said.sort(dim=-1).values

    def forward(self, batch: Window) -> Loss:
        error = batch.target.unsqueeze(-1) - self.predict(batch.past, batch.known)
        if len(self.quantiles):
            total = pinball(error, self.quantiles).sum()
        else:
            total = (error.square() if self.loss == "mse" else error.abs()).sum()
        return Loss(total, error.numel())


def pinball(error: Float[Tensor, "*b P"], quantiles: Float[Tensor, " P"]) -> Float[Tensor, "*b P"]:
    """Return max(q e, (q − 1) e) of errors e = y − ŷ_q."""
    return torch.maximum(quantiles * error, (quantiles - 1) * error)


class EncoderDecoderForecaster(Forecaster):
    def __init__(
        self,
        encoder: nn.Module,
        decoder: RecurrentSeriesDecoder | TransformerSeriesDecoder,
        targets: int,
        quantiles: Sequence[float] = (),
        *,
        loss: Literal["mse", "mae"] = "mse",
        instance_norm: InstanceNorm = "window",
    ) -> None:
        super().__init__(targets, quantiles, loss=loss, instance_norm=instance_norm)
        self.encoder, self.decoder = encoder, decoder
        self.output = nn.Linear(decoder.feature_width, targets * self.outputs)

    def say(self, past: Float[Tensor, "B S C"], known: Float[Tensor, "B T F"]) -> Float[Tensor, "B T M P"]:
        features = self.decoder(known, self.encoder(past))
        return self.output(features).unflatten(-1, (self.targets, self.outputs))
