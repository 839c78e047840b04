"""The recipe of extractive question answering: a question and a document give a span of the document."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from regard.data.settings import WORDS, Column, OneTextTokenizer
from regard.settings.base import Settings
from regard.settings.encoder import EncoderSettings, PretrainedSettings
from regard.settings.model import ScoreName
from regard.settings.recipe import Recipe

FRAME = 3  # tokens that stand around a pair: [CLS] question [SEP] document [SEP]


class QuestionDataSettings(Settings):
    """Questions, the documents that answer them, and where in them the answers stand.

    Each of train, valid and test is FILE.json (SQuAD, v1.1 or v2.0), FILE.tsv, .csv or .jsonl (columns question,
    document, answer and, if it is known, start; also .gz or .zst), or corpus:NAME (comes with regard).
    """

    train: str = Field(description="training questions: FILE or corpus:NAME")
    valid: str | None = Field(None, description="validation questions; by default those of some documents, held out")
    test: str | None = Field(None, description="test questions, for `regard evaluate`")
    format: Literal["auto", "squad", "tsv", "csv", "jsonl"] = Field(
        "auto", description="format of the files; auto goes by the ending of the name, and .json is squad"
    )
    question: Column | None = Field(None, description="column of the question; by default 'question', or the first")
    document: Column | None = Field(None, description="column of the document; by default 'document', or the second")
    answer: Column | None = Field(None, description="column of the answer; by default 'answer', or the third")
    start: Column | None = Field(
        None,
        description="column of the answer's first character in the document, from 0; by default 'start', or the fourth",
    )
    header: bool | None = Field(
        None, description="whether the first line of TSV and CSV names the columns; by default if columns are named"
    )
    no_answer: bool = Field(
        False, description="some questions have no answer in their document (SQuAD v2.0); an empty answer says so"
    )
    tokenizer: OneTextTokenizer = Field(
        WORDS, description="how text is cut into tokens; a pretrained encoder brings its own"
    )
    max_length: int = Field(
        384, ge=8, description="most tokens of a question and a window of its document, three marks included"
    )
    max_question: int = Field(64, ge=1, description="most tokens of a question; what is longer is cut")
    overlap: int = Field(128, ge=0, description="tokens that neighboring windows of a long document share")
    max_bad: float = Field(
        0.01, ge=0, le=1, description="the share of unusable questions that is tolerated (and skipped)"
    )
    valid_share: float = Field(
        0.05, gt=0, lt=1, description="the share of training documents held out for validation if valid is not given"
    )
    valid_most: int = Field(2000, ge=1, description="most training questions, about, to hold out for validation")
    cache: str | None = Field(None, description="folder for prepared data; by default inside the run's folder")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.max_question + self.overlap + FRAME >= self.max_length:
            yield (
                "max_length",
                f"must be more than max_question + overlap + {FRAME} = {self.max_question + self.overlap + FRAME}, "
                "or windows of a long document would not get on",
            )
        columns = [self.question, self.document, self.answer, self.start]
        given = [column for column in columns if column is not None]
        if len({type(column) for column in given}) > 1:
            yield "question", f"is {self.question!r}, but columns are given by name or by number, not both"
        if len(set(given)) < len(given):
            yield "question", f"is {self.question!r}, but two of the columns are the same: {given}"
        if self.header is False and any(isinstance(column, str) for column in given):
            yield "header", "is false, but columns are given by name; give their numbers, from 0"


class RecurrentReaderSettings(Settings):
    """Bidirectional attention flow: recurrent layers, attention from document to question and back, two pointers."""

    kind: Literal["recurrent"] = Field("recurrent", description="recurrent, transformer or pretrained")
    cell: Literal["gru", "lstm"] = Field("lstm", description="recurrent cell")
    width: int = Field(128, ge=2, description="width of the states (each direction has half)")
    embedding: int = Field(128, ge=1, description="width of the word vectors")
    layers: int = Field(1, ge=1, description="depth below attention")
    reading_layers: int = Field(2, ge=1, description="depth above attention")
    score: ScoreName = Field("trilinear", description="how a word of the document is held against one of the question")
    to_document: Literal["most", "each"] = Field(
        "most",
        description="most: one look, at document words most alike to any question word (BiDAF); "
        "each: every question word looks at the document (DCN)",
    )
    match: bool = Field(True, description="tell each word whether the other text has it, too (DrQA)")
    dropout: float = Field(0.2, ge=0, lt=1, description="share of activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.width % 2:
            yield "width", "must be even, as each direction has half of it"


class TransformerReaderSettings(EncoderSettings):
    """A Transformer encoder, from scratch, that reads `<s>` question `</s>` document `</s>`."""

    token_types: int = Field(2, ge=0, le=2, description="2: a vector says which tokens are the document's; 0: none")


class PretrainedReaderSettings(PretrainedSettings):
    """The encoder of another run, such as one that `regard import` made, fine-tuned under two pointers."""

    frozen: int = Field(
        0, ge=0, description="so many layers, from the first, and the word vectors stay as they are; 0: all learn"
    )


class AnswerDecodingSettings(Settings):
    """How answers are chosen."""

    n_best: int = Field(1, ge=1, le=1000, description="answers given back for each question, best first")
    max_length: int = Field(30, ge=1, description="most tokens of an answer")
    threshold: float = Field(
        0.0, description="log-odds by which 'no answer' must beat the best span; only with data.no_answer"
    )
    batch_tokens: int = Field(8192, ge=1, description="tokens that go through the model together")


class AnswerRecipe(Recipe):
    """Question answering: a question and a document give a span of the document."""

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
