"""What every recipe is: a task and its sections. Each task adds its own in a file of its name beside this one."""

from typing import Any

from pydantic import Field

from regard.settings.base import Settings
from regard.settings.training import TrainingSettings


class Expected(Settings):
    """The score that a recipe is known to reach, for `regard verify`."""

    metric: str = Field("bleu", description="name of the score, as `regard evaluate` prints it")
    score: float = Field(description="what the recipe is expected to reach")
    spread: float = Field(1.0, ge=0, description="how far off is still a reproduction")


class Variant(Settings):
    """One of the systems that `regard compare` puts side by side."""

    name: str = Field(description="what the table calls it")
    set: dict[str, Any] = Field(description="dotted keys and the values that this variant gives them")


class Recipe(Settings):
    """What every recipe has; each task adds its own sections."""

    task: str = Field(description="the job")
    about: str = Field("", description="the recipe in one line")
    needs: list[str] = Field([], description="extras of regard that it uses, such as spelling")
    training: TrainingSettings = Field(TrainingSettings.model_validate({}), description="how the model is trained")
    expected: Expected | None = Field(None, description="the score that the recipe is known to reach")
    variants: list[Variant] = Field([], description="what `regard compare` compares if it is not told")
