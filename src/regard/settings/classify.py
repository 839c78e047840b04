"""The recipe of classification: a text, or a picture, gets a label, or several.

One job for both. `data.kind` says what comes in, and the part of the job that depends on it lives apart:

    shared     settings of labels (`LabelSettings`) and of the head (`HeadSettings`), `data/labels.py`,
               `models/classifier.py`, `metrics/classes.py`, `tasks/classify.py`
    text       `TextSettings` here, `tasks/classify_text.py`
    image      `settings/classify_image.py`, `tasks/classify_image.py`

A new kind of input is: a data section that extends `LabelSettings` with its own `kind`, model sections that extend
`HeadSettings`, both added to the unions below and to `MODELS`, and a class that implements `tasks.classify.Reader`.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from regard.settings.base import Settings
from regard.settings.data import Column, FileFormat, TokenizerKind
from regard.settings.encoder import EncoderSettings, PretrainedSettings
from regard.settings.model import ScoreName
from regard.settings.recipe import Recipe


# -------------------------------------------------------------------------------------------------------------- data
class LabelSettings(Settings):
    """Where examples and their labels come from; shared by texts and pictures."""

    train: str = Field(description="training examples: FILE, a folder with a sub-folder for each class, corpus:NAME")
    valid: str | None = Field(None, description="validation examples; by default a part of the training ones, held out")
    test: str | None = Field(None, description="test examples, for `regard evaluate`")
    format: FileFormat = Field("auto", description="format of the files; auto goes by the ending of the name")
    label: Column | None = Field(
        None, description="column of the label: a name, or a number from 0; by default 'label', or the second column"
    )
    header: bool | None = Field(
        None, description="whether the first line of TSV and CSV names the columns; by default if columns are named"
    )
    separator: str | None = Field(
        None, min_length=1, description="what separates the labels of one example, such as '|'; null: one label each"
    )
    names: dict[str, str] = Field({}, description="what to call labels that the files write otherwise: {0: negative}")
    max_bad: float = Field(
        0.01, ge=0, le=1, description="the share of unreadable or incomplete lines that is tolerated (and skipped)"
    )
    valid_share: float = Field(
        0.1, gt=0, lt=1, description="the share of training examples held out for validation if valid is not given"
    )
    valid_most: int = Field(2000, ge=1, description="most training examples, about, to hold out for validation")
    cache: str | None = Field(None, description="folder for prepared data; by default inside the run's folder")

    @model_validator(mode="before")
    @classmethod
    def _labels_are_text(cls, given: Any) -> Any:
        """YAML reads `{0: negative}` as a number; a label is a text."""
        if isinstance(given, dict) and isinstance(given.get("names"), dict):
            return {**given, "names": {str(key): value for key, value in given["names"].items()}}
        return given


class VocabularySettings(Settings):
    """How text is cut into tokens; the vocabulary is learned from the training data."""

    kind: TokenizerKind = Field(
        "word",
        description="word (punctuation split off), space (what spaces separate), character, byte, bpe or unigram",
    )
    size: int = Field(20_000, ge=8, description="most entries in the vocabulary, the four special tokens included")
    min_frequency: int = Field(1, ge=1, description="how often a word, character or merged pair must occur to be kept")
    lowercase: bool = Field(False, description="read all text in lower case")
    learn_from: int = Field(
        1_000_000, ge=1, description="most texts to learn a vocabulary from, taken evenly from all of them"
    )


class TextSettings(LabelSettings):
    """Labelled texts: .tsv, .csv, .jsonl, .parquet (also .gz or .zst), or a folder of text files."""

    kind: Literal["text"] = Field("text", description="text or image")
    text: Column | None = Field(
        None, description="column of the text: a name, or a number from 0; by default 'text', or the first column"
    )
    tokenizer: VocabularySettings = Field(
        VocabularySettings.model_validate({}),
        description="how text is cut into tokens; a pretrained encoder brings its own",
    )
    max_length: int = Field(256, ge=2, description="most tokens of a text, the end token included")
    overlong: Literal["skip", "cut"] = Field("cut", description="what happens to longer texts")

    def problems(self) -> Iterator[tuple[str, str]]:
        if isinstance(self.text, str) != isinstance(self.label, str) and None not in (self.text, self.label):
            yield "text", f"is {self.text!r} and label is {self.label!r}: give both by name or both by number"
        if self.text is not None and self.text == self.label:
            yield "label", f"is {self.label!r}, the same column as text"
        if self.header is False and (isinstance(self.text, str) or isinstance(self.label, str)):
            yield "header", "is false, but columns are given by name; give their numbers, from 0"


# ------------------------------------------------------------------------------------------------------------- models
class HeadSettings(Settings):
    """What every classifier has above its encoder, and how its errors are weighed."""

    head_dropout: float = Field(0.1, ge=0, lt=1, description="share of the pooled vector dropped in training")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="probability spread over all classes in the loss")
    class_weights: Literal["none", "balanced"] | dict[str, float] = Field(
        "none", description="weight of each class in the loss; balanced: rare classes weigh more, {label: weight}"
    )


TextPooling = Literal["mean", "max", "last", "attention"]


class RecurrentClassifierSettings(HeadSettings):
    """Embedding, LSTM or GRU, attention over its states, pooling, softmax."""

    kind: Literal["recurrent"] = Field("recurrent", description="recurrent, transformer or pretrained")
    cell: Literal["gru", "lstm"] = Field("lstm", description="recurrent cell")
    width: int = Field(128, ge=1, description="width of the states (each direction has half)")
    embedding: int = Field(128, ge=1, description="width of the word vectors")
    layers: int = Field(1, ge=1, description="depth")
    bidirectional: bool = Field(True, description="read the text in both directions")
    self_attention: bool = Field(False, description="each state first looks at all states, by the score")
    pooling: TextPooling = Field("attention", description="how the states become one vector")
    score: ScoreName = Field("additive", description="how a query is held against a state, where there is attention")
    dropout: float = Field(0.3, ge=0, lt=1, description="share of word vectors' and states' numbers dropped")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of words read as unknown in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.bidirectional and self.width % 2:
            yield "width", "must be even, as each direction has half of it"


class TransformerClassifierSettings(EncoderSettings, HeadSettings):
    """A Transformer encoder, from scratch, that reads `<s>` text `</s>`; `<s>` is the class token, [CLS]."""

    pooling: Literal["cls", "mean", "max", "attention"] = Field("cls", description="how the vectors become one")
    score: ScoreName = Field("scaled_dot", description="how a query is held against a vector; pooling=attention only")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of words read as unknown in training")


class PretrainedClassifierSettings(PretrainedSettings, HeadSettings):
    """The encoder of another run, such as one that `regard import` made, under a new head."""

    pooling: Literal["cls", "mean", "max", "attention"] = Field("mean", description="how the vectors become one")
    score: ScoreName = Field("scaled_dot", description="how a query is held against a vector; pooling=attention only")
    frozen: bool = Field(False, description="train the head only")
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="each layer learns at this share of the rate of the one above it"
    )
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of words read as unknown in training")


# ------------------------------------------------------------------------------------------------------------- recipe
class AnswerSettings(Settings):
    """How a trained classifier is asked."""

    n_best: int = Field(1, ge=1, description="labels given back for each input, the most probable first")
    threshold: float = Field(0.5, gt=0, lt=1, description="probability from which a label is given (several labels)")
    batch_tokens: int = Field(4096, ge=1, description="tokens of inputs classified together")


#: Which models go with which kind of data.
MODELS: dict[str, tuple[type[Settings], ...]] = {
    "text": (RecurrentClassifierSettings, TransformerClassifierSettings, PretrainedClassifierSettings),
}


class ClassifyRecipe(Recipe):
    """A label, or several, for a text or a picture."""

    task: Literal["classify"] = Field("classify", description="the job: a label for each input")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: TextSettings = Field(description="the user's files and how they are read")
    model: Annotated[
        RecurrentClassifierSettings | TransformerClassifierSettings | PretrainedClassifierSettings,
        Field(discriminator="kind"),
    ] = Field(description="the model and its sizes")
    decoding: AnswerSettings = Field(AnswerSettings.model_validate({}), description="how the model is asked")

    @model_validator(mode="before")
    @classmethod
    def _text_unless_told(cls, given: Any) -> Any:
        """`data.kind` need not be said for text."""
        if isinstance(given, dict) and isinstance(given.get("data"), dict) and "kind" not in given["data"]:
            return {**given, "data": {"kind": "text", **given["data"]}}
        return given

    def problems(self) -> Iterator[tuple[str, str]]:
        if not isinstance(self.model, MODELS[self.data.kind]):
            fitting = ", ".join(str(one.model_fields["kind"].default) for one in MODELS[self.data.kind])
            yield "model.kind", f"does not read data.kind={self.data.kind}; {fitting} would"
        paced = isinstance(self.model, PretrainedClassifierSettings) and self.model.layer_decay < 1
        if paced and self.training.optimiser == "muon":
            yield "model.layer_decay", "sets rates of its own, which training.optimiser=muon does not know"
        if self.data.separator is not None and self.decoding.n_best > 1:
            yield "decoding.n_best", "has no meaning where a text has several labels: their probabilities are all given"
