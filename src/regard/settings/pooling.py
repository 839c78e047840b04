"""How the vectors of a memory become one."""

from typing import Literal

from pydantic import Field

from regard.settings.base import Settings
from regard.settings.model import ScoreName


class PoolingSettings(Settings):
    pooling: Literal["attention", "mean", "max", "summary"] = Field(
        "attention", description="how the vectors become one; summary: the last states, or the mean of a Transformer"
    )
    score: ScoreName = Field("additive", description="how a query is held against a vector; pooling=attention only")
