"""What every recipe is: a job and its sections. Each job adds its own, in its output's folder."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from regard.settings.base import Settings
from regard.settings.training import TrainingSettings


class Expected(Settings):
    """The score that a recipe is known to reach, for `regard verify`."""

    metric: str = Field("bleu", description="name of the score, as `regard evaluate` prints it")
    score: float = Field(description="what the recipe is expected to reach")
    spread: float = Field(1.0, ge=0, description="how far off is still a reproduction")
    mode: Literal["min", "max"] = Field("max", description="whether a smaller or a larger score is better")


class Variant(Settings):
    """One of the systems that `regard compare` puts side by side."""

    name: str = Field(description="what the table calls it")
    set: dict[str, Any] = Field(description="dotted keys and the values that this variant gives them")


class StartSettings(Settings):
    """Fine-tuning: begin with the weights of another run, as far as they fit. `start: RUN` is short for its `run`."""

    run: str = Field(description="folder of a run, trained or imported")
    vocabulary: Literal["keep", "new"] = Field(
        "keep", description="keep the tokenizers of that run, or learn new ones and take over the tokens both have"
    )


class Recipe(Settings):
    """What every recipe has; each job adds its own sections."""

    job: str = Field(description="the job")
    if TYPE_CHECKING:  # the sections of a job, by the settings of its input and its output
        data: Any
        model: Any
        decoding: Any
    about: str = Field("", description="the recipe in one line")
    needs: list[str] = Field([], description="extras of regard that it uses, such as spelling")
    start: StartSettings | None = Field(None, description="the run that training starts from; null is from nothing")
    training: TrainingSettings = Field(TrainingSettings.model_validate({}), description="how the model is trained")
    expected: Expected | None = Field(None, description="the score that the recipe is known to reach")
    variants: list[Variant] = Field([], description="what `regard compare` compares if it is not told")

    @field_validator("start", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return {"run": given} if isinstance(given, str) else given
