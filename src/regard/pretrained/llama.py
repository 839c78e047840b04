"""Llama and its kin, such as SmolLM2 (Touvron et al. 2023, section 2.2, arXiv:2302.13971), as `generate` runs.

Arcee is the same with a plain feed-forward, y = W₂ f(W₁ x), in the place of SwiGLU.
"""

from pathlib import Path

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.pretrained.config_file import ConfigFile
from regard.pretrained.gpt2 import ACTIVATIONS
from regard.pretrained.imported import Imported
from regard.pretrained.language import language_run, with_frame
from regard.pretrained.renamed import Renamed, linear, to_ours
from regard.pretrained.tokenizer_files import byte_pairs
from regard.pretrained.weights import Weights


def read(config: ConfigFile, weights: Weights, folder: Path) -> Imported:
    cut = byte_pairs(folder)
    return convert(config, weights, with_frame(cut, *config.frame()), folder.name, begins=cut.begins)


def convert(
    config: ConfigFile, weights: Weights, tokenizer: Tokenizer, name: str, *, begins: bool = False
) -> Imported:
    """Settings and weights under the names that Hugging Face gives them, also where they come from a GGUF file."""
    gated = config.get("model_type", "llama") != "arcee"
    if gated:
        config.require("hidden_act", "silu")
    config.require("attention_bias", False)
    config.require("mlp_bias", False)
    config.require("sliding_window", None)
    width, heads = config["hidden_size"], config["num_attention_heads"]
    config.require("head_dim", width // heads)
    settings = {
        "width": width,
        "layers": config["num_hidden_layers"],
        "heads": heads,
        "kv_heads": config.get("num_key_value_heads", heads),
        "feed_forward": config["intermediate_size"],
        "positions": "rotary",
        "rotary_base": _rotary_base(config),
        "norm": "rms",
        "norm_eps": config.get("rms_norm_eps", 1e-6),
        "activation": "swiglu" if gated else config.choose("hidden_act", ACTIVATIONS),
        "bias": False,
        "dropout": config.get("attention_dropout", 0.0),
    }
    weights.stripped("model.").drop(r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq")
    found = to_ours(table(settings["layers"], width, heads, settings["kv_heads"], gated=gated), weights)
    context = config["max_position_embeddings"]
    return language_run(config, weights, found, settings, tokenizer, context=context, name=name, begins=begins)


def _rotary_base(config: ConfigFile) -> float:
    """Older files have rope_theta and rope_scaling; newer ones have both in rope_parameters."""
    both = config.get("rope_parameters", config.get("rope_scaling", {}))
    kind = both.get("rope_type", both.get("type", "default"))
    if kind != "default":
        raise CallError(f"{config.where}: rotary positions that are stretched ({kind!r}) are not understood")
    return float(both.get("rope_theta", config.get("rope_theta", 10000.0)))


def table(layers: int, width: int, heads: int, kv_heads: int, *, gated: bool = True) -> list[Renamed]:
    """All but the output layer."""
    found = [
        Renamed("decoder.embedding.table.weight", ("embed_tokens.weight",)),
        *linear("decoder.norm", "norm", bias=False),
    ]
    sizes = (width, *[width // heads * kv_heads] * 2)
    for number in range(layers):
        ours, theirs = f"decoder.layers.{number}", f"layers.{number}"
        queries = (f"{theirs}.self_attn.{part}_proj" for part in "qkv")
        gates = [f"{theirs}.mlp.{part}_proj" for part in (("gate", "up") if gated else ("up",))]
        found += linear(f"{ours}.attention.project", *queries, bias=False, sizes=sizes)
        found += linear(f"{ours}.attention.out", f"{theirs}.self_attn.o_proj", bias=False)
        found += linear(f"{ours}.feed_forward.widen", *gates, bias=False)
        found += linear(f"{ours}.feed_forward.narrow", f"{theirs}.mlp.down_proj", bias=False)
        found += linear(f"{ours}.attention_norm", f"{theirs}.input_layernorm", bias=False)
        found += linear(f"{ours}.feed_forward_norm", f"{theirs}.post_attention_layernorm", bias=False)
    return found
