"""The recipe of extractive question answering: a question and a document in, a span of the document out."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from regard.inputs.question.windows import QuestionDataSettings
from regard.inputs.text import settings as texts
from regard.settings.base import Settings
from regard.settings.model import EncoderSettings, PretrainedSettings, ScoreName
from regard.settings.recipe import Decision, Decisions, Recipe, Sample, Size, percentile, round_up, watch


class RecurrentSpanReaderSettings(Settings):
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


class TransformerSpanReaderSettings(EncoderSettings):
    """A Transformer encoder, from scratch, that reads `<s>` question `</s>` document `</s>`."""

    token_types: int = Field(2, ge=0, le=2, description="2: a segment vector marks the document's tokens; 0: none")


class PretrainedSpanReaderSettings(PretrainedSettings):
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
        RecurrentSpanReaderSettings | TransformerSpanReaderSettings | PretrainedSpanReaderSettings,
        Field(discriminator="kind"),
    ] = Field(description="the model and its sizes")
    decoding: AnswerDecodingSettings = Field(
        AnswerDecodingSettings.model_validate({}), description="how answers are chosen"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        model = self.model
        if (
            isinstance(model, TransformerSpanReaderSettings)
            and model.positions == "learned"
            and self.data.max_length > model.max_positions
        ):
            yield "data.max_length", f"is more than model.max_positions={model.max_positions}"


# Automatic settings of a reader of documents.


def decide(kinds: tuple[str, str], sample: Sample) -> Decisions:
    questions, documents = ([one[side] for one in sample.inputs] for side in (0, 1))
    cut = texts.tokenizer(documents, sample.count)
    asked, read = (texts.token_lengths(side, cut) for side in (questions, documents))
    answers = texts.token_lengths([text for text in sample.targets if text] or ["?"], cut)
    question = round_up(percentile(asked, 99.5) + 2, 8)
    window = min(384, round_up(percentile(read, 99) + question + 3, 8))
    overlap = min(64, window // 4)
    window = max(window, question + overlap + 16)
    decisions = [
        *cut,
        Decision(
            "data.max_question", question, f"199 of 200 questions have at most {percentile(asked, 99.5):.0f} tokens"
        ),
        Decision("data.overlap", overlap, "overlap of two windows of a long document"),
        Decision("data.max_length", window, f"99 of 100 documents have at most {percentile(read, 99):.0f} tokens"),
        Decision(
            "decoding.max_length",
            round_up(percentile(answers, 99.5) + 2, 4),
            "the length of the answers, and some more",
        ),
        texts.held_out(sample.count, "questions"),
        watch("f1", "words that an answer shares with the correct one"),
    ]
    common: dict[str, Any] = {"kind": "recurrent"}
    return Decisions(decisions, [
        Size("small", {**common, "width": 96, "embedding": 96, "reading_layers": 1}, 4),
        Size("middle", {**common, "width": 128, "embedding": 128}, 6),
        Size("large", {**common, "width": 192, "embedding": 192}, 10, 20_000),
    ])  # fmt: skip
