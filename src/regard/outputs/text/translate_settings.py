"""The recipe of text to text."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from regard.inputs.text.settings import PairDataSettings
from regard.outputs.text.settings import DecodingSettings
from regard.settings.model import RecurrentSettings, TransformerSettings
from regard.settings.recipe import Recipe


class TranslateRecipe(Recipe):
    """Text to text: translation, spelling, anything with a source and a target line."""

    job: Literal["translate"] = Field("translate", description="the job: text to text")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: PairDataSettings = Field(description="the user's files and how they are read")
    model: Annotated[RecurrentSettings | TransformerSettings, Field(discriminator="kind")] = Field(
        description="the model and its sizes"
    )
    decoding: DecodingSettings = Field(DecodingSettings.model_validate({}), description="how outputs are searched for")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.model.tied == "all" and not self.data.tokenizer.joint:
            yield "model.tied", "shares the source's word vectors too, which needs data.tokenizer.joint=true"
