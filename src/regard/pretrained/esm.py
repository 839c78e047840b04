"""ESM (Rives et al. 2019, 10.1073/pnas.2016239118; Lin et al. 2022): BERT with norms before each part.

It was made for proteins, but nothing in it is about them: of the encoders that others have, it is the one with norms
first, and so what our own encoders leave as. Two things differ from ours, and are put right here:

    positions   learned ones are counted from 1, and row 0 of their table is never read
    rotary      turns halves of a head's features, ours neighbors: features 0 … d/2 − 1 and d/2 … d − 1 of queries and
                keys become 0 2 4 … and 1 3 5 …
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.pretrained.config_file import ConfigFile
from regard.pretrained.encoder_runs import encoder_run, padded_with_zero
from regard.pretrained.imported import Imported
from regard.pretrained.renamed import Renamed, linear, to_ours
from regard.pretrained.tokenizer_files import wordpiece
from regard.pretrained.weights import Weights

POSITIONS = {"absolute": "learned", "rotary": "rotary"}


def read(config: ConfigFile, weights: Weights, folder: Path) -> Imported:
    settings = _settings(config)
    weights.stripped("esm.").drop(r"(embeddings\.position_ids|contact_head\..*|.*rotary_embeddings\.inv_freq)")
    notes = ["the head of pre-training (masked words) is left out"] if weights.drop(r"lm_head\..*") else []
    weights.rename({"classifier.dense": "pooler.dense", "classifier.out_proj": "classifier"})
    found = to_ours(table(**table_sizes(settings)), weights)
    tokenizer = padded_with_zero(config, wordpiece(folder), folder)
    return encoder_run(config, weights, found, settings, tokenizer, folder, notes)


def _settings(config: ConfigFile) -> dict[str, Any]:
    config.require("is_decoder", False)
    config.require("add_cross_attention", False)
    config.require("token_dropout", False)
    config.require("is_folding_model", False)
    return {
        "kind": "transformer",
        "width": config["hidden_size"],
        "layers": config["num_hidden_layers"],
        "heads": config["num_attention_heads"],
        "feed_forward": config["intermediate_size"],
        "norm_first": True,
        "eps": config.get("layer_norm_eps", 1e-12),
        "activation": "gelu",
        "positions": config.choose("position_embedding_type", POSITIONS),
        "max_positions": config["max_position_embeddings"] - 1,
        "token_types": 0,
        "embedding_norm": config.get("emb_layer_norm_before", False),
        "dropout": config.get("hidden_dropout_prob", 0.1),
        "attention_dropout": config.get("attention_probs_dropout_prob", 0.1),
    }


def table_sizes(settings: Any) -> dict[str, Any]:
    """What `table` has to know of the settings of an encoder."""
    return {name: settings[name] for name in ("layers", "width", "heads", "positions", "embedding_norm")}


def table(layers: int, width: int, heads: int, positions: str, embedding_norm: bool) -> list[Renamed]:
    """The body."""
    found = [Renamed("embedding.table.weight", ("embeddings.word_embeddings.weight",))]
    if positions == "learned":
        theirs = "embeddings.position_embeddings.weight"
        found.append(Renamed("embedding.positions.table", (theirs,), skipped=1))
    if embedding_norm:
        found += linear("embedding_norm", "embeddings.layer_norm")
    turned = neighbors(width, heads) if positions == "rotary" else None
    for number in range(layers):
        ours, theirs = f"layers.{number}", f"encoder.layer.{number}"
        queries = (f"{theirs}.attention.self.{part}" for part in ("query", "key", "value"))
        found += linear(f"{ours}.attention.project", *queries, rows=turned)
        found += linear(f"{ours}.attention.out", f"{theirs}.attention.output.dense")
        found += linear(f"{ours}.attention_norm", f"{theirs}.attention.LayerNorm")
        found += linear(f"{ours}.feed_forward.widen", f"{theirs}.intermediate.dense")
        found += linear(f"{ours}.feed_forward.narrow", f"{theirs}.output.dense")
        found += linear(f"{ours}.feed_forward_norm", f"{theirs}.LayerNorm")
    return [*found, *linear("norm", "encoder.emb_layer_norm_after")]


def neighbors(width: int, heads: int) -> Tensor:
    """For rows of queries, keys and values: those of our order, as rows of theirs. Values stay as they are."""
    rows = torch.arange(width).view(heads, 2, -1).transpose(1, 2).flatten()
    return torch.cat([rows, width + rows, 2 * width + torch.arange(width)])
