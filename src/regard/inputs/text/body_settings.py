"""What reads a text and makes one vector of it: an encoder, from scratch or a trained one, and its pooling."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from regard.settings.base import Settings
from regard.settings.encoder import EncoderSettings, PretrainedSettings
from regard.settings.model import ScoreName

TextPooling = Literal["mean", "max", "last", "attention"]
EncoderPooling = Literal["cls", "mean", "max", "summary", "attention"]


class RecurrentTextSettings(Settings):
    """Embedding, LSTM or GRU, attention over its states, pooling."""

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


class TransformerTextSettings(EncoderSettings):
    """A Transformer encoder, from scratch, that reads `<s>` text `</s>`; `<s>` is the class token, [CLS]."""

    pooling: EncoderPooling = Field("cls", description="how the vectors become one; summary: by BERT's pooler")
    score: ScoreName = Field("scaled_dot", description="how a query is held against a vector; pooling=attention only")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of words read as unknown in training")


class PretrainedTextSettings(PretrainedSettings):
    """The encoder of another run, such as one that `regard import` made."""

    pooling: EncoderPooling = Field("mean", description="how the vectors become one; summary: by BERT's pooler")
    score: ScoreName = Field("scaled_dot", description="how a query is held against a vector; pooling=attention only")
    frozen: bool = Field(False, description="leave the encoder as it is, and train what stands above it")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of words read as unknown in training")
