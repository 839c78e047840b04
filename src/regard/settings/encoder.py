"""Settings of an encoder alone, BERT style: its sizes, or the run folder of a trained encoder."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from regard.settings.base import Settings
from regard.settings.model import head_problems


class EncoderSettings(Settings):
    """A Transformer encoder. BERT: norm_first=false, activation=gelu, positions=learned, token_types=2,
    embedding_norm=true, eps=1e-12, pooler=true."""

    kind: Literal["transformer"] = Field("transformer", description="transformer, or pretrained: a trained one")
    width: int = Field(256, ge=1, description="width of the vectors between layers (d_model)")
    layers: int = Field(4, ge=1, description="depth")
    heads: int = Field(4, ge=1, description="attention heads")
    feed_forward: int = Field(1024, ge=1, description="width inside the feed-forward layers")
    norm_first: bool = Field(True, description="normalize before each part (pre-norm) rather than after it (post-norm)")
    norm: Literal["layer", "rms"] = Field("layer", description="layer norm or root-mean-square norm")
    eps: float = Field(1e-5, gt=0, description="what the norms add to the variance, against division by zero")
    activation: Literal["relu", "gelu", "gelu_tanh", "swish", "swiglu"] = Field(
        "gelu", description="inside the feed-forward layers; gelu_tanh approximates gelu"
    )
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = Field(
        "learned", description="how the model knows the order of words"
    )
    max_positions: int = Field(512, ge=1, description="longest sequence, in tokens")
    token_types: int = Field(0, ge=0, description="kinds of segments (question, document) with a vector each; 0: none")
    embedding_norm: bool = Field(False, description="normalize the sum of word, position and type vectors")
    pooler: bool = Field(False, description="a tanh layer on the first token's vector gives the summary of a text")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of activations dropped in training")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="share of attention weights dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from head_problems(self.width, self.heads, positions=self.positions)


class PretrainedSettings(Settings):
    """The encoder of another run: one that `regard import` made, or one that was trained here."""

    kind: Literal["pretrained"] = Field("pretrained", description="transformer, or pretrained: a trained one")
    path: str = Field(description="folder of the run whose encoder training starts from, such as runs/minilm")
    dropout: float | None = Field(None, ge=0, lt=1, description="another dropout than the encoder was trained with")
