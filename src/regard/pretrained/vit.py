"""Import Vision Transformers (Dosovitskiy et al. 2020, section 3.1, arXiv:2010.11929) as `classify` runs on images."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import CallError
from regard.pretrained.encoders import labels_of
from regard.pretrained.sources import ConfigFile
from regard.pretrained.weights import NO_DATA, Imported, WeightMap, Weights, linear, to_ours


def read(config: ConfigFile, weights: Weights, folder: Path) -> Imported:
    config.require("hidden_act", "gelu")
    config.require("qkv_bias", True)
    if "classifier.weight" not in weights:
        raise CallError(f"{weights.where} has no classifier: only Vision Transformers with a classifier are supported")
    (height, width), (patch, other) = (_sides(config[name]) for name in ("image_size", "patch_size"))
    if patch != other:
        raise CallError(f"{config.where}: patch_size={[patch, other]} is not supported; patches must be square")
    labels = labels_of(config)
    recipe = {
        "job": "classify",
        "about": f"A classifier of pictures, {config.get('_name_or_path', '') or folder.name}",
        "data": {
            "kind": "image",
            "train": NO_DATA,
            "height": height,
            "width": width,
            "channels": config.get("num_channels", 3),
        },
        "model": {
            "kind": "vit",
            "patch": patch,
            "width": config["hidden_size"],
            "heads": config["num_attention_heads"],
            "layers": config["num_hidden_layers"],
            "feed_forward": config["intermediate_size"],
            "eps": config.get("layer_norm_eps", 1e-12),
            "dropout": config.get("hidden_dropout_prob", 0.0),
        },
    }
    found = _colors(folder, config.get("num_channels", 3)) | to_ours(table(config["num_hidden_layers"]), weights)
    weights.finish()
    return Imported(recipe, found, files={"labels.json": labels.to_json()})


def _sides(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else tuple(size)


def _colors(folder: Path, channels: int) -> dict[str, Tensor]:
    """Return the normalization of pixels between 0 and 1: by preprocessor_config.json, or the paper's 0.5."""
    file = folder / "preprocessor_config.json"
    told = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if abs(told.get("rescale_factor", 1 / 255) * 255 - 1) > 1e-6:
        raise CallError(f"{file}: rescale_factor={told['rescale_factor']} is not supported; only 1/255 is")
    half = [0.5] * channels
    mean, deviation = told.get("image_mean", half), told.get("image_std", half)
    if not told.get("do_normalize", True):
        mean, deviation = [0.0] * channels, [1.0] * channels
    pairs = (("mean", mean), ("deviation", deviation))
    return {f"encoder.{name}": torch.tensor(values, dtype=torch.float32).view(-1, 1, 1) for name, values in pairs}


def table(layers: int) -> list[WeightMap]:
    body = "encoder.body"
    found = [
        *linear("output", "classifier"),
        WeightMap(f"{body}.summary", ("vit.embeddings.cls_token",), ones=2),
        WeightMap(f"{body}.positions.table", ("vit.embeddings.position_embeddings",), ones=1),
        *linear(f"{body}.patches", "vit.embeddings.patch_embeddings.projection"),
        *linear(f"{body}.norm", "vit.layernorm"),
    ]
    for number in range(layers):
        ours, theirs = f"{body}.layers.{number}", f"vit.encoder.layer.{number}"
        queries = (f"{theirs}.attention.attention.{part}" for part in ("query", "key", "value"))
        found += linear(f"{ours}.attention.project", *queries)
        found += linear(f"{ours}.attention.out", f"{theirs}.attention.output.dense")
        found += linear(f"{ours}.attention_norm", f"{theirs}.layernorm_before")
        found += linear(f"{ours}.feed_forward.widen", f"{theirs}.intermediate.dense")
        found += linear(f"{ours}.feed_forward.narrow", f"{theirs}.output.dense")
        found += linear(f"{ours}.feed_forward_norm", f"{theirs}.layernorm_after")
    return found
