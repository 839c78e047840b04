"""Settings and named sizes of language models."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from regard.settings.model import SizedSettings, head_problems

_GPT2 = {"activation": "gelu_tanh", "norm": "layer", "positions": "learned", "bias": True}
_LLAMA = {"activation": "swiglu", "norm": "rms", "positions": "rotary", "bias": False}


def _gpt(layers: int, width: int, heads: int, context: int) -> dict[str, Any]:
    return {"layers": layers, "width": width, "heads": heads, "context": context, **_GPT2}


#: Sizes of language models. shakespeare: nanoGPT's for a CPU. GPT-2: Radford et al. 2019, Table 2. GPT-3: Brown et al.
#: 2020 (arXiv:2005.14165), Table 2.1. llama-small: Llama's block (arXiv:2302.13971) in the size of SmolLM2-135M.
SIZES: dict[str, dict[str, Any]] = {
    "shakespeare": {"layers": 4, "width": 128, "heads": 4, "context": 64},
    "llama-tiny": {"layers": 4, "width": 128, "heads": 4, "kv_heads": 2, "context": 128, **_LLAMA},
    "llama-small": {**_LLAMA, "layers": 30, "width": 576, "heads": 9, "kv_heads": 3}
    | {"feed_forward": 1536, "context": 2048},
    "gpt2": _gpt(12, 768, 12, 1024),
    "gpt2-medium": _gpt(24, 1024, 16, 1024),
    "gpt2-large": _gpt(36, 1280, 20, 1024),
    "gpt2-xl": _gpt(48, 1600, 25, 1024),
    "gpt3-small": _gpt(12, 768, 12, 2048),
    "gpt3-medium": _gpt(24, 1024, 16, 2048),
    "gpt3-large": _gpt(24, 1536, 16, 2048),
    "gpt3-1.3b": _gpt(24, 2048, 16, 2048),
    "gpt3-2.7b": _gpt(32, 2560, 32, 2048),
    "gpt3-6.7b": _gpt(32, 4096, 32, 2048),
    "gpt3-13b": _gpt(40, 5120, 40, 2048),
    "gpt3-175b": _gpt(96, 12288, 96, 2048),
}
SizeName = Literal[
    "shakespeare", "llama-tiny", "llama-small", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl",
    "gpt3-small", "gpt3-medium", "gpt3-large", "gpt3-1.3b", "gpt3-2.7b", "gpt3-6.7b", "gpt3-13b", "gpt3-175b",
]  # fmt: skip


class LanguageModelSettings(SizedSettings):
    """A decoder-only Transformer."""

    sizes: ClassVar[Mapping[str, dict[str, Any]]] = SIZES

    size: SizeName | None = Field(None, description="a named size; other given settings take precedence")
    layers: int = Field(4, ge=1, description="depth")
    width: int = Field(256, ge=1, description="width of the vectors between layers")
    vocabulary: int | None = Field(None, ge=1, description="rows of the token table, if more than there are tokens")
    heads: int = Field(8, ge=1, description="attention heads")
    kv_heads: int | None = Field(None, ge=1, description="key/value heads, if fewer than heads (grouped attention)")
    feed_forward: int | None = Field(
        None, ge=1, description="width inside the feed-forward layers; null is 4 (swiglu: 8/3) times width"
    )
    context: int = Field(
        256, ge=2, description="maximum number of tokens that the model reads, including the current one"
    )
    positions: Literal["learned", "sinusoidal", "rotary", "alibi", "none"] = Field(
        "rotary", description="how the order of tokens is encoded"
    )
    rotary_base: float = Field(10000.0, gt=1, description="base of the angles of rotary positions (theta)")
    norm: Literal["layer", "rms"] = Field("rms", description="layer norm or root-mean-square norm")
    norm_eps: float | None = Field(None, gt=0, description="epsilon of the norms; null is the usual value")
    activation: Literal["gelu", "gelu_tanh", "relu", "swiglu"] = Field(
        "gelu", description="inside the feed-forward layers; gelu_tanh is GPT-2's"
    )
    bias: bool = Field(False, description="whether linear maps and layer norms have biases")
    tied: bool = Field(True, description="share token vectors with the output layer")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of activations dropped in training")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="probability spread over all tokens in the loss")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from head_problems(self.width, self.heads, self.kv_heads, self.positions)
