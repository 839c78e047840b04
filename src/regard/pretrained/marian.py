"""Marian (Junczys-Dowmunt et al. 2018, arXiv:1804.00344), which OPUS-MT's models are made with, as `translate` runs.

Two things are put into another order, which changes no number that comes out:

    the vocabulary   our four special tokens come first. Marian's decoder begins with <pad>, so that our <s> has the
                     vector of <pad>; neither of the two can be said
    the features     Marian's positions have all sines before all cosines, ours alternate: features 0 … D/2 − 1 and
                     D/2 … D − 1 of every vector between layers become 0 2 4 … and 1 3 5 …
"""

import json
import re
from pathlib import Path

import torch
from torch import Tensor

from regard.errors import CallError, RegardError
from regard.pretrained import sentencepiece
from regard.pretrained.config_file import ConfigFile
from regard.pretrained.imported import NO_DATA, Imported
from regard.pretrained.weights import Weights
from regard.special_tokens import PAD, SPECIAL_TOKENS, START

ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu", "gelu": "gelu"}
NEVER = -1e4  # the bias of what cannot be said; large numbers would disturb a loss with label smoothing


def read(config: ConfigFile, weights: Weights, folder: Path) -> Imported:
    for key, value in (
        ("scale_embedding", True), ("share_encoder_decoder_embeddings", True), ("tie_word_embeddings", True),
        ("normalize_before", False), ("normalize_embedding", False), ("add_final_layer_norm", False),
        ("static_position_embeddings", True), ("decoder_start_token_id", config["pad_token_id"]),
        ("decoder_attention_heads", config["encoder_attention_heads"]),
        ("decoder_ffn_dim", config["encoder_ffn_dim"]),
    ):  # fmt: skip
        config.require(key, value)
    width = config["d_model"]
    if width % 2:
        raise CallError(f"{config.where}: d_model={width} is odd, and sines and cosines cannot be put in pairs")
    names, rows = _vocabulary(folder, config)
    found = _weights(weights, config, rows)
    weights.finish()
    whole = [name for name in names if re.fullmatch(r">>.+<<", name)]
    models = {side: sentencepiece.read(_file(folder, f"{side}.spm")) for side in ("source", "target")}
    tokenizers = {
        name: sentencepiece.tokenizer(models[side], names, whole)
        for side, name in (("source", "tokenizer.json"), ("target", "tokenizer.target.json"))
    }
    longest = config.get("max_position_embeddings", 512)
    recipe = {
        "job": "translate",
        "about": f"A translator, {config.get('_name_or_path', '') or folder.name}",
        "data": {
            "train": NO_DATA,
            "max_length": longest,
            "tokenizer": {"kind": "unigram", "size": len(names), "joint": True},
        },
        "model": {
            "kind": "transformer",
            "width": width,
            "heads": config["encoder_attention_heads"],
            "feed_forward": config["encoder_ffn_dim"],
            "encoder_layers": config["encoder_layers"],
            "decoder_layers": config["decoder_layers"],
            "norm_first": False,
            "activation": config.choose("activation_function", ACTIVATIONS),
            "positions": "sinusoidal",
            "tied": "all",
            "output_bias": True,
            "dropout": config.get("dropout", 0.1),
            "attention_dropout": config.get("attention_dropout", 0.0),
        },
        "decoding": {"beam": _beam(folder, config), "max_length": longest},
    }
    return Imported(recipe, found, tokenizers)


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise CallError(f"{folder} has no {name}: a Marian model has source.spm, target.spm and vocab.json")
    return folder / name


def _beam(folder: Path, config: ConfigFile) -> int:
    file = folder / "generation_config.json"
    told = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return told.get("num_beams") or config.get("num_beams", 5)


def _vocabulary(folder: Path, config: ConfigFile) -> tuple[list[str], Tensor]:
    """Our order of the vocabulary, and the row of theirs that each entry of it has."""
    theirs: dict[str, int] = json.loads(_file(folder, "vocab.json").read_text(encoding="utf-8"))
    size, pad = config["vocab_size"], config["pad_token_id"]
    if sorted(theirs.values()) != list(range(size)):
        raise RegardError(f"{folder / 'vocab.json'} does not name each of the {size} rows of the weights once")
    if theirs.get("<pad>") != pad or theirs.get("</s>") != config["eos_token_id"] or "<unk>" not in theirs:
        raise RegardError(f"{folder / 'vocab.json'} and config.json do not agree about <pad>, </s> and <unk>")
    others = [name for name, _ in sorted(theirs.items(), key=lambda entry: entry[1]) if name not in SPECIAL_TOKENS]
    names = [*SPECIAL_TOKENS, *others]
    return names, torch.tensor([pad if name == SPECIAL_TOKENS[START] else theirs[name] for name in names])


def _weights(weights: Weights, config: ConfigFile, rows: Tensor) -> dict[str, Tensor]:
    half = config["d_model"] // 2
    order = torch.stack([torch.arange(half), torch.arange(half) + half], dim=1).flatten()

    def table(x: Tensor) -> dict[str, Tensor]:
        bias = weights.take("final_logits_bias").flatten()[rows]
        bias[[PAD, START]] = NEVER
        return {"decoder.embedding.table.weight": x[rows][:, order], "output.bias": bias}

    def reads(ours: str, *theirs: str) -> dict[str, Tensor]:
        """Layers whose input are vectors between layers; several become one."""
        found = weights.joined(ours, theirs)
        return {**found, f"{ours}.weight": found[f"{ours}.weight"][:, order]}

    def writes(ours: str, theirs: str) -> dict[str, Tensor]:
        return {name: tensor[order] for name, tensor in weights.linear(ours, theirs).items()}

    def attention(ours: str, theirs: str) -> dict[str, Tensor]:
        return {
            **reads(f"{ours}.project", *(f"{theirs}.{part}_proj" for part in "qkv")),
            **writes(f"{ours}.out", f"{theirs}.out_proj"),
        }

    weights.drop(
        r"(model\.(encoder|decoder)\.embed_(tokens|positions)|lm_head)\.weight"
    )  # copies, and what is computed
    found = table(weights.take("model.shared.weight"))
    for side in ("encoder", "decoder"):
        for number in range(config[f"{side}_layers"]):
            ours, theirs = f"{side}.layers.{number}", f"model.{side}.layers.{number}"
            found |= attention(f"{ours}.attention", f"{theirs}.self_attn")
            found |= writes(f"{ours}.attention_norm", f"{theirs}.self_attn_layer_norm")
            if side == "decoder":
                found |= reads(f"{ours}.cross.project", f"{theirs}.encoder_attn.q_proj")
                keys = (f"{theirs}.encoder_attn.{part}_proj" for part in "kv")
                found |= reads(f"{ours}.cross.project_kv", *keys)
                found |= writes(f"{ours}.cross.out", f"{theirs}.encoder_attn.out_proj")
                found |= writes(f"{ours}.cross_norm", f"{theirs}.encoder_attn_layer_norm")
            found |= reads(f"{ours}.feed_forward.widen", f"{theirs}.fc1")
            found |= writes(f"{ours}.feed_forward.narrow", f"{theirs}.fc2")
            found |= writes(f"{ours}.feed_forward_norm", f"{theirs}.final_layer_norm")
    return found
