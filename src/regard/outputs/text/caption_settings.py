"""The recipe of pictures to text."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from regard.data.pairs import Columns
from regard.data.settings import Column, TokenizerSettings
from regard.inputs.image.settings import PictureEncoderSettings, PictureSettings, fits
from regard.outputs.text.settings import DecodingSettings
from regard.settings.model import RecurrentSettings, TransformerSettings
from regard.settings.recipe import Recipe


class CaptionDataSettings(PictureSettings):
    """Pictures and what is said of them; a picture may have several captions, one a line of a list.

    Each of train, valid and test is a list (FILE.tsv, .csv, .jsonl, .parquet: file name and caption), a folder or .tar
    (x.jpg with its caption in x.txt beside it) or corpus:NAME.
    """

    caption: Column | None = Field(
        None, description="column of the caption: a name, or a number from 0; by default 'caption', or the second"
    )
    tokenizer: TokenizerSettings = Field(
        TokenizerSettings.model_validate({}), description="how captions are cut into tokens"
    )
    max_length: int = Field(64, ge=2, description="captions of more tokens are left out of training")

    @property
    def columns(self) -> Columns:
        return Columns({"image": self.image, "caption": self.caption}, self.header)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from self.tokenizer.problems_of_one_text()
        if self.augment.mixup:
            yield "augment.mixup", "mixes labels; of two captions there is no mean"
        yield from self.problems_of_columns(image=self.image, caption=self.caption)


class RecurrentCaptionerSettings(RecurrentSettings):
    """Show, Attend and Tell: a recurrent decoder that looks at the regions of the picture, or at one vector of it."""

    encoder: PictureEncoderSettings = Field(description="what reads the picture")
    positions: bool = Field(True, description="tell the decoder where each region is (sinusoids of row and column)")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from _tied(self.tied)
        if self.encoder_layers != 1 or not self.bidirectional:
            yield "encoder_layers", "and bidirectional belong to encoders of text; model.encoder reads the picture"


class TransformerCaptionerSettings(TransformerSettings):
    """A Transformer decoder over the regions of the picture."""

    encoder: PictureEncoderSettings = Field(description="what reads the picture")
    encoder_layers: int = Field(0, ge=0, description="blocks of self-attention over the regions, before the decoder")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from _tied(self.tied)


def _tied(tied: str) -> Iterator[tuple[str, str]]:
    if tied == "all":
        yield "tied", "is all, but pictures have no word vectors to share; output shares the decoder's"


class CaptionRecipe(Recipe):
    """Pictures to text."""

    job: Literal["caption"] = Field("caption", description="the job: pictures to text")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: CaptionDataSettings = Field(description="the user's pictures and how they are read")
    model: Annotated[RecurrentCaptionerSettings | TransformerCaptionerSettings, Field(discriminator="kind")] = Field(
        description="the model and its sizes"
    )
    decoding: DecodingSettings = Field(
        DecodingSettings.model_validate({"max_length": 40}), description="how outputs are searched for"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        for name, why in fits(self.model.encoder, self.data):
            yield f"model.encoder.{name}", why
        if self.decoding.replace_unknown:
            yield "decoding.replace_unknown", "has no meaning for pictures: there is no source word to put in"
