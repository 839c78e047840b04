"""The recipe of texts into vectors."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from regard.inputs.text.settings import PairDataSettings
from regard.settings.base import Settings
from regard.settings.encoder import EncoderSettings, PretrainedSettings
from regard.settings.recipe import Recipe


class VectorSettings(Settings):
    """How a text's vectors become one, and how two of them are compared."""

    pooling: Literal["mean", "cls", "summary"] = Field(
        "mean",
        description="the mean of all vectors, that of the first token, or the encoder's own summary (pooler)",
    )
    normalize: bool = Field(True, description="scale vectors to length 1, so that their dot product is the cosine")
    temperature: float = Field(0.05, gt=0, description="cosines are divided by it in training; lower is stricter")
    batch_tokens: int = Field(8192, ge=1, description="tokens that are encoded together")


class EncodeRecipe(Recipe):
    """Texts into vectors that are near each other where the texts belong together."""

    job: Literal["encode"] = Field("encode", description="the job: texts into vectors")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: PairDataSettings = Field(description="pairs of texts that belong together, and how they are read")
    model: Annotated[EncoderSettings | PretrainedSettings, Field(discriminator="kind")] = Field(
        description="the encoder and its sizes, or the run of a trained one"
    )
    vectors: VectorSettings = Field(VectorSettings.model_validate({}), description="one vector for each text")

    def problems(self) -> Iterator[tuple[str, str]]:
        if not self.data.tokenizer.joint:
            yield "data.tokenizer.joint", "must be true: one encoder reads both texts of a pair"
        model = self.model
        if isinstance(model, EncoderSettings):
            # The start token comes on top of what the data may have.
            if model.positions == "learned" and self.data.max_length >= model.max_positions:
                yield "data.max_length", f"must be less than model.max_positions={model.max_positions}"
            if self.vectors.pooling == "summary" and not model.pooler:
                yield "vectors.pooling", "is summary, which needs model.pooler=true"
