"""How tokens are drawn from a model's distribution: those of a text, or those of a picture."""

from pydantic import Field

from regard.settings.base import Settings


class SamplingSettings(Settings):
    """temperature=0 takes the most probable token; the same seed draws the same."""

    temperature: float = Field(1.0, ge=0, description="below 1 sharpens what is drawn from; 0 is greedy")
    top_k: int = Field(0, ge=0, description="draw from the k most probable tokens only; 0 is all")
    top_p: float = Field(1.0, gt=0, le=1, description="draw from the fewest tokens that hold this much probability")
    seed: int = Field(0, ge=0, description="of the draws; the same seed gives the same output")
