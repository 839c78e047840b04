"""The recipe of classification: any input gets one label, or several.

One job serves all inputs; `data.kind` selects the input. A new kind needs a data section that extends `LabelSettings`
and model sections that extend `HeadSettings`, both in the unions below and in `MODELS`, and its input in `jobs.py`.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from regard.data.labels import LabelFormat
from regard.data.pairs import Columns
from regard.data.settings import WORDS, Column, FilesSettings, OneTextTokenizer, column
from regard.inputs.image import settings as pictures
from regard.inputs.image.settings import (
    ConvNetSettings,
    EfficientNetSettings,
    PictureSettings,
    VisionTransformerSettings,
    fits,
)
from regard.inputs.series.settings import LabeledSeriesSettings, RecurrentSeriesSettings, TransformerSeriesSettings
from regard.inputs.sound import settings as sounds
from regard.inputs.sound.settings import RecordingSettings, SoundRecurrentSettings, SoundTransformerSettings
from regard.inputs.text import settings as texts
from regard.inputs.text.settings import PretrainedTextSettings, RecurrentTextSettings, TransformerTextSettings
from regard.settings.base import Settings
from regard.settings.model import PoolingSettings, ScoreName
from regard.settings.recipe import Decision, Decisions, Recipe, Sample, Size, watch

KINDS = "text, texts (two at a time), image, sound or series"


class LabelSettings(FilesSettings):
    """Source of the examples and labels, shared by texts, pictures and recordings.

    Each of train, valid and test is a FILE, a folder with a sub-folder for each class, or corpus:NAME.
    """

    counted: ClassVar[str]  # the noun for one example
    label: Column | None = Field(
        None,
        description="column of the label: a name, or a number from 0; by default 'label', or the second column; "
        "toxic+obscene: several columns of 0 and 1",
    )
    separator: str | None = Field(
        None, min_length=1, description="separator of the labels of one example, such as '|'; null: one label each"
    )
    names: dict[str, str] = Field({}, description="what to call labels that the files write otherwise: {0: negative}")

    def columns_with(self, side: str, column: Column | None) -> Columns:
        """Return the columns of the inputs, named `side`, and of the labels."""
        return Columns({side: column, "label": self.label}, self.header, target_text=self.writing, folders=True)

    @property
    def writing(self) -> LabelFormat:
        """Return how labels are written in the files."""
        return LabelFormat(self.separator, tuple(sorted(self.names.items())))

    @model_validator(mode="before")
    @classmethod
    def _labels_are_text(cls, given: Any) -> Any:
        """Convert labels to text: YAML reads `{0: negative}` as a number."""
        if isinstance(given, dict) and isinstance(given.get("names"), dict):
            return {**given, "names": {str(key): value for key, value in given["names"].items()}}
        return given


class HeadSettings(Settings):
    """Settings of the layers above every encoder, and of the loss."""

    head_dropout: float = Field(0.1, ge=0, lt=1, description="share of the pooled vector dropped in training")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="probability spread over all classes in the loss")
    class_weights: Literal["none", "balanced"] | dict[str, float] = Field(
        "none", description="weight of each class in the loss; balanced: rare classes weigh more, {label: weight}"
    )


# -------------------------------------------------------------------------------------------------------------- data
class LabeledTextSettings(LabelSettings):
    """Settings of labeled texts, one or two at a time."""

    counted: ClassVar[str] = "text"
    tokenizer: OneTextTokenizer = Field(
        WORDS, description="how text is cut into tokens; a pretrained encoder brings its own"
    )
    max_length: int = Field(256, ge=2, description="most tokens of what is read, the end tokens included")
    overlong: Literal["skip", "cut"] = Field("cut", description="treatment of longer texts in training")

    @property
    @abstractmethod
    def columns(self) -> Columns: ...

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from self.problems_of_columns(**self.columns.wanted)
        yield from self.tokenizer.problems_of_one_text()


class TextSettings(LabeledTextSettings):
    """Labeled texts: .tsv, .csv, .jsonl, .parquet (also .gz, .bz2, .xz, .zst), or a folder of text files."""

    kind: Literal["text"] = Field("text", description=KINDS)
    text: Column | None = Field(
        None, description="column of the text: a name, or a number from 0; by default 'text', or the first column"
    )

    @property
    def columns(self) -> Columns:
        return self.columns_with("text", self.text)


class TwoTextsSettings(LabeledTextSettings):
    """Two texts and a label, such as a premise, a hypothesis and their relation: .tsv, .csv, .jsonl, .parquet."""

    counted: ClassVar[str] = "pair of texts"
    kind: Literal["texts"] = Field("texts", description=KINDS)
    first: Column | None = column("first", "first column")
    second: Column | None = column("second", "second column")

    @property
    def columns(self) -> Columns:
        wanted = {"first": self.first, "second": self.second, "label": self.label}
        return Columns(wanted, self.header, target_text=self.writing)


class ImageSettings(LabelSettings, PictureSettings):
    """Labeled pictures: a folder with a sub-folder for each class, a list of files and labels, arrays in a .npz."""

    counted: ClassVar[str] = "image"
    kind: Literal["image"] = Field("image", description=KINDS)

    @property
    def columns(self) -> Columns:
        return self.columns_with("image", self.image)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from self.problems_of_columns(image=self.image, label=self.label)


class LabeledSoundSettings(RecordingSettings, LabelSettings):
    """Labeled recordings: a folder or tar with a sub-folder for each class, or a list of paths and labels."""

    counted: ClassVar[str] = "recording"
    kind: Literal["sound"] = Field("sound", description=KINDS)

    @property
    def columns(self) -> Columns:
        return self.columns_with("path", self.path)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from self.problems_of_columns(path=self.path, label=self.label)


class SeriesSettings(LabeledSeriesSettings):
    """Labeled series: a table whose lines name their series and label, or a folder of tables by class."""

    counted: ClassVar[str] = "series"
    kind: Literal["series"] = Field("series", description=KINDS)

    @property
    def writing(self) -> LabelFormat:
        return LabelFormat()


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


class ConvNetClassifierSettings(ConvNetSettings, HeadSettings):
    """A small convolutional network, with self-attention over positions if requested."""


class VisionTransformerClassifierSettings(VisionTransformerSettings, HeadSettings):
    """The Vision Transformer; the label is read from its class token."""


class EfficientNetClassifierSettings(EfficientNetSettings, PoolingSettings, HeadSettings):
    """EfficientNet-Lite0 with ImageNet weights, under a new head that attends to its regions."""

    score: ScoreName = Field("scaled_dot", description="how a query is held against a region; pooling=attention only")


class SoundRecurrentClassifierSettings(SoundRecurrentSettings, HeadSettings):
    """A pyramid of LSTMs or GRUs over the frames of a recording, pooling, softmax."""


class SoundTransformerClassifierSettings(SoundTransformerSettings, HeadSettings):
    """Convolutions and a Transformer encoder over the frames of a recording, pooling, softmax."""


class SeriesRecurrentClassifierSettings(RecurrentSeriesSettings, PoolingSettings, HeadSettings):
    """LSTM or GRU over the steps of a series, pooling, softmax."""

    kind: Literal["series_recurrent"] = Field("series_recurrent", description="or series_transformer")  # pyright: ignore[reportIncompatibleVariableOverride]


class SeriesTransformerClassifierSettings(TransformerSeriesSettings, PoolingSettings, HeadSettings):
    """A Transformer encoder over the steps of a series, pooling, softmax."""

    kind: Literal["series_transformer"] = Field("series_transformer", description="or series_recurrent")  # pyright: ignore[reportIncompatibleVariableOverride]


# ------------------------------------------------------------------------------------------------------------- recipe
class AnswerSettings(Settings):
    """How a trained classifier predicts."""

    n_best: int = Field(1, ge=1, le=1000, description="labels given back for each input, the most probable first")
    threshold: float = Field(0.5, gt=0, lt=1, description="probability from which a label is given (several labels)")
    batch_tokens: int = Field(4096, ge=1, description="tokens of inputs classified together")


#: Which models go with which kind of data.
_OF_TEXT = (RecurrentClassifierSettings, TransformerClassifierSettings, PretrainedClassifierSettings)
MODELS: dict[str, tuple[type[Settings], ...]] = {
    "text": _OF_TEXT,
    "texts": _OF_TEXT,
    "image": (ConvNetClassifierSettings, VisionTransformerClassifierSettings, EfficientNetClassifierSettings),
    "sound": (SoundRecurrentClassifierSettings, SoundTransformerClassifierSettings),
    "series": (SeriesRecurrentClassifierSettings, SeriesTransformerClassifierSettings),
}


class ClassifyRecipe(Recipe):
    """A label, or several, for a text, two texts, a picture, a recording or a series."""

    job: Literal["classify"] = Field("classify", description="the job: a label for each input")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: Annotated[
        TextSettings | TwoTextsSettings | ImageSettings | LabeledSoundSettings | SeriesSettings,
        Field(discriminator="kind"),
    ] = Field(description="the user's files and how they are read")
    model: Annotated[
        RecurrentClassifierSettings
        | TransformerClassifierSettings
        | PretrainedClassifierSettings
        | ConvNetClassifierSettings
        | VisionTransformerClassifierSettings
        | EfficientNetClassifierSettings
        | SoundRecurrentClassifierSettings
        | SoundTransformerClassifierSettings
        | SeriesRecurrentClassifierSettings
        | SeriesTransformerClassifierSettings,
        Field(discriminator="kind"),
    ] = Field(description="the model and its sizes")
    decoding: AnswerSettings = Field(AnswerSettings.model_validate({}), description="how the model is used")

    @model_validator(mode="before")
    @classmethod
    def _text_if_not_said(cls, value: Any) -> Any:
        data = value.get("data") if isinstance(value, dict) else None
        return {**value, "data": {"kind": "text", **data}} if isinstance(data, dict) else value

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
        if self.data.writing.separator is not None and self.decoding.n_best > 1:
            yield "decoding.n_best", "has no meaning with several labels: their probabilities are all given"


# Automatic settings of a classifier, by the kind of input.

TIME_TO_TUNE = 300  # seconds; with less time, no pretrained encoder is tried
TUNING = {"max_tokens": 800, "max_epochs": 5, "learning_rate": 2e-4, "schedule": "linear"}
LABEL = 2  # tokens of a label and the end token
RARE = 0.2  # share of the even size; smaller classes would be ignored


def decide(kinds: tuple[str, str], sample: Sample) -> Decisions:
    made = {"text": _text, "texts": _two_texts, "image": _image, "sound": _sound, "series": _series}[kinds[0]](sample)
    return replace(made, decisions=[*made.decisions, *_scores(sample)])


def _scores(sample: Sample) -> list[Decision]:
    if sample.several:
        return [texts.held_out(sample.count, "examples"), watch("micro_f1", "a row may have several labels, or none")]
    counts, watched = Counter(sample.targets), watch("accuracy", "the aim is correct labels")
    rarest = min(counts.values(), default=1) * len(counts) / max(1, len(sample.targets))
    if len(counts) > 1 and rarest < RARE:
        name = min(counts, key=counts.__getitem__)
        watched = watch("macro_f1", f"classes are uneven ({name} is rare): all count the same")
    return [texts.held_out(sample.count, "examples"), watched]


def _text(sample: Sample) -> Decisions:
    cut = texts.tokenizer(sample.inputs, sample.count)
    lengths = texts.token_lengths(sample.inputs, cut)
    dropout = 0.4 if sample.count < 20_000 else 0.2
    common: dict[str, Any] = {
        "kind": "recurrent", "cell": "lstm", "pooling": "attention", "score": "additive", "dropout": dropout,
        "head_dropout": dropout, "word_dropout": 0.1 if sample.count < 20_000 else 0.0,
    }  # fmt: skip
    sizes = [
        Size("small", {**common, "width": 128, "embedding": 96}, 6),
        Size("middle", {**common, "width": 192, "embedding": 128}, 8, 1000),
        Size("large", {**common, "width": 384, "embedding": 256}, 12, 20_000),
    ]
    if sample.seconds >= TIME_TO_TUNE and texts.is_english(sample.inputs) and (path := texts.installed_encoder()):
        tuned = {"kind": "pretrained", "path": path, "pooling": "mean", "layer_decay": 0.85}
        sizes.append(Size("MiniLM", tuned, 2, training=TUNING))
    return Decisions([*cut, texts.longest(lengths)], sizes)


def _two_texts(sample: Sample) -> Decisions:
    """Plan a Transformer, whose words can attend to those of the other text."""
    cut = texts.tokenizer([text for two in sample.inputs for text in two], 2 * sample.count)
    firsts, seconds = (texts.token_lengths([two[side] for two in sample.inputs], cut) for side in (0, 1))
    common: dict[str, Any] = {
        "kind": "transformer", "positions": "learned", "embedding_norm": True, "pooling": "cls",
        "dropout": 0.2 if sample.count < 20_000 else 0.1, "head_dropout": 0.1,
    }  # fmt: skip
    return Decisions([*cut, texts.longest([one + other for one, other in zip(firsts, seconds, strict=True)])], [
        Size("small", {**common, "width": 64, "layers": 2, "heads": 4, "feed_forward": 128}, 12),
        Size("middle", {**common, "width": 128, "layers": 3, "heads": 4, "feed_forward": 256}, 15, 5000),
        Size("large", {**common, "width": 256, "layers": 4, "heads": 8, "feed_forward": 512}, 20, 50_000),
    ])  # fmt: skip


def _image(sample: Sample) -> Decisions:
    form, sides, photos = pictures.form(sample.inputs)
    return Decisions(
        [*form, *pictures.augmentation(sides, photos, sample.count)], pictures.encoders(sides, photos, sample.count)
    )


def _sound(sample: Sample) -> Decisions:
    usual = sounds.usual_seconds(sample.inputs)
    common: dict[str, Any] = {
        "kind": "sound_recurrent", "cell": "gru", "pyramid": 2 if usual > 0.5 else 1,
        "dropout": 0.3 if sample.count < 5000 else 0.2,
    }  # fmt: skip
    heard = sounds.hearing(sample.inputs, most=sounds.AT_ONCE)
    seconds = next(decision.value for decision in heard if decision.key == "data.max_seconds")
    return Decisions([*heard, *sounds.augmentation(sample.count)], [
        Size("small", {**common, "width": 64}, 10),
        Size("middle", {**common, "width": 128}, 15, 1000),
        Size("large", {**common, "width": 256}, 20, 10_000),
    ], sounds.frames(seconds) + LABEL)  # fmt: skip


def _series(sample: Sample) -> Decisions:
    common: dict[str, Any] = {"kind": "series_recurrent", "dropout": 0.1 if sample.count < 2000 else 0.0}
    batch = max(facts.longest for facts in sample.inputs) + LABEL  # one series fits
    return Decisions([], [
        Size("small", {**common, "width": 32}, 10),
        Size("middle", {**common, "width": 64}, 15, 1000),
        Size("large", {**common, "width": 128, "encoder_layers": 2}, 20, 10_000),
    ], batch, max(4096, batch))  # fmt: skip
