"""The recipe of classification: a text, or a picture, gets a label, or several.

One job for both. `data.kind` says what comes in, and the part of the job that depends on it lives apart:

    shared     settings of labels and of the head in `outputs/labels/settings.py`, `outputs/labels/labels.py`,
               `models/classifier.py`, `metrics/classes.py`, `outputs/labels/classify.py`
    text       `TextSettings` here, `outputs/labels/classify_text.py`
    image      `outputs/labels/classify_image_settings.py`, `outputs/labels/classify_image.py`

A new kind of input is: a data section that extends `LabelSettings` with its own `kind`, model sections that extend
`HeadSettings`, both added to the unions below and to `MODELS`, and a class that implements `jobs.classify.Reader`.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from regard.data.settings import Column, TokenizerKind
from regard.inputs.image.settings import fits
from regard.inputs.text.body_settings import PretrainedTextSettings, RecurrentTextSettings, TransformerTextSettings
from regard.outputs.labels.classify_image_settings import (
    ConvNetClassifierSettings,
    EfficientNetClassifierSettings,
    ImageSettings,
    VisionTransformerClassifierSettings,
)
from regard.outputs.labels.settings import HeadSettings, LabelSettings
from regard.settings.base import Settings
from regard.settings.recipe import Recipe


# -------------------------------------------------------------------------------------------------------------- data
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
    """Labeled texts: .tsv, .csv, .jsonl, .parquet (also .gz or .zst), or a folder of text files."""

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
class RecurrentClassifierSettings(RecurrentTextSettings, HeadSettings):
    """Embedding, LSTM or GRU, attention over its states, pooling, softmax."""


class TransformerClassifierSettings(TransformerTextSettings, HeadSettings):
    """A Transformer encoder, from scratch, that reads `<s>` text `</s>`; `<s>` is the class token, [CLS]."""


class PretrainedClassifierSettings(PretrainedTextSettings, HeadSettings):
    """The encoder of another run, such as one that `regard import` made, under a new head."""

    layer_decay: float = Field(
        1.0, gt=0, le=1, description="each layer learns at this share of the rate of the one above it"
    )


# ------------------------------------------------------------------------------------------------------------- recipe
class AnswerSettings(Settings):
    """How a trained classifier is asked."""

    n_best: int = Field(1, ge=1, le=1000, description="labels given back for each input, the most probable first")
    threshold: float = Field(0.5, gt=0, lt=1, description="probability from which a label is given (several labels)")
    batch_tokens: int = Field(4096, ge=1, description="tokens of inputs classified together")


#: Which models go with which kind of data.
MODELS: dict[str, tuple[type[Settings], ...]] = {
    "text": (RecurrentClassifierSettings, TransformerClassifierSettings, PretrainedClassifierSettings),
    "image": (ConvNetClassifierSettings, VisionTransformerClassifierSettings, EfficientNetClassifierSettings),
}


class ClassifyRecipe(Recipe):
    """A label, or several, for a text or a picture."""

    job: Literal["classify"] = Field("classify", description="the job: a label for each input")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: Annotated[TextSettings | ImageSettings, Field(discriminator="kind")] = Field(
        description="the user's files and how they are read"
    )
    model: Annotated[
        RecurrentClassifierSettings
        | TransformerClassifierSettings
        | PretrainedClassifierSettings
        | ConvNetClassifierSettings
        | VisionTransformerClassifierSettings
        | EfficientNetClassifierSettings,
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

    @model_validator(mode="before")
    @classmethod
    def _text_if_not_said(cls, given: Any) -> Any:
        data = given.get("data") if isinstance(given, dict) else None
        return {**given, "data": {"kind": "text", **data}} if isinstance(data, dict) else given

    def problems(self) -> Iterator[tuple[str, str]]:
        if isinstance(self.data, ImageSettings):
            for name, why in fits(self.model, self.data):
                yield f"model.{name}", why
        if not isinstance(self.model, MODELS[self.data.kind]):
            fitting = ", ".join(str(one.model_fields["kind"].default) for one in MODELS[self.data.kind])
            yield "model.kind", f"does not read data.kind={self.data.kind}; {fitting} would"
        paced = isinstance(self.model, PretrainedClassifierSettings) and self.model.layer_decay < 1
        if paced and self.training.optimizer == "muon":
            yield "model.layer_decay", "sets rates of its own, which training.optimizer=muon does not know"
        if self.data.separator is not None and self.decoding.n_best > 1:
            yield "decoding.n_best", "has no meaning where a text has several labels: their probabilities are all given"
