"""The recipes of pictures to text: captions, and answers to questions about a picture."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from regard.data.pairs import Columns
from regard.data.settings import WORDS, Column, OneTextTokenizer, TokenizerSettings
from regard.inputs.image.settings import PictureEncoderSettings, PictureSettings, fits
from regard.settings.base import Settings
from regard.settings.model import RecurrentSettings, TransformerSettings
from regard.tasks.text.settings import DecodingSettings, WritingRecipe


# --------------------------------------------------------------------------------------------------------------- data
class CaptionDataSettings(PictureSettings):
    """Pictures and their captions; a picture may have several captions, one a line of a list.

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
            yield "augment.mixup", "mixes labels; two captions have no mean"
        yield from self.problems_of_columns(image=self.image, caption=self.caption)


class AskDataSettings(PictureSettings):
    """Pictures, questions about them, and the answers; a picture may occur in many lines.

    Each of train, valid and test is a list (FILE.tsv, .csv, .jsonl, .parquet: file name, question and answer) or
    corpus:NAME.
    """

    question: Column | None = Field(None, description="column of the question; by default 'question', or the second")
    answer: Column | None = Field(None, description="column of the answer; by default 'answer', or the third")
    tokenizer: OneTextTokenizer = Field(
        WORDS, description="how questions, and answers, are cut into tokens; each has a separate vocabulary"
    )
    max_length: int = Field(64, ge=2, description="rows with a text of more tokens are left out of training")

    @property
    def columns(self) -> Columns:
        wanted = {"image": self.image, "question": self.question, "answer": self.answer}
        return Columns(wanted, self.header, split=self.split)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.tokenizer.joint:
            yield "tokenizer.joint", "is true, but questions and answers have separate vocabularies"
        if self.augment.mixup:
            yield "augment.mixup", "mixes labels; two answers have no mean"
        if self.augment.flip:
            yield "augment.flip", "mirrors pictures: left and right would be swapped, and answers would be wrong"
        if self.format not in ("auto", "tsv", "csv", "jsonl", "parquet"):
            yield "format", f"is {self.format}, which does not have three columns; use tsv, csv, jsonl or parquet"
        for name in ("name_text", "valid_names", "test_names"):
            if getattr(self, name) is not None:
                yield name, "is for folders of pictures; questions need lists"
        yield from self.problems_of_columns(**self.columns.wanted)


# ------------------------------------------------------------------------------------------------------------- models
class PictureReaderSettings(Settings):
    encoder: PictureEncoderSettings = Field(description="what reads the picture")


class RecurrentCaptionerSettings(PictureReaderSettings, RecurrentSettings):
    """Show, Attend and Tell: a recurrent decoder that attends to the regions of the picture, or reads one vector of
    it. With a question, it also attends to the states of a recurrent encoder.
    """

    positions: bool = Field(
        True, description="add the position of each region for the decoder (sinusoids of row and column)"
    )


class TransformerCaptionerSettings(PictureReaderSettings, TransformerSettings):
    """A Transformer decoder over the regions of the picture."""

    encoder_layers: int = Field(0, ge=0, description="blocks of self-attention over the regions, before the decoder")


class TransformerAskSettings(PictureReaderSettings, TransformerSettings):
    """A Transformer: blocks over the regions of the picture and the words of the question together, and a decoder."""

    encoder_layers: int = Field(
        0, ge=0, description="blocks of self-attention over the words, and over the regions, before they are joined"
    )
    joint_layers: int = Field(2, ge=0, description="blocks of self-attention over words and regions together")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.positions not in ("sinusoidal", "learned"):
            yield (
                "positions",
                f"is {self.positions}, which needs one order of all vectors; words and regions have none: use "
                "sinusoidal or learned, which encode word positions before both are joined",
            )


# ------------------------------------------------------------------------------------------------------------ recipes
class PictureRecipe(WritingRecipe):
    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        for name, why in fits(self.model.encoder, self.data):
            yield f"model.encoder.{name}", why


class CaptionRecipe(PictureRecipe):
    """Pictures to text."""

    job: Literal["caption"] = Field("caption", description="the job: pictures to text")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: CaptionDataSettings = Field(description="the user's pictures and how they are read")
    model: Annotated[RecurrentCaptionerSettings | TransformerCaptionerSettings, Field(discriminator="kind")] = Field(
        description="the model and its sizes"
    )
    decoding: DecodingSettings = Field(
        DecodingSettings.model_validate({"max_length": 40}), description="how outputs are decoded"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        s = self.model
        if isinstance(s, RecurrentCaptionerSettings) and (s.encoder_layers != 1 or not s.bidirectional):
            why = "and bidirectional belong to encoders of text; model.encoder reads the picture"
            yield "model.encoder_layers", why


class AskRecipe(PictureRecipe):
    """A picture and a question to text."""

    job: Literal["ask"] = Field("ask", description="the job: a picture and a question to text")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: AskDataSettings = Field(description="the user's pictures and questions, and how they are read")
    model: Annotated[RecurrentCaptionerSettings | TransformerAskSettings, Field(discriminator="kind")] = Field(
        description="the model and its sizes"
    )
    decoding: DecodingSettings = Field(
        DecodingSettings.model_validate({"max_length": 20}), description="how outputs are decoded"
    )
