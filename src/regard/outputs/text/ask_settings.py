"""The recipe of a picture and a question to text."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from regard.data.settings import WORDS, Column, JointFormat, OneTextTokenizer
from regard.inputs.image.settings import PictureEncoderSettings, PictureSettings, fits
from regard.outputs.text.settings import DecodingSettings
from regard.settings.model import RecurrentSettings, TransformerSettings
from regard.settings.recipe import Recipe


class AskDataSettings(PictureSettings):
    """Pictures, questions about them, and the answers; a picture may stand in many lines.

    Each of train, valid and test is a list (FILE.tsv, .csv, .jsonl: file name, question and answer) or corpus:NAME.
    """

    train: str = Field(description="training questions: a list of pictures, questions and answers, or corpus:NAME")
    valid: str | None = Field(None, description="validation questions; by default those of some pictures, held out")
    test: str | None = Field(None, description="test questions, for `regard evaluate`")
    format: JointFormat = Field("auto", description="format of lists; auto goes by the ending of the name")
    question: Column | None = Field(None, description="column of the question; by default 'question', or the second")
    answer: Column | None = Field(None, description="column of the answer; by default 'answer', or the third")
    header: bool | None = Field(
        None, description="whether the first line of TSV and CSV names the columns; by default if columns are named"
    )
    tokenizer: OneTextTokenizer = Field(
        WORDS, description="how questions, and answers, are cut into tokens; each has a vocabulary of its own"
    )
    max_length: int = Field(64, ge=2, description="rows with a text of more tokens are left out of training")
    max_bad: float = Field(
        0.01, ge=0, le=1, description="the share of bad lines, those with bad pictures among them, that is tolerated"
    )
    valid_share: float = Field(
        0.05, gt=0, lt=1, description="the share of training pictures held out for validation if valid is not given"
    )
    valid_most: int = Field(1000, ge=1, description="most training questions, about, to hold out for validation")
    cache: str | None = Field(None, description="folder for prepared data; by default inside the run's folder")

    @property
    def columns(self) -> tuple[tuple[str, Column | None], ...]:
        return (("image", self.image), ("question", self.question), ("answer", self.answer))

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.tokenizer.joint:
            yield "tokenizer.joint", "is true, but questions and answers have a vocabulary each"
        if self.augment.mixup:
            yield "augment.mixup", "mixes labels; of two answers there is no mean"
        if self.augment.flip:
            yield "augment.flip", "mirrors pictures: what is left would be right, and answers would be wrong"
        given = [column for _, column in self.columns if column is not None]
        if len({type(column) for column in given}) > 1:
            yield "question", f"is {self.question!r}, but columns are given by name or by number, not both: {given}"
        if len(set(given)) < len(given):
            yield "question", f"is {self.question!r}, but two of the columns are the same: {given}"


class RecurrentAskSettings(RecurrentSettings):
    """A recurrent decoder over the regions of the picture and the states of a recurrent encoder of the question."""

    encoder: PictureEncoderSettings = Field(description="what reads the picture")
    positions: bool = Field(True, description="tell the decoder where each region is (sinusoids of row and column)")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from _tied(self.tied)


class TransformerAskSettings(TransformerSettings):
    """A Transformer: blocks over the regions of the picture and the words of the question together, and a decoder."""

    encoder: PictureEncoderSettings = Field(description="what reads the picture")
    encoder_layers: int = Field(
        0, ge=0, description="blocks of self-attention over the words, and over the regions, before they meet"
    )
    joint_layers: int = Field(2, ge=0, description="blocks of self-attention over words and regions together")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from _tied(self.tied)
        if self.positions not in ("sinusoidal", "learned"):
            yield (
                "positions",
                f"is {self.positions}, which needs one order of all vectors; words and regions have none: sinusoidal "
                "and learned tell each word its place before they meet",
            )


def _tied(tied: str) -> Iterator[tuple[str, str]]:
    if tied == "all":
        yield "tied", "is all, but questions and answers have a vocabulary each; output shares the decoder's"


class AskRecipe(Recipe):
    """A picture and a question to text."""

    job: Literal["ask"] = Field("ask", description="the job: a picture and a question to text")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: AskDataSettings = Field(description="the user's pictures and questions, and how they are read")
    model: Annotated[RecurrentAskSettings | TransformerAskSettings, Field(discriminator="kind")] = Field(
        description="the model and its sizes"
    )
    decoding: DecodingSettings = Field(
        DecodingSettings.model_validate({"max_length": 20}), description="how outputs are searched for"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        for name, why in fits(self.model.encoder, self.data):
            yield f"model.encoder.{name}", why
        if self.decoding.replace_unknown:
            yield "decoding.replace_unknown", "has no meaning here: an answer's words are not those of the question"
