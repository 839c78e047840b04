"""Settings of decoding, and the recipe of text to text."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from regard.inputs.text.settings import PairDataSettings
from regard.settings.model import RecurrentSettings, TransformerSettings
from regard.settings.recipe import Recipe
from regard.settings.sampling import COLDEST, SamplingSettings


class DecodingSettings(SamplingSettings):
    """Beam search by default; beam=1 is greedy; sample=true samples."""

    beam: int = Field(5, ge=1, le=1000, description="hypotheses kept at each step; 1 is greedy")
    length_penalty: float = Field(
        1.0, ge=0, description="scores are divided by length ** this; 0 prefers short outputs"
    )
    coverage_penalty: float = Field(0.0, ge=0, description="weight of the penalty for source words not attended to")
    min_length: int = Field(0, ge=0, description="minimum tokens of an output")
    max_length: int = Field(200, ge=1, description="maximum tokens of an output")
    sample: bool = Field(False, description="sample from the model's distribution instead of searching")
    temperature: float = Field(1.0, ge=COLDEST, description="below 1 sharpens the distribution of samples")
    batch_tokens: int = Field(4096, ge=1, description="source tokens decoded together")
    unknown: bool = Field(False, description="allow <unk> in outputs")
    replace_unknown: bool = Field(False, description="replace <unk> by the most attended source word")

    @property
    def random(self) -> bool:
        """Whether outputs are sampled instead of searched."""
        return self.sample

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.n_best > self.beam and not self.sample:
            yield "n_best", f"is more than beam={self.beam}"
        if self.min_length > self.max_length:
            yield "min_length", f"is more than max_length={self.max_length}"


class WritingRecipe(Recipe):
    """Checks shared by all recipes whose decoder generates text over a memory."""

    reads_words: ClassVar[bool] = False  # whether the input has words that can replace unknown ones

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.model.tied == "all" and not (self.reads_words and self.data.tokenizer.joint):
            why = "is all, which also shares the word vectors of the input: that needs one vocabulary for both texts"
            yield "model.tied", f"{why} and data.tokenizer.joint=true; output shares the decoder's"
        if self.decoding.replace_unknown and not self.reads_words:
            yield "decoding.replace_unknown", "has no meaning here: there are no source words"


class TranslateRecipe(WritingRecipe):
    """Text to text: translation, spelling correction, any source line with a target line."""

    reads_words: ClassVar[bool] = True

    job: Literal["translate"] = Field("translate", description="the job: text to text")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: PairDataSettings = Field(description="the user's files and how they are read")
    model: Annotated[RecurrentSettings | TransformerSettings, Field(discriminator="kind")] = Field(
        description="the model and its sizes"
    )
    decoding: DecodingSettings = Field(DecodingSettings.model_validate({}), description="how outputs are decoded")
