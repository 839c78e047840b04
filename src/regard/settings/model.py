"""Settings of text-to-text models."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from regard.catalog import SCORES
from regard.errors import nearest
from regard.settings.base import Settings


def _known_score(name: str) -> str:
    if name not in SCORES:
        raise ValueError(f"not known{nearest(name, SCORES)}")
    return name


#: A name of `catalog.SCORES`.
ScoreName = Annotated[str, AfterValidator(_known_score), WithJsonSchema({"enum": list(SCORES), "type": "string"})]
PositionName = Literal["sinusoidal", "learned", "rotary", "alibi", "relative", "none"]

#: Sizes of the Transformer. base and big: Vaswani et al. 2017 (arXiv:1706.03762), Table 3. tiny: the small model that
#: is usual for Multi30k (Wu et al. 2021, arXiv:2105.14462). small lies between.
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"encoder_layers": 4, "decoder_layers": 4, "width": 128, "feed_forward": 256, "heads": 4, "dropout": 0.3},
    "small": {"encoder_layers": 3, "decoder_layers": 3, "width": 256, "feed_forward": 1024, "heads": 8, "dropout": 0.1},
    "base": {"encoder_layers": 6, "decoder_layers": 6, "width": 512, "feed_forward": 2048, "heads": 8, "dropout": 0.1},
    "big": {"encoder_layers": 6, "decoder_layers": 6, "width": 1024, "feed_forward": 4096, "heads": 16, "dropout": 0.3},
}


class SizedSettings(Settings):
    """A section whose `size` sets several of its fields; fields that are given explicitly take precedence."""

    sizes: ClassVar[Mapping[str, dict[str, Any]]]

    @model_validator(mode="before")
    @classmethod
    def _fill_from_size(cls, value: Any) -> Any:
        return {**cls.sizes.get(str(value.get("size")), {}), **value} if isinstance(value, dict) else value


def head_problems(
    width: int, heads: int, kv_heads: int | None = None, positions: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the problems of this number of heads and this width in a Transformer."""
    if width % heads:
        usual = [str(count) for count in (1, 2, 4, 8, 12, 16, 32) if width % count == 0]
        yield "heads", f"must divide width={width}; {', '.join(usual)} would"
    elif positions == "rotary" and width // heads % 2:
        yield "positions", f"needs an even width per head, but width/heads is {width // heads}"
    if kv_heads and heads % kv_heads:
        yield "kv_heads", f"must divide heads={heads}"


class RecurrentSettings(Settings):
    """Recurrent sequence to sequence: a single context vector, or attention over all encoder states."""

    kind: Literal["recurrent"] = Field("recurrent", description="recurrent or transformer")
    cell: Literal["gru", "lstm"] = Field("gru", description="recurrent cell of encoder and decoder")
    context: Literal["initial", "constant", "attention"] = Field(
        "attention",
        description="how the source reaches the decoder: as its first state, as one vector at every step, by attention",
    )
    query: Literal["previous", "current"] = Field(
        "previous", description="query state: before the step (Bahdanau) or after it (Luong); attention only"
    )
    input_feeding: bool = Field(
        False, description="feed the last attended vector into the next step; query=current only"
    )
    score: ScoreName = Field("additive", description="attention score function; attention only")
    gate: bool = Field(False, description="a learned gate on the context, so the decoder can ignore it")
    doubly_stochastic: float = Field(
        0.0, ge=0, description="weight of the penalty for inputs whose attention, summed over output words, is not 1"
    )
    width: int = Field(256, ge=1, description="width of states and annotations (each direction has half)")
    embedding: int = Field(256, ge=1, description="width of the word vectors")
    encoder_layers: int = Field(1, ge=1, description="depth of the encoder")
    decoder_layers: int = Field(1, ge=1, description="depth of the decoder")
    bidirectional: bool = Field(True, description="read the source in both directions")
    tied: Literal["none", "output", "all"] = Field(
        "none",
        description="share word vectors with the output layer: the decoder's, or the source's too",
    )
    output_bias: bool = Field(False, description="whether the output layer has a bias for each word")
    dropout: float = Field(0.2, ge=0, lt=1, description="share of activations dropped in training")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="probability spread over all words in the loss")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.input_feeding and not (self.context == "attention" and self.query == "current"):
            yield "input_feeding", "needs context=attention and query=current"
        for name in ("gate", "doubly_stochastic"):
            if getattr(self, name) and self.context != "attention":
                yield name, "needs context=attention"
        if self.bidirectional and self.width % 2:
            yield "width", "must be even, as each direction of the encoder has half of it"


