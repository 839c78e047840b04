"""The recipes of vectors: texts near texts that belong to them, and texts near the pictures that they describe."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from regard.inputs.image.settings import ImageTowerSettings, fits
from regard.inputs.text.settings import (
    PairDataSettings,
    PretrainedTextSettings,
    RecurrentTextSettings,
    TransformerTextSettings,
)
from regard.settings.base import Settings
from regard.settings.model import EncoderSettings, PretrainedSettings
from regard.settings.recipe import Recipe
from regard.tasks.text.picture_settings import CaptionDataSettings

LABEL = "{}"  # placeholder of the label in a template


class VectorSettings(Settings):
    """How the vectors of a text are pooled, and how two texts are compared."""

    pooling: Literal["mean", "cls", "summary"] = Field(
        "mean",
        description="the mean of all vectors, that of the first token, or the encoder's summary (pooler)",
    )
    normalize: bool = Field(True, description="scale vectors to length 1, so that their dot product is the cosine")
    temperature: float = Field(0.05, gt=0, description="cosines are divided by it in training; lower is stricter")
    batch_tokens: int = Field(8192, ge=1, description="tokens that are encoded together")


class EncodeRecipe(Recipe):
    """Text embedding: texts that belong together get similar vectors."""

    job: Literal["encode"] = Field("encode", description="the job: texts into vectors")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: PairDataSettings = Field(description="pairs of texts that belong together, and how they are read")
    model: Annotated[EncoderSettings | PretrainedSettings, Field(discriminator="kind")] = Field(
        description="the encoder and its sizes, or the run of a trained one"
    )
    vectors: VectorSettings = Field(VectorSettings.model_validate({}), description="one vector for each text")

    def problems(self) -> Iterator[tuple[str, str]]:
        if not self.data.tokenizer.joint:
            yield "data.tokenizer.joint", "must be true: one encoder reads both texts of a pair"
        if isinstance(self.model, EncoderSettings):
            yield from _encoder_problems("model", self.model, "vectors", self.vectors.pooling, self.data.max_length)


class MatchDataSettings(CaptionDataSettings):
    """Pictures and their captions, as for captioning."""

    zero_shot: str | None = Field(
        None,
        description="labeled pictures, for `regard evaluate`: a folder with a sub-folder for each class, a list of "
        "files and labels, an .npz, or corpus:NAME; not used in training",
    )


class MatchModelSettings(Settings):
    """Two towers, as in CLIP (Radford et al. 2021, arXiv:2103.00020)."""

    image: ImageTowerSettings = Field(description="the tower that reads pictures")
    text: Annotated[
        RecurrentTextSettings | TransformerTextSettings | PretrainedTextSettings, Field(discriminator="kind")
    ] = Field(description="the tower that reads texts")
    width: int = Field(128, ge=1, description="width of the joint space of pictures and texts")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of each tower's pooled vector dropped in training")
    temperature: float = Field(
        0.07, gt=0.01, description="initial divisor of cosines; it is learned, and at least 0.01"
    )


class MatchAskSettings(Settings):
    """How a trained model is used."""

    labels: list[str] = Field([], description="labels to choose from; empty: captions of the training data")
    templates: list[str] = Field(
        [LABEL],
        min_length=1,
        description="sentences with a placeholder for the label; the mean of their vectors is used",
    )
    n_best: int = Field(1, ge=1, le=1000, description="labels returned for each picture, the most probable first")
    batch_tokens: int = Field(8192, ge=1, description="tokens, or regions of pictures, that are encoded together")

    def problems(self) -> Iterator[tuple[str, str]]:
        for template in self.templates:
            if LABEL not in template:
                yield "templates", f"has {template!r}, which lacks {LABEL}"
        if any(not label.strip() for label in self.labels):
            yield "labels", "has an empty one"
        if len(set(self.labels)) < len(self.labels):
            yield "labels", "has the same label twice"


class MatchRecipe(Recipe):
    """Pictures and texts as vectors: a text is near the pictures that it describes."""

    job: Literal["match"] = Field("match", description="the job: pictures and texts in one space")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: MatchDataSettings = Field(description="the user's pictures and how they are read")
    model: MatchModelSettings = Field(description="the two towers and their sizes")
    decoding: MatchAskSettings = Field(MatchAskSettings.model_validate({}), description="how the model is used")

    def problems(self) -> Iterator[tuple[str, str]]:
        for name, why in fits(self.model.image.encoder, self.data):
            yield f"model.image.encoder.{name}", why
        text, longest = self.model.text, self.data.max_length
        if isinstance(text, TransformerTextSettings):
            yield from _encoder_problems("model.text", text, "model.text", text.pooling, longest)


def _encoder_problems(
    name: str, encoder: EncoderSettings, section: str, pooling: str, longest: int
) -> Iterator[tuple[str, str]]:
    """Yield conflicts of an encoder with its pooling, and with texts of `longest` tokens (plus the start token)."""
    if encoder.positions == "learned" and longest >= encoder.max_positions:
        yield "data.max_length", f"must be less than {name}.max_positions={encoder.max_positions}"
    if pooling == "summary" and not encoder.pooler:
        yield f"{section}.pooling", f"is summary, which needs {name}.pooler=true"
