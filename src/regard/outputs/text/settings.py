"""How a trained model is asked for its output."""

from collections.abc import Iterator

from pydantic import Field

from regard.settings.base import Settings


class DecodingSettings(Settings):
    """Beam search by default; beam=1 is greedy; sample=true draws at random."""

    beam: int = Field(5, ge=1, le=1000, description="hypotheses kept at each step; 1 is greedy")
    n_best: int = Field(1, ge=1, le=1000, description="hypotheses given back for each input, at most beam")
    length_penalty: float = Field(
        1.0, ge=0, description="scores are divided by length ** this; 0 prefers short outputs"
    )
    coverage_penalty: float = Field(0.0, ge=0, description="weight of the penalty for source words not attended to")
    min_length: int = Field(0, ge=0, description="fewest tokens of an output")
    max_length: int = Field(200, ge=1, description="most tokens of an output")
    sample: bool = Field(False, description="draw from the model's distribution rather than search")
    temperature: float = Field(1.0, gt=0, description="below 1 sharpens the distribution that is drawn from")
    top_k: int = Field(0, ge=0, description="draw from the k most probable tokens only; 0 is all")
    top_p: float = Field(1.0, gt=0, le=1, description="draw from the fewest tokens that hold this much probability")
    seed: int = Field(0, description="of the draws")
    batch_tokens: int = Field(4096, ge=1, description="source tokens decoded together")
    unknown: bool = Field(False, description="let the model write <unk>, where no word that it knows seems right")
    replace_unknown: bool = Field(False, description="put the source word most attended to where the model says <unk>")

    @property
    def random(self) -> bool:
        """Whether outputs are drawn rather than searched for."""
        return self.sample

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.n_best > self.beam and not self.sample:
            yield "n_best", f"is more than beam={self.beam}"
        if self.min_length > self.max_length:
            yield "min_length", f"is more than max_length={self.max_length}"
