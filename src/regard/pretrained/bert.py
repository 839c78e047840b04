"""BERT and MiniLM (Devlin et al. 2018, arXiv:1810.04805; Wang et al. 2020, arXiv:2002.10957): norms after each part."""

from pathlib import Path
from typing import Any

from regard.pretrained.config_file import ConfigFile
from regard.pretrained.encoder_runs import encoder_run, padded_with_zero
from regard.pretrained.imported import Imported
from regard.pretrained.renamed import Renamed, linear, to_ours
from regard.pretrained.tokenizer_files import wordpiece
from regard.pretrained.weights import Weights

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}


def read(config: ConfigFile, weights: Weights, folder: Path) -> Imported:
    settings, notes = _settings(config), []
    weights.stripped("bert.").drop(r"(embeddings\.)?(position_ids|token_type_ids)")
    if weights.drop(r"cls\..*"):
        notes.append("the heads of pre-training (masked words, next sentence) are left out")
    found = to_ours(table(config["num_hidden_layers"]), weights)
    if not found["types.weight"].any():  # as `regard export` writes an encoder that has none
        settings["token_types"] = 0
        del found["types.weight"]
    tokenizer = padded_with_zero(config, wordpiece(folder), folder)
    return encoder_run(config, weights, found, settings, tokenizer, folder, notes)


def _settings(config: ConfigFile) -> dict[str, Any]:
    config.require("position_embedding_type", "absolute")
    config.require("is_decoder", False)
    config.require("add_cross_attention", False)
    return {
        "kind": "transformer",
        "width": config["hidden_size"],
        "layers": config["num_hidden_layers"],
        "heads": config["num_attention_heads"],
        "feed_forward": config["intermediate_size"],
        "norm_first": False,
        "eps": config.get("layer_norm_eps", 1e-12),
        "activation": config.choose("hidden_act", ACTIVATIONS),
        "positions": "learned",
        "max_positions": config["max_position_embeddings"],
        "token_types": config.get("type_vocab_size", 2),
        "embedding_norm": True,
        "dropout": config.get("hidden_dropout_prob", 0.1),
        "attention_dropout": config.get("attention_probs_dropout_prob", 0.1),
    }


def table(layers: int) -> list[Renamed]:
    """The body."""
    found = [
        Renamed("embedding.table.weight", ("embeddings.word_embeddings.weight",)),
        Renamed("embedding.positions.table", ("embeddings.position_embeddings.weight",)),
        Renamed("types.weight", ("embeddings.token_type_embeddings.weight",)),
        *linear("embedding_norm", "embeddings.LayerNorm"),
    ]
    for number in range(layers):
        ours, theirs = f"layers.{number}", f"encoder.layer.{number}"
        queries = (f"{theirs}.attention.self.{part}" for part in ("query", "key", "value"))
        found += linear(f"{ours}.attention.project", *queries)
        found += linear(f"{ours}.attention.out", f"{theirs}.attention.output.dense")
        found += linear(f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm")
        found += linear(f"{ours}.feed_forward.widen", f"{theirs}.intermediate.dense")
        found += linear(f"{ours}.feed_forward.narrow", f"{theirs}.output.dense")
        found += linear(f"{ours}.feed_forward_norm", f"{theirs}.output.LayerNorm")
    return found
