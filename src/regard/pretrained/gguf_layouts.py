"""How llama.cpp names settings and weights of an architecture, beside the names of Hugging Face. Read both ways."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.pretrained import gpt2, llama
from regard.pretrained.imported import Imported

_SIZES = ("embedding_length", "feed_forward_length", "block_count", "attention.head_count", "context_length")


@dataclass(frozen=True)
class Layout:
    """
    settings   name in config.json → key of the file, after the architecture
    fixed      what every such file has, and does not say
    block      llama.cpp's name → Hugging Face's, of a layer in a block; `whole`: of those outside
    blocks     what the names of blocks begin with there
    heads      llama.cpp's names of maps whose features are turned in pairs → the setting with their heads
    """

    settings: Mapping[str, str]
    fixed: Mapping[str, Any]
    block: Mapping[str, str]
    whole: Mapping[str, str]
    blocks: str
    heads: Mapping[str, str]
    convert: Callable[..., Imported]

    def to_theirs(self, name: str) -> str:
        """llama.cpp's name of a weight → Hugging Face's."""
        *place, part, kind = name.split(".")
        layer = f"{self.blocks}.{place[1]}.{self.block.get(part, part)}" if place else self.whole.get(part, part)
        return f"{layer}.{kind}"

    def to_gguf(self, name: str) -> str:
        """Hugging Face's name of a weight → llama.cpp's."""
        layer, _, kind = name.rpartition(".")
        whole = {theirs: part for part, theirs in self.whole.items()}
        if layer in whole:
            return f"{whole[layer]}.{kind}"
        number, _, rest = layer.removeprefix(f"{self.blocks}.").partition(".")
        part = next(part for part, theirs in self.block.items() if theirs == rest)
        return f"blk.{number}.{part}.{kind}"


LAYOUTS = {
    "llama": Layout(
        settings={
            **dict(zip(("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                        "max_position_embeddings"), _SIZES, strict=True)),
            "num_key_value_heads": "attention.head_count_kv", "rms_norm_eps": "attention.layer_norm_rms_epsilon",
            "rope_theta": "rope.freq_base", "head_dim": "rope.dimension_count",
        },
        fixed={"hidden_act": "silu"},
        block={
            "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
            "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
        },
        whole={"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head"},
        blocks="layers",
        heads={"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"},
        convert=llama.convert,
    ),
    "gpt2": Layout(
        settings={
            **dict(zip(("n_embd", "n_inner", "n_layer", "n_head", "n_positions"), _SIZES, strict=True)),
            "layer_norm_epsilon": "attention.layer_norm_epsilon",
        },
        fixed={"activation_function": "gelu_new"},
        block={
            "attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
            "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj",
        },
        whole={"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f", "output": "lm_head"},
        blocks="h",
        heads={},
        convert=gpt2.convert,
    ),
}  # fmt: skip
