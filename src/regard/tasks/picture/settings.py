"""The recipe of text to pictures."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from regard.settings.base import Settings
from regard.settings.model import SamplingSettings, head_problems
from regard.settings.recipe import Recipe
from regard.tasks.text.picture_settings import CaptionDataSettings


class PictureTokensSettings(Settings):
    """The tokenizer of pictures: convolutions to a grid of vectors, each replaced by a vector of a codebook, and
    back.
    """

    stages: list[Annotated[int, Field(ge=1)]] = Field(
        [24, 48, 96], min_length=1, description="channels of each stage, which halves both sides"
    )
    depth: int = Field(1, ge=1, description="convolutions in each stage; those after the first are residual")
    codes: int = Field(512, ge=2, description="number of different tokens of a region")
    width: int = Field(32, ge=1, description="width of the vectors of the codebook")
    commitment: float = Field(0.25, ge=0, description="weight of the penalty for vectors that are far from their code")
    epochs: int = Field(
        1,
        ge=1,
        description="first epochs of training, for the tokenizer only; then it is frozen and the decoder is trained",
    )
    rate: float = Field(1.0, gt=0, description="its learning rate, relative to training.learning_rate")


class DrawerSettings(Settings):
    """A decoder-only Transformer over the tokens of a text, then those of a picture."""

    tokenizer: PictureTokensSettings = Field(
        PictureTokensSettings.model_validate({}), description="how pictures are converted to tokens"
    )
    layers: int = Field(4, ge=1, description="depth")
    width: int = Field(256, ge=1, description="width of the vectors between layers")
    heads: int = Field(8, ge=1, description="attention heads")
    feed_forward: int | None = Field(None, ge=1, description="width inside the feed-forward layers; null is 4 · width")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of activations dropped in training")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="probability spread over all tokens in the loss")
    text_weight: float = Field(1 / 7, ge=0, description="weight of a text token in the loss; a region has weight 1")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from head_problems(self.width, self.heads)


class DrawingSettings(SamplingSettings):
    """How a picture is drawn: each region is a token sampled from the model's distribution."""

    candidates: int = Field(
        1, ge=1, le=1000, description="pictures drawn for each sentence, of which the best are returned"
    )
    rerank: str | None = Field(
        None, description="a run of the job match that ranks the candidates; null ranks them by the model"
    )


class DrawRecipe(Recipe):
    """Text to pictures."""

    job: Literal["draw"] = Field("draw", description="the job: text to pictures")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: CaptionDataSettings = Field(description="the user's pictures and captions, and how they are read")
    model: DrawerSettings = Field(DrawerSettings.model_validate({}), description="the model and its sizes")
    decoding: DrawingSettings = Field(DrawingSettings.model_validate({}), description="how pictures are drawn")

    def problems(self) -> Iterator[tuple[str, str]]:
        data, tokenizer, training = self.data, self.model.tokenizer, self.training
        side = 2 ** len(tokenizer.stages)
        if data.height % side or data.width % side:
            sizes = f"data.height={data.height} and data.width={data.width}"
            yield "model.tokenizer.stages", f"make regions of {side}×{side} pixels, which must divide {sizes}"
        if training.max_epochs is not None and training.max_epochs <= tokenizer.epochs:
            yield "training.max_epochs", f"must be more than model.tokenizer.epochs={tokenizer.epochs}: the decoder's"
        if training.shard:
            yield "training.shard", "is not supported here: a codebook cannot be split across processes"
