"""A forecast from patches: the past of each target is cut into pieces, which a Transformer reads as words.

    ŷ = W [z_1; …; z_N] (+ V x), for each target on its own, with the same weights for all

z: the memory of `encoders.series`. arXiv:2211.14730, section 3.1, with layer norm before each part, where the paper has
batch norm after it and adds attention scores from layer to layer. V x, a linear map of the whole look-back, is a
shortcut past the Transformer (Das et al. 2023, section 4, arXiv:2304.08424): a line is hard to beat on such data (Zeng
et al. 2022, arXiv:2205.13504), and what is left of it is for attention.
"""

from collections.abc import Sequence
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from regard.encoders.series import PatchEncoder
from regard.layers.dropout import Dropout
from regard.layers.instance_norm import InstanceNorm
from regard.models.forecaster import Forecaster


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
