"""The recipe of language models: plain text in, more text out."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from regard.inputs.prompt.settings import TextDataSettings
from regard.outputs.text.language_model_settings import LanguageModelSettings
from regard.settings.recipe import Recipe
from regard.settings.sampling import SamplingSettings, Temperature


class GenerationSettings(SamplingSettings):
    """How a prompt is continued: token by token, drawn from the model's distribution."""

    temperature: Temperature = Field(0.8, ge=0, description="below 1 sharpens what is drawn from; 0 is greedy")
    max_length: int = Field(200, ge=1, description="most tokens to write")
    repetition_penalty: float = Field(1.0, ge=1, description="above 1 makes tokens that were there less probable")
    stop: list[str] = Field([], description="texts that end the output; they are not part of it")
    n_best: int = Field(1, ge=1, le=1000, description="continuations to draw for each prompt")
    begin: bool | None = Field(
        None, description="put the begin token before a prompt; null is: if documents are lines or paragraphs"
    )
    stride: int = Field(
        0, ge=0, description="evaluation: tokens by which its window moves; 0 is half of the context, 1 is most exact"
    )

    @property
    def random(self) -> bool:
        """Whether outputs are drawn, and not the most probable ones."""
        return self.temperature > 0


class GenerateRecipe(Recipe):
    """Language models: plain text in, more text out."""

    job: Literal["generate"] = Field("generate", description="the job: continue text")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: TextDataSettings = Field(description="the user's files and how they are read")
    model: LanguageModelSettings = Field(
        LanguageModelSettings.model_validate({}), description="the model and its sizes"
    )
    decoding: GenerationSettings = Field(GenerationSettings.model_validate({}), description="how prompts are continued")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.training.max_tokens < self.model.context:
            yield "training.max_tokens", f"is less than one window of model.context={self.model.context}"
        if self.decoding.stride > self.model.context:
            yield "decoding.stride", f"is more than model.context={self.model.context}: tokens would be left out"
