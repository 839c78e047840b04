"""Settings of pooling: how the vectors of the encoder output become one vector."""

from typing import Literal

from pydantic import Field

from regard.settings.base import Settings
from regard.settings.model import ScoreName


class PoolingSettings(Settings):
    pooling: Literal["attention", "mean", "max", "summary"] = Field(
        "attention", description="how the vectors become one; summary: the last states, or the mean of a Transformer"
    )
    score: ScoreName = Field("additive", description="attention score function; pooling=attention only")