class TransformerSettings(SizedSettings):
    """The Transformer, encoder and decoder."""

    sizes: ClassVar[Mapping[str, dict[str, Any]]] = SIZES

    kind: Literal["transformer"] = Field("transformer", description="recurrent or transformer")
    size: Literal["tiny", "small", "base", "big"] | None = Field(
        None, description="a named size; fields that are given explicitly take precedence"
    )
    width: int = Field(256, ge=1, description="width of the vectors between layers (d_model)")
    heads: int = Field(8, ge=1, description="attention heads")
    kv_heads: int | None = Field(None, ge=1, description="key/value heads, if fewer than heads (grouped attention)")
    feed_forward: int = Field(1024, ge=1, description="width inside the feed-forward layers")
    encoder_layers: int = Field(3, ge=1, description="depth of the encoder")
    decoder_layers: int = Field(3, ge=1, description="depth of the decoder")
    norm_first: bool = Field(True, description="normalize before each part (pre-norm) rather than after it (post-norm)")
    norm: Literal["layer", "rms"] = Field("layer", description="layer norm or root-mean-square norm")
    activation: Literal["relu", "gelu", "swish", "swiglu"] = Field("relu", description="inside the feed-forward layers")
    positions: PositionName = Field("sinusoidal", description="how the model knows the order of words")
    combine: Literal["add", "concat"] = Field("add", description="how positions are combined with the word vectors")
    max_positions: int = Field(512, ge=1, description="longest sequence, for learned positions")
    score: ScoreName = Field("scaled_dot", description="attention score function")
    tied: Literal["none", "output", "all"] = Field(
        "output",
        description="share word vectors with the output layer: the decoder's, or the source's too",
    )
    output_bias: bool = Field(False, description="whether the output layer has a bias for each word")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of activations dropped in training")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="share of attention weights dropped in training")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability spread over all words in the loss")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from head_problems(self.width, self.heads, self.kv_heads, self.positions)
        if self.positions not in {"sinusoidal", "learned"} and self.combine == "concat":
            yield "combine", f"has no effect with positions={self.positions}, which add nothing to the word vectors"


# Settings of an encoder alone, BERT style: its sizes, or the run folder of a trained encoder.


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


# Settings of pooling: how the vectors of the encoder output become one vector.


class PoolingSettings(Settings):
    pooling: Literal["attention", "mean", "max", "summary"] = Field(
        "attention", description="how the vectors become one; summary: the last states, or the mean of a Transformer"
    )
    score: ScoreName = Field("additive", description="attention score function; pooling=attention only")


# Settings of sampling tokens from a model's distribution, for texts and pictures.

COLDEST = 0.001  # scores divided by less overflow; sampling gives the most probable token anyway


def _drawable(temperature: float) -> float:
    if 0 < temperature < COLDEST:
        raise ValueError(f"should be 0 (the most probable token) or at least {COLDEST}")
    return temperature


Temperature = Annotated[float, AfterValidator(_drawable)]


class SamplingSettings(Settings):
    """temperature=0 takes the most probable token; the same seed gives the same samples."""

    temperature: Temperature = Field(1.0, ge=0, description="below 1 sharpens the distribution; 0 is greedy")
    top_k: int = Field(0, ge=0, description="sample from the k most probable tokens only; 0 is all")
    top_p: float = Field(1.0, gt=0, le=1, description="sample from the fewest tokens whose probabilities sum to this")
    seed: int = Field(0, ge=0, description="random seed of sampling; the same seed gives the same output")

    n_best: int = Field(1, ge=1, le=1000, description="outputs returned for each input, best first")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.n_best > 1 and not self.temperature:
            yield "n_best", "requests several outputs, but temperature=0 gives the same one every time: set temperature"

    @property
    def random(self) -> bool:
        """Whether outputs are sampled instead of the most probable ones."""
        return self.temperature > 0
