"""The recipe of tagging: words in, a tag for each word out."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from regard.data.pairs import Columns
from regard.data.settings import WORDS, Column, ColumnOfWords, FilesSettings, OneTextTokenizer, column
from regard.inputs.text import settings as texts
from regard.inputs.text.settings import PretrainedReaderSettings, RecurrentReaderSettings, TransformerReaderSettings
from regard.settings.base import Settings
from regard.settings.recipe import Decisions, Recipe, Sample, Size, watch
from regard.tasks.labels.settings import HeadSettings


class TagDataSettings(FilesSettings):
    """Sentences that are cut into words, with a tag for each word.

    Each of train, valid and test is a file with a word and its tags a line and a blank line between sentences (CoNLL,
    IOB, CoNLL-U, whatever its name), a table of sentences and tags, both separated by spaces or lists (.tsv, .csv,
    .json, .jsonl, .parquet), or corpus:NAME.
    """

    words: Column | None = column("words, in a table", "first")
    tags: Column | None = column("tags, in a table", "second")
    word_column: int | None = Field(
        None, description="a word a line: its column, from 0, or from the end: -1 is the last; by default the first one"
    )
    tag_column: ColumnOfWords | None = Field(
        None,
        description="a word a line: the column of its tag, from 0 or from the end, by default the last one; in CoNLL-U "
        "upos (default), xpos, deprel, feats, one feature (Case) or a key of MISC",
    )
    tokenizer: OneTextTokenizer = Field(
        WORDS, description="how words are cut into tokens; a pretrained encoder brings its own"
    )
    max_length: int = Field(256, ge=2, description="maximum tokens of a sentence, including the end token")
    overlong: Literal["skip", "cut"] = Field("skip", description="what happens to longer sentences in training")

    @property
    def columns(self) -> Columns:
        wanted = {"words": self.words, "tags": self.tags}
        return Columns(wanted, self.header, one_to_one=True, conll=(self.word_column, self.tag_column))

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from self.tokenizer.problems_of_one_text()
        if self.word_column is not None and self.word_column == self.tag_column:
            yield "tag_column", f"is {self.tag_column}, the same as word_column"
        yield from self.problems_of_columns(**self.columns.wanted)


class RecurrentTaggerSettings(RecurrentReaderSettings, HeadSettings):
    """Embedding, LSTM or GRU, optional attention over its states, softmax."""


class TransformerTaggerSettings(TransformerReaderSettings, HeadSettings):
    """A Transformer encoder, from scratch."""


class PretrainedTaggerSettings(PretrainedReaderSettings, HeadSettings):
    """The encoder of another run, such as one that `regard import` made, under a new head."""


class TaggingSettings(Settings):
    """How a trained tagger predicts."""

    cut: Literal["words", "spaces"] = Field(
        "words",
        description="of a plain text: words (marks stand alone), or what spaces separate (it is cut already)",
    )
    batch_tokens: int = Field(4096, ge=1, description="tokens of inputs tagged together")


class TagRecipe(Recipe):
    """A tag for each word of a text."""

    job: Literal["tag"] = Field("tag", description="the job: a tag for each word")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: TagDataSettings = Field(description="the user's files and how they are read")
    model: Annotated[
        RecurrentTaggerSettings | TransformerTaggerSettings | PretrainedTaggerSettings, Field(discriminator="kind")
    ] = Field(description="the model and its sizes")
    decoding: TaggingSettings = Field(TaggingSettings.model_validate({}), description="how the model is used")


# Automatic settings of a tagger.


def decide(kinds: tuple[str, str], sample: Sample) -> Decisions:
    cut = texts.tokenizer(sample.inputs, sample.count)
    lengths = texts.token_lengths(sample.inputs, cut)
    spans = any(tag.startswith("B-") for tags in sample.targets for tag in tags.split())
    metric, why = ("f1", "tags B- and I- mark spans: whole spans must be correct") if spans else ("accuracy", "of tags")
    decisions = [
        *cut, texts.longest(lengths), texts.held_out(sample.count, "sentences"),
        watch(metric, why),
    ]  # fmt: skip
    common: dict[str, Any] = {"kind": "recurrent", "cell": "lstm", "dropout": 0.3 if sample.count < 20_000 else 0.2}
    return Decisions(decisions, [
        Size("small", {**common, "width": 128, "embedding": 96}, 6),
        Size("middle", {**common, "width": 256, "embedding": 128}, 10, 2000),
        Size("large", {**common, "width": 384, "embedding": 256}, 15, 20_000),
    ])  # fmt: skip
