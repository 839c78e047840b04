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

from regard.attention import Memory, Sinusoidal
from regard.decoders.recurrent import RecurrentReader
from regard.encoders.series import PatchEncoder
from regard.layers.feed_forward import Dropout, InstanceNorm, Level, norm
from regard.layers.loss import OutputLoss
from regard.layers.transformer import Block

# Decoders of series: every step ahead attends to a memory of the past.
#
#     recurrent     d_t = W [known_t] + position_t;   s_t = g(d_t, s_{t−1}), c_t as in `recurrent`;   f_t, its
#     features
#     transformer   the same d_t, all at once:  blocks of self-attention, cross-attention to the memory, feed-forward
#
# What is known ahead of a step (calendar, planned prices) and where it stands is all that a decoder is told: it does
# not read its own output, so all steps are said at once and no error is fed back (the direct way; for the Transformer
# as in Zhou et al. 2020, section 3.3, arXiv:2012.07436).


class SeriesDecoder(nn.Module):
    """Says all steps ahead at once: features `B T D` from a memory and what is known of each step."""

    def __init__(self, known: int, width: int, start: int, *, dropout: float = 0.0) -> None:
        """`start`: where the first step stands, counted from the first that the encoder read."""
        super().__init__()
        self.start = start
        self.enter = nn.Linear(known, width) if known else None
        self.first = nn.Parameter(torch.zeros(width))
        self.positions = Sinusoidal(width)
        self.dropout = Dropout(dropout)

    def steps(self, known: Float[Tensor, "B T F"]) -> Float[Tensor, "B T D"]:
        x = self.first.expand(*known.shape[:2], -1)
        if self.enter is not None:
            x = x + self.enter(known)
        return self.dropout(self.positions(x, self.start))


class RecurrentSeriesDecoder(SeriesDecoder):
    def __init__(self, known: int, width: int, start: int, reader: RecurrentReader, *, dropout: float = 0.0) -> None:
        super().__init__(known, width, start, dropout=dropout)
        self.reader = reader
        self.feature_width = reader.feature_width

    def forward(self, known: Float[Tensor, "B T F"], memory: Memory) -> Float[Tensor, "B T D"]:
        return self.reader.read(self.steps(known), memory)


class TransformerSeriesDecoder(SeriesDecoder):
    def __init__(self, known: int, width: int, start: int, layers: list[Block], *, dropout: float = 0.0) -> None:
        super().__init__(known, width, start, dropout=dropout)
        self.layers = nn.ModuleList(block.placed("decoder", number) for number, block in enumerate(layers))
        self.norm = norm(width)
        self.feature_width = width

    def forward(self, known: Float[Tensor, "B T F"], memory: Memory) -> Float[Tensor, "B T D"]:
        x = self.steps(known)
        for block in self.layers:
            x = block(x, memory=memory)
        return self.norm(x)


@runtime_checkable
class SeriesWindow(Protocol):
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

    def forward(self, batch: SeriesWindow) -> OutputLoss:
        error = batch.target.unsqueeze(-1) - self.predict(batch.past, batch.known)
        if len(self.quantiles):
            total = pinball(error, self.quantiles).sum()
        else:
            total = (error.square() if self.loss == "mse" else error.abs()).sum()
        return OutputLoss(total, error.numel())


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


# A forecast from patches: the past of each target is cut into pieces, which a Transformer reads as words.
#
#     ŷ = W [z_1; …; z_N] (+ V x), for each target on its own, with the same weights for all
#
# z: the memory of `encoders.series`. arXiv:2211.14730, section 3.1, with layer norm before each part, where the paper
# has batch norm after it and adds attention scores from layer to layer. V x, a linear map of the whole look-back, is
# a shortcut past the Transformer (Das et al. 2023, section 4, arXiv:2304.08424): a line is hard to beat on such data
# (Zeng et al. 2022, arXiv:2205.13504), and what is left of it is for attention.


class PatchForecaster(Forecaster):
    """Each target on its own, with the same weights: the other targets are only more examples."""

    def __init__(
        self,
        encoder: PatchEncoder,
        horizon: int,
        targets: int,
        quantiles: Sequence[float] = (),
        *,
        loss: Literal["mse", "mae"] = "mse",
        instance_norm: InstanceNorm = "window",
        dropout: float = 0.0,
        shortcut: int | None = None,
    ) -> None:
        """`shortcut`: the length of the look-back, for a linear map of it beside the Transformer."""
        super().__init__(targets, quantiles, loss=loss, instance_norm=instance_norm)
        self.encoder, self.horizon = encoder, horizon
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(encoder.patches * encoder.memory_width, horizon * self.outputs)
        self.shortcut = None if shortcut is None else nn.Linear(shortcut, horizon * self.outputs, bias=False)
        if self.shortcut is not None:
            nn.init.zeros_(self.shortcut.weight)

    def say(self, past: Float[Tensor, "B S C"], known: Float[Tensor, "B T F"]) -> Float[Tensor, "B T M P"]:
        rows = past.transpose(1, 2).flatten(0, 1)  # B·M S
        z = self.dropout(self.encoder(rows).vectors.flatten(1))
        said = self.output(z) if self.shortcut is None else self.output(z) + self.shortcut(rows)
        return said.view(len(past), self.targets, self.horizon, self.outputs).transpose(1, 2)
