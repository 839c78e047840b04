"""Import language models (GPT-2, Llama, Arcee) as runs of the job `generate`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.pretrained.sources import ConfigFile
from regard.pretrained.tokenizer_files import byte_pairs
from regard.pretrained.weights import NO_DATA, Imported, WeightMap, Weights, linear, to_ours


def language_run(
    config: ConfigFile,
    left: Weights,
    weights: dict[str, Tensor],
    settings: Mapping[str, Any],
    tokenizer: Tokenizer,
    *,
    context: int,
    name: str,
    begins: bool = False,
) -> Imported:
    """Return the run of a language model.

    left      remaining weights: the output layer, if it is not tied to the embeddings
    context   maximum number of tokens that the model reads
    begins    whether every prompt starts with the begin token
    """
    vocabulary = len(weights["decoder.embedding.table.weight"])
    tied = config.get("tie_word_embeddings", True)
    if tied:
        left.drop(r"lm_head\.weight")
    else:
        weights["output.weight"] = left.take("lm_head.weight")
    left.finish()
    if tokenizer.size > vocabulary:
        raise CallError(f"{config.where}: {tokenizer.size} tokens do not fit weights for {vocabulary}")
    recipe = {
        "job": "generate",
        "about": f"A language model, {config.get('_name_or_path', '') or name}",
        "data": {"train": NO_DATA},
        "model": {**settings, "context": context, "vocabulary": vocabulary, "tied": tied},
        "training": {"max_tokens": max(4096, context)},
        "decoding": {"begin": True if begins else None},
    }
    return Imported(recipe, weights, {"tokenizer.json": tokenizer})


def with_frame(tokenizer: Tokenizer, start: int | None, end: int | None) -> Tokenizer:
    """Return the tokenizer with these begin and end tokens, if its file does not define them."""
    specials = tokenizer.specials
    if (start, end) in ((None, None), (specials.start, specials.end)):
        return tokenizer
    return tokenizer.framed_by(start, end)


# GPT-2 (Radford et al. 2019, section 2.3), as `generate` runs.

ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}


def read_gpt2(config: ConfigFile, weights: Weights, folder: Path) -> Imported:
    cut = byte_pairs(folder)
    framed = with_frame(cut, *config.frame())
    return convert_gpt2(config, weights, framed, folder.name, begins=cut.begins, transposed=True)


def convert_gpt2(
    config: ConfigFile,
    weights: Weights,
    tokenizer: Tokenizer,
    name: str,
    *,
    begins: bool = False,
    transposed: bool = False,
) -> Imported:
    """Convert settings and weights with Hugging Face's names, from a folder or a GGUF file.

    turned   linear layers hold input × output
    """
    config.require("scale_attn_weights", True)
    config.require("scale_attn_by_inverse_layer_idx", False)
    config.require("add_cross_attention", False)
    width = config["n_embd"]
    settings = {
        "width": width,
        "layers": config["n_layer"],
        "heads": config["n_head"],
        "feed_forward": config.get("n_inner", 4 * width),
        "positions": "learned",
        "norm": "layer",
        "norm_eps": config.get("layer_norm_epsilon", 1e-5),
        "activation": config.choose("activation_function", ACTIVATIONS),
        "bias": True,
        "dropout": config.get("resid_pdrop", 0.1),
    }
    weights.strip_prefix("transformer.").drop(r"h\.\d+\.attn\.(masked_)?bias")
    found = to_ours(gpt2_table(config["n_layer"], transposed=transposed), weights)
    context = config["n_positions"]
    return language_run(config, weights, found, settings, tokenizer, context=context, name=name, begins=begins)


def gpt2_table(layers: int, *, transposed: bool = True) -> list[WeightMap]:
    """Return the table of all weights but the output layer. GPT-2's files hold input × output, GGUF files do not."""
    found = [
        WeightMap("decoder.embedding.table.weight", ("wte.weight",)),
        WeightMap("decoder.embedding.positions.table", ("wpe.weight",)),
        *linear("decoder.norm", "ln_f"),
    ]
    for number in range(layers):
        ours, theirs = f"decoder.layers.{number}", f"h.{number}"
        found += linear(f"{ours}.attention.project", f"{theirs}.attn.c_attn", transposed=transposed)
        found += linear(f"{ours}.attention.out", f"{theirs}.attn.c_proj", transposed=transposed)
        found += linear(f"{ours}.feed_forward.widen", f"{theirs}.mlp.c_fc", transposed=transposed)
        found += linear(f"{ours}.feed_forward.narrow", f"{theirs}.mlp.c_proj", transposed=transposed)
        found += linear(f"{ours}.attention_norm", f"{theirs}.ln_1")
        found += linear(f"{ours}.feed_forward_norm", f"{theirs}.ln_2")
    return found


# Llama and its variants, such as SmolLM2 (Touvron et al. 2023, section 2.2, arXiv:2302.13971), as `generate` runs.
#
# Arcee is the same with a plain feed-forward, y = W₂ f(W₁ x), instead of SwiGLU.


def read_llama(config: ConfigFile, weights: Weights, folder: Path) -> Imported:
    cut = byte_pairs(folder)
    return convert_llama(config, weights, with_frame(cut, *config.frame()), folder.name, begins=cut.begins)


def convert_llama(
    config: ConfigFile, weights: Weights, tokenizer: Tokenizer, name: str, *, begins: bool = False
) -> Imported:
    """Convert settings and weights with Hugging Face's names, from a folder or a GGUF file."""
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
    weights.strip_prefix("model.").drop(r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq")
    found = to_ours(llama_table(settings["layers"], width, heads, settings["kv_heads"], gated=gated), weights)
    context = config["max_position_embeddings"]
    return language_run(config, weights, found, settings, tokenizer, context=context, name=name, begins=begins)


def _rotary_base(config: ConfigFile) -> float:
    """Return the base of rotary positions. Older files have rope_theta and rope_scaling, newer ones rope_parameters."""
    both = config.get("rope_parameters", config.get("rope_scaling", {}))
    kind = both.get("rope_type", both.get("type", "default"))
    if kind != "default":
        raise CallError(f"{config.where}: scaled rotary positions ({kind!r}) are not supported")
    return float(both.get("rope_theta", config.get("rope_theta", 10000.0)))


def llama_table(layers: int, width: int, heads: int, kv_heads: int, *, gated: bool = True) -> list[WeightMap]:
    """Return the table of all weights but the output layer."""
    found = [
        WeightMap("decoder.embedding.table.weight", ("embed_tokens.weight",)),
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
