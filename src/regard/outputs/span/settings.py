"""The recipe of extractive question answering: a question and a document in, a span of the document out."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from regard.inputs.question.settings import QuestionDataSettings
from regard.settings.base import Settings
from regard.settings.encoder import EncoderSettings, PretrainedSettings
from regard.settings.model import ScoreName
from regard.settings.recipe import Recipe


class RecurrentReaderSettings(Settings):
    """Bidirectional attention flow: recurrent layers, attention from document to question and back, two pointers."""

    kind: Literal["recurrent"] = Field("recurrent", description="recurrent, transformer or pretrained")
    cell: Literal["gru", "lstm"] = Field("lstm", description="recurrent cell")
    width: int = Field(128, ge=2, description="width of the states (each direction has half)")
    embedding: int = Field(128, ge=1, description="width of the word vectors")
    layers: int = Field(1, ge=1, description="depth below attention")
    reading_layers: int = Field(2, ge=1, description="depth above attention")
    score: ScoreName = Field(
        "trilinear", description="how a word of the document is scored against one of the question"
    )
    to_document: Literal["most", "each"] = Field(
        "most",
        description="most: one look, at document words most alike to any question word (BiDAF); "
        "each: every question word looks at the document (DCN)",
    )
    match: bool = Field(True, description="add to each word whether the other text has it, too (DrQA)")
    dropout: float = Field(0.2, ge=0, lt=1, description="share of activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.width % 2:
            yield "width", "must be even, as each direction has half of it"


class TransformerReaderSettings(EncoderSettings):
    """A Transformer encoder, from scratch, that reads `<s>` question `</s>` document `</s>`."""

    token_types: int = Field(2, ge=0, le=2, description="2: a segment vector marks the document's tokens; 0: none")


class PretrainedReaderSettings(PretrainedSettings):
    """The encoder of another run, such as one that `regard import` made, fine-tuned under two pointers."""

    frozen: int = Field(
        0, ge=0, description="freeze this many layers, from the first, and the word vectors; 0 trains all"
    )


class AnswerDecodingSettings(Settings):
    """How answers are chosen."""

    n_best: int = Field(1, ge=1, le=1000, description="answers returned for each question, best first")
    max_length: int = Field(30, ge=1, description="maximum tokens of an answer")
    threshold: float = Field(
        0.0, description="log-odds by which 'no answer' must beat the best span; only with data.no_answer"
    )
    batch_tokens: int = Field(8192, ge=1, description="tokens that go through the model together")


class AnswerRecipe(Recipe):
    """Question answering: a question and a document in, a span of the document out."""

    job: Literal["answer"] = Field("answer", description="the job: question answering")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: QuestionDataSettings = Field(description="the user's files and how they are read")
    model: Annotated[
        RecurrentReaderSettings | TransformerReaderSettings | PretrainedReaderSettings, Field(discriminator="kind")
    ] = Field(description="the model and its sizes")
    decoding: AnswerDecodingSettings = Field(
        AnswerDecodingSettings.model_validate({}), description="how answers are chosen"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        model = self.model
        if (
            isinstance(model, TransformerReaderSettings)
            and model.positions == "learned"
            and self.data.max_length > model.max_positions
        ):
            yield "data.max_length", f"is more than model.max_positions={model.max_positions}"
