"""The sections that every recipe has. Each job adds its own, in the package of its output."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from regard.settings.base import Settings
from regard.settings.training import TrainingSettings


class Expected(Settings):
    """The known score of a recipe, for `regard verify`."""

    metric: str = Field("bleu", description="name of the score, as `regard evaluate` prints it")
    score: float = Field(description="expected score")
    spread: float = Field(1.0, ge=0, description="largest difference from `score` that still counts as reproduced")
    mode: Literal["min", "max"] = Field("max", description="whether a smaller or a larger score is better")


class Variant(Settings):
    """One of the systems that `regard compare` compares."""

    name: str = Field(description="name in the table")
    set: dict[str, Any] = Field(description="dotted keys and their values in this variant")


class StartSettings(Settings):
    """Fine-tuning: start from the weights of another run that fit. `start: RUN` is short for `start.run`."""

    run: str = Field(description="folder of a run, trained or imported")
    vocabulary: Literal["keep", "new"] = Field(
        "keep", description="keep the tokenizers of that run, or learn new ones and copy the vectors of shared tokens"
    )


class Recipe(Settings):
    """The sections of every recipe; each job adds its own."""

    job: str = Field(description="the job")
    if TYPE_CHECKING:  # the sections of a job, by the settings of its input and its output
        data: Any
        model: Any
        decoding: Any
    about: str = Field("", description="description of the recipe in one line")
    needs: list[str] = Field([], description="extras of regard that it uses, such as spelling")
    start: StartSettings | None = Field(None, description="the run that training starts from; null: random weights")
    training: TrainingSettings = Field(TrainingSettings.model_validate({}), description="how the model is trained")
    expected: Expected | None = Field(None, description="known score of the recipe")
    variants: list[Variant] = Field([], description="what `regard compare` compares by default")

    @field_validator("start", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return {"run": given} if isinstance(given, str) else given
