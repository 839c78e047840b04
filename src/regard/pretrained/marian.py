"""Import Marian models (Junczys-Dowmunt et al. 2018, arXiv:1804.00344), such as those of OPUS-MT, as `translate` runs.

Pegasus (Zhang et al. 2019, arXiv:1912.08777) is the same with norms before each part; our translators with norms first
are exported as Pegasus.

Two orders change, which changes no output:

    the vocabulary   our four special tokens come first. Marian's decoder starts with <pad>, so our <s> has the vector
                     of <pad>; both are never generated. Folders of `regard export` have our order
    the features     see `seq2seq`
"""

import json
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.data.vocabulary import OURS
from regard.errors import CallError, RegardError
from regard.pretrained import tokenizer_files
from regard.pretrained.sources import ConfigFile
from regard.pretrained.tokenizer_files import load
from regard.pretrained.weights import NO_DATA, Imported, WeightMap, Weights, linear, to_ours
from regard.special_tokens import PAD, SPECIAL_TOKENS, START

# Encoder and decoder under the names that Marian, Pegasus and BART share.
#
# Their sinusoidal positions have all sines before all cosines, and ours alternate: features 0 … D/2 − 1 and D/2 … D − 1
# of every vector between layers become 0 2 4 … and 1 3 5 …, which changes no output.

SIDES = ("encoder", "decoder")


def alternating(width: int) -> Tensor:
    """Return the numbers of their features in our order."""
    return torch.arange(width).view(2, -1).T.flatten()


def table(encoder_layers: int, decoder_layers: int, order: Tensor, *, final_norms: bool) -> list[WeightMap]:
    """Return the table of all blocks. `final_norms`: a norm after the last block, which norms first need."""
    found: list[WeightMap] = []
    for side, layers in zip(SIDES, (encoder_layers, decoder_layers), strict=True):
        for number in range(layers):
            found += _block(f"{side}.layers.{number}", f"model.{side}.layers.{number}", order, side == "decoder")
        if final_norms:
            found += linear(f"{side}.norm", f"model.{side}.layer_norm", rows=order)
    return found


def _block(ours: str, theirs: str, order: Tensor, cross: bool) -> list[WeightMap]:
    """Return the table of a block. Maps that read vectors between layers have reordered columns, others rows."""
    queries = (f"{theirs}.self_attn.{part}_proj" for part in "qkv")
    found = [
        *linear(f"{ours}.attention.project", *queries, columns=order),
        *linear(f"{ours}.attention.out", f"{theirs}.self_attn.out_proj", rows=order),
        *linear(f"{ours}.attention_norm", f"{theirs}.self_attn_layer_norm", rows=order),
        *linear(f"{ours}.feed_forward.widen", f"{theirs}.fc1", columns=order),
        *linear(f"{ours}.feed_forward.narrow", f"{theirs}.fc2", rows=order),
        *linear(f"{ours}.feed_forward_norm", f"{theirs}.final_layer_norm", rows=order),
    ]
    if cross:
        keys = (f"{theirs}.encoder_attn.{part}_proj" for part in "kv")
        found += [
            *linear(f"{ours}.cross.project", f"{theirs}.encoder_attn.q_proj", columns=order),
            *linear(f"{ours}.cross.project_kv", *keys, columns=order),
            *linear(f"{ours}.cross.out", f"{theirs}.encoder_attn.out_proj", rows=order),
            *linear(f"{ours}.cross_norm", f"{theirs}.encoder_attn_layer_norm", rows=order),
        ]
    return found


ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu", "gelu": "gelu"}
NEVER = -1e4  # bias of tokens that are never generated; larger numbers would disturb a loss with label smoothing
TABLE = "decoder.embedding.table.weight"
TARGET = "target"  # folder of the target's tokenizer, if it differs


def read(config: ConfigFile, weights: Weights, folder: Path) -> Imported:
    norm_first = config["model_type"] == "pegasus"
    for key, value in (
        ("scale_embedding", True), ("normalize_before", norm_first), ("normalize_embedding", False),
        ("add_final_layer_norm", norm_first), ("static_position_embeddings", True),
        ("decoder_attention_heads", config["encoder_attention_heads"]),
        ("decoder_ffn_dim", config["encoder_ffn_dim"]),
    ):  # fmt: skip
        config.require(key, value)
    width = config["d_model"]
    if width % 2:
        raise CallError(f"{config.where}: d_model={width} is odd; sines and cosines need an even width")
    order = alternating(width)
    weights.drop(r"model\.(encoder|decoder)\.embed_positions\.weight")  # computed
    found = to_ours(table(config["encoder_layers"], config["decoder_layers"], order, final_norms=norm_first), weights)
    if (folder / TOKENIZER).is_file():
        ends, tokenizers, how = _export_tables(folder, weights, order)
    else:
        ends, tokenizers, how = _original(folder, config, weights, order)
    weights.finish()
    longest = config.get("max_position_embeddings", 512)
    recipe = {
        "job": "translate",
        "about": f"A translator, {config.get('_name_or_path', '') or folder.name}",
        "data": {
            "train": NO_DATA,
            "max_length": longest,
            "tokenizer": {
                "kind": "unigram",
                "size": len(ends[TABLE]),
                "joint": how["joint"],
            },
        },
        "model": {
            "kind": "transformer",
            "width": width,
            "heads": config["encoder_attention_heads"],
            "feed_forward": config["encoder_ffn_dim"],
            "encoder_layers": config["encoder_layers"],
            "decoder_layers": config["decoder_layers"],
            "norm_first": norm_first,
            "activation": config.choose("activation_function", ACTIVATIONS),
            "positions": "sinusoidal",
            "tied": how["tied"],
            "output_bias": how["bias"],
            "dropout": config.get("dropout", 0.1),
            "attention_dropout": config.get("attention_dropout", 0.0),
        },
        "decoding": {"beam": _beam(folder, config), "max_length": longest},
    }
    return Imported(recipe, found | ends, tokenizers)


