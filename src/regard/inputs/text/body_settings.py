"""Settings of encoders for one text, from scratch or pretrained, and of their pooling."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from regard.settings.base import Settings
from regard.settings.encoder import EncoderSettings, PretrainedSettings
from regard.settings.model import ScoreName

TextPooling = Literal["mean", "max", "last", "attention"]
EncoderPooling = Literal["cls", "mean", "max", "summary", "attention"]


class NoiseSettings(Settings):
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of words read as unknown in training")


class RecurrentReaderSettings(NoiseSettings):
    """Embedding, LSTM or GRU, and attention over the states."""

    kind: Literal["recurrent"] = Field("recurrent", description="recurrent, transformer or pretrained")
    cell: Literal["gru", "lstm"] = Field("lstm", description="recurrent cell")
    width: int = Field(128, ge=1, description="width of the states (each direction has half)")
    embedding: int = Field(128, ge=1, description="width of the word vectors")
    layers: int = Field(1, ge=1, description="depth")
    bidirectional: bool = Field(True, description="read the text in both directions")
    self_attention: bool = Field(False, description="let each state attend to all states, by the score")
    score: ScoreName = Field("additive", description="attention score of a query and a state")
    dropout: float = Field(0.3, ge=0, lt=1, description="share of word vectors' and states' numbers dropped")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.bidirectional and self.width % 2:
            yield "width", "must be even, as each direction has half of it"


class TransformerReaderSettings(EncoderSettings, NoiseSettings):
    """Transformer encoder from scratch that reads `<s>` text `</s>`; `<s>` is the class token, [CLS]."""


class PretrainedReaderSettings(PretrainedSettings, NoiseSettings):
    """Encoder of another run, such as one that `regard import` made."""

    frozen: bool = Field(False, description="freeze the encoder and train only the layers above it")


class RecurrentTextSettings(RecurrentReaderSettings):
    """Embedding, LSTM or GRU, attention over the states, pooling."""

    pooling: TextPooling = Field("attention", description="how the states become one vector")


class TransformerTextSettings(TransformerReaderSettings):
    """Transformer encoder and its pooling."""

    pooling: EncoderPooling = Field("cls", description="how the vectors become one; summary: by BERT's pooler")
    score: ScoreName = Field(
        "scaled_dot", description="attention score of a query and a vector; pooling=attention only"
    )


class PretrainedTextSettings(PretrainedReaderSettings):
    """Encoder of another run, and its pooling."""

    pooling: EncoderPooling = Field("mean", description="how the vectors become one; summary: by BERT's pooler")
    score: ScoreName = Field(
        "scaled_dot", description="attention score of a query and a vector; pooling=attention only"
    )
