"""GPT-2 (Radford et al. 2019, section 2.3), as `generate` runs."""

from pathlib import Path

from regard.data.tokenizer import Tokenizer
from regard.pretrained.config_file import ConfigFile
from regard.pretrained.imported import Imported
from regard.pretrained.language import language_run, with_frame
from regard.pretrained.renamed import Renamed, linear, to_ours
from regard.pretrained.tokenizer_files import byte_pairs
from regard.pretrained.weights import Weights

ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}


def read(config: ConfigFile, weights: Weights, folder: Path) -> Imported:
    cut = byte_pairs(folder)
    framed = with_frame(cut, *config.frame())
    return convert(config, weights, framed, folder.name, begins=cut.begins, turned=True)


def convert(
    config: ConfigFile,
    weights: Weights,
    tokenizer: Tokenizer,
    name: str,
    *,
    begins: bool = False,
    turned: bool = False,
) -> Imported:
    """Settings and weights under the names that Hugging Face gives them, also where they come from a GGUF file.

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
    weights.stripped("transformer.").drop(r"h\.\d+\.attn\.(masked_)?bias")
    found = to_ours(table(config["n_layer"], turned=turned), weights)
    context = config["n_positions"]
    return language_run(config, weights, found, settings, tokenizer, context=context, name=name, begins=begins)


def table(layers: int, *, turned: bool = True) -> list[Renamed]:
    """All but the output layer. GPT-2's own linear layers hold input × output, those of a GGUF file do not."""
    found = [
        Renamed("decoder.embedding.table.weight", ("wte.weight",)),
        Renamed("decoder.embedding.positions.table", ("wpe.weight",)),
        *linear("decoder.norm", "ln_f"),
    ]
    for number in range(layers):
        ours, theirs = f"decoder.layers.{number}", f"h.{number}"
        found += linear(f"{ours}.attention.project", f"{theirs}.attn.c_attn", turned=turned)
        found += linear(f"{ours}.attention.out", f"{theirs}.attn.c_proj", turned=turned)
        found += linear(f"{ours}.feed_forward.widen", f"{theirs}.mlp.c_fc", turned=turned)
        found += linear(f"{ours}.feed_forward.narrow", f"{theirs}.mlp.c_proj", turned=turned)
        found += linear(f"{ours}.attention_norm", f"{theirs}.ln_1")
        found += linear(f"{ours}.feed_forward_norm", f"{theirs}.ln_2")
    return found