def _export_tables(
    folder: Path, weights: Weights, order: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tokenizer], Any]:
    """Read embeddings and output layer of a folder with our tokenizers, whose ids are the rows of the tables."""
    source = load(folder / TOKENIZER)
    own = (folder / TARGET / TOKENIZER).is_file()
    target = load(folder / TARGET / TOKENIZER) if own else source
    if source.specials != OURS or target.specials != OURS:
        raise CallError(
            f"{folder}: tokenizer.json is not supported unless its vocabulary starts with {' '.join(SPECIAL_TOKENS)}"
        )

    def rows(name: str, count: int) -> Tensor:
        return weights.take(name)[:count, order]

    bias = weights.take("final_logits_bias").flatten()[: target.size]
    found = {"output.bias": bias} if bias.any() else {}
    tokenizers = {TOKENIZER: source} | ({"tokenizer.target.json": target} if own else {})
    if "model.encoder.embed_tokens.weight" not in weights:
        found[TABLE] = rows("model.shared.weight", target.size)
        return found, tokenizers, {"joint": True, "tied": "all", "bias": bool(bias.any())}
    weights.drop(r"model\.shared\.weight")
    tables = {name: rows(f"model.{side}.embed_tokens.weight", size) for side, name, size in (
        ("encoder", "encoder.embedding.table.weight", source.size),
        ("decoder", TABLE, target.size),
    )}  # fmt: skip
    tied = "output"
    if "lm_head.weight" in weights:
        output = rows("lm_head.weight", target.size)
        if not torch.equal(output, tables[TABLE]):
            tied, tables["output.weight"] = "none", output
    return found | tables, tokenizers, {"joint": not own, "tied": tied, "bias": bool(bias.any())}


def _original(
    folder: Path, config: ConfigFile, weights: Weights, order: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tokenizer], Any]:
    """Read embeddings and output layer of a folder in the form of OPUS-MT."""
    for key, value in (
        ("share_encoder_decoder_embeddings", True), ("tie_word_embeddings", True),
        ("decoder_start_token_id", config["pad_token_id"]),
    ):  # fmt: skip
        config.require(key, value)
    names, rows = _vocabulary(folder, config)
    bias = weights.take("final_logits_bias").flatten()[rows]
    bias[[PAD, START]] = NEVER
    weights.drop(r"(model\.(encoder|decoder)\.embed_tokens|lm_head)\.weight")  # copies
    found = {
        TABLE: weights.take("model.shared.weight")[rows][:, order],
        "output.bias": bias,
    }
    whole = [name for name in names if re.fullmatch(r">>.+<<", name)]
    models = {side: tokenizer_files.read(_file(folder, f"{side}.spm")) for side in ("source", "target")}
    tokenizers = {
        name: tokenizer_files.tokenizer(models[side], names, whole)
        for side, name in (("source", TOKENIZER), ("target", "tokenizer.target.json"))
    }
    return found, tokenizers, {"joint": True, "tied": "all", "bias": True}


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise CallError(f"{folder} has no {name}: a Marian model has source.spm, target.spm and vocab.json")
    return folder / name


def _beam(folder: Path, config: ConfigFile) -> int:
    file = folder / "generation_config.json"
    told = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return told.get("num_beams") or config.get("num_beams", 5)


def _vocabulary(folder: Path, config: ConfigFile) -> tuple[list[str], Tensor]:
    """Return the vocabulary in our order, and the row of each entry in their tables."""
    theirs: dict[str, int] = json.loads(_file(folder, "vocab.json").read_text(encoding="utf-8"))
    size, pad = config["vocab_size"], config["pad_token_id"]
    if sorted(theirs.values()) != list(range(size)):
        raise RegardError(f"{folder / 'vocab.json'} does not name each of the {size} rows of the weights once")
    if theirs.get("<pad>") != pad or theirs.get("</s>") != config["eos_token_id"] or "<unk>" not in theirs:
        raise RegardError(f"{folder / 'vocab.json'} and config.json do not agree about <pad>, </s> and <unk>")
    others = [name for name, _ in sorted(theirs.items(), key=lambda entry: entry[1]) if name not in SPECIAL_TOKENS]
    names = [*SPECIAL_TOKENS, *others]
    return names, torch.tensor([pad if name == SPECIAL_TOKENS[START] else theirs[name] for name in names])
