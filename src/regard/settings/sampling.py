"""Settings of sampling tokens from a model's distribution, for texts and pictures."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from regard.settings.base import Settings

COLDEST = 0.001  # scores divided by less overflow; sampling gives the most probable token anyway


def _drawable(temperature: float) -> float:
    if 0 < temperature < COLDEST:
        raise ValueError(f"should be 0 (the most probable token) or at least {COLDEST}")
    return temperature


Temperature = Annotated[float, AfterValidator(_drawable)]


class SamplingSettings(Settings):
    """temperature=0 takes the most probable token; the same seed gives the same samples."""

    temperature: Temperature = Field(1.0, ge=0, description="below 1 sharpens the distribution; 0 is greedy")
    top_k: int = Field(0, ge=0, description="sample from the k most probable tokens only; 0 is all")
    top_p: float = Field(1.0, gt=0, le=1, description="sample from the fewest tokens whose probabilities sum to this")
    seed: int = Field(0, ge=0, description="random seed of sampling; the same seed gives the same output")

    n_best: int = Field(1, ge=1, le=1000, description="outputs returned for each input, best first")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.n_best > 1 and not self.temperature:
            yield "n_best", "requests several outputs, but temperature=0 gives the same one every time: set temperature"

    @property
    def random(self) -> bool:
        """Whether outputs are sampled instead of the most probable ones."""
        return self.temperature > 0
