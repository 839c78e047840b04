"""Import text encoders (BERT, MiniLM, ESM) as runs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.labels import LabelFormat, Labels
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.pretrained.sources import ConfigFile
from regard.pretrained.tokenizer_files import wordpiece
from regard.pretrained.weights import NO_DATA, Imported, WeightMap, Weights, linear, to_ours

# Shared import of text encoders: the body alone becomes an `encode` run; with a head for texts a `classify` run, for
# tokens a `tag` run, for questions an `answer` run.
#
# Heads for texts are linear in tanh(W x_0 + b), where x_0 is the vector of the first token. A head that is linear in
# x_0 itself is written as W = ε, b = 0 and an output layer divided by ε: tanh x = x − x³/3 + …, and ε = 2⁻¹⁴ makes
# the second term smaller than float32 can represent. Scaling by a power of two is exact, so `plain_head` recovers
# such a head exactly.

SMALL = 2.0**-14  # ε above
POOLER, HEAD, POINTERS = (
    linear("encoder.pooler", "pooler.dense"),
    linear("output", "classifier"),
    linear("pointers", "qa_outputs"),
)
TEXTS, TOKENS = "ForSequenceClassification", "ForTokenClassification"  # suffixes of architecture names


def encoder_run(
    config: ConfigFile,
    weights: Weights,
    body: Mapping[str, Tensor],
    settings: dict[str, Any],
    tokenizer: Tokenizer,
    folder: Path,
    notes: list[str],
) -> Imported:
    """Return the run of an encoder.

    weights    the remaining weights of the file: the head, under BERT's names
    body       the weights of the encoder, under our names
    """
    found = {f"encoder.{name}": tensor for name, tensor in body.items()}
    pooled = "pooler.dense.weight" in weights
    found |= to_ours(POOLER, weights) if pooled else {}
    name, files = config.get("_name_or_path", "") or folder.name, {}
    if "qa_outputs.weight" in weights:
        found |= to_ours(POINTERS, weights)
        recipe = _reader({**settings, "pooler": pooled}, name)
    elif "classifier.weight" in weights:
        found |= to_ours(HEAD, weights)
        if str(config.get("architectures", [""])[0]).endswith(TOKENS):
            recipe, labels = _tagger(config, settings, name)
        else:
            recipe, labels = _classifier(config, settings, name, by_pooler=not plain_head(found))
        files["labels.json"] = labels.to_json()
    else:
        recipe = _encoder(folder, {**settings, "pooler": pooled}, name)
    weights.finish()
    return Imported(recipe, found, {"tokenizer.json": tokenizer}, files, notes)


def plain_head(found: dict[str, Tensor]) -> bool:
    """Return whether the head is linear in the first vector, and undo its scaling by ε."""
    pooler = found.get("encoder.pooler.weight")
    if pooler is None or not torch.equal(pooler, SMALL * torch.eye(len(pooler))):
        return False
    del found["encoder.pooler.weight"], found["encoder.pooler.bias"]
    found["output.weight"] = found["output.weight"] * SMALL
    return True


def _encoder(folder: Path, settings: dict[str, Any], name: str) -> dict[str, Any]:
    pooling, normalize, longest = _sentence_transformer(folder, settings)
    return {
        "job": "encode",
        "about": f"A text encoder, {name}",
        "data": {
            "train": NO_DATA,
            "max_length": min(longest, settings["max_positions"]) - 1,
            "overlong": "cut",
            "tokenizer": {"joint": True},
        },
        "model": settings,
        "vectors": {"pooling": pooling, "normalize": normalize},
    }


def _classifier(
    config: ConfigFile, settings: dict[str, Any], name: str, *, by_pooler: bool
) -> tuple[dict[str, Any], Labels]:
    kind = config.get("architectures", [TEXTS])[0]
    if not kind.endswith(TEXTS):
        raise CallError(f"{config.where}: architectures=[{kind!r}] is not supported; supported: *{TEXTS}, *{TOKENS}")
    several = config.get("problem_type", "") == "multi_label_classification"
    labels = labels_of(config, separator="|" if several else None)
    recipe = {
        "job": "classify",
        "about": f"A text classifier, {name}",
        "data": {
            "kind": "text",
            "train": NO_DATA,
            "max_length": settings["max_positions"] - 1,
            "separator": labels.writing.separator,
        },
        "model": {
            **settings,
            "pooler": by_pooler,
            "pooling": "summary" if by_pooler else "cls",
            "head_dropout": config.get("classifier_dropout", settings["dropout"]),
        },
    }
    return recipe, labels


def _tagger(config: ConfigFile, settings: dict[str, Any], name: str) -> tuple[dict[str, Any], Labels]:
    labels = labels_of(config, separator=" ")
    recipe = {
        "job": "tag",
        "about": f"A tagger of words, {name}",
        "data": {"train": NO_DATA, "max_length": settings["max_positions"] - 1},
        "model": {**settings, "head_dropout": config.get("classifier_dropout", settings["dropout"])},
    }
    return recipe, labels


def labels_of(config: ConfigFile, separator: str | None = None) -> Labels:
    """Return the class names. Files omit them for two classes without names."""
    if config.get("problem_type", "") == "regression":
        raise CallError(f"{config.where}: problem_type='regression' is not supported: labels must be classes")
    names = config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    return Labels([names[number] for number in sorted(names, key=int)], LabelFormat(separator))


def _reader(settings: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        "job": "answer",
        "about": f"A reader that answers questions, {name}",
        "data": {"train": NO_DATA, "max_length": min(384, settings["max_positions"]), **_windows(settings)},
        "model": settings,
    }


def _windows(settings: dict[str, Any]) -> dict[str, int]:
    """Return the sizes of questions and of the overlap, scaled down for models that read fewer than 384 tokens."""
    most = min(384, settings["max_positions"])
    return {"max_question": min(64, most // 6), "overlap": min(128, most // 3)}


def padded_with_zero(config: ConfigFile, tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    """Return the tokenizer; raise a `CallError` unless its ids fit the weights and padding has the id 0."""
    if tokenizer.specials.pad != config.get("pad_token_id", 0) or tokenizer.specials.pad != 0:
        raise CallError(f"{folder}: padding has the id {tokenizer.specials.pad}; it must be 0")
    if tokenizer.size != config["vocab_size"]:
        raise CallError(f"{folder}: {tokenizer.size} tokens do not fit weights for {config['vocab_size']}")
    return tokenizer


def _sentence_transformer(folder: Path, settings: dict[str, Any]) -> tuple[str, bool, int]:
    """Return the pooling of a folder of sentence-transformers, whether it normalizes, and the maximum length."""

    def read(name: str) -> Any:
        file = folder / name
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    modules = [module["type"].rsplit(".", 1)[-1] for module in read("modules.json") or []]
    strange = set(modules) - {"Transformer", "Pooling", "Normalize"}
    if strange:
        raise CallError(f"{folder / 'modules.json'}: the module {sorted(strange)[0]} is not supported")
    pooling = read("1_Pooling/config.json")
    modes = [
        mode.removeprefix("pooling_mode_") for mode, on in pooling.items() if mode.startswith("pooling_mode_") and on
    ]
    known = {"mean_tokens": "mean", "cls_token": "cls"}
    if len(modes) > 1 or any(mode not in known for mode in modes):
        raise CallError(f"{folder / '1_Pooling/config.json'}: pooling by {', '.join(modes)} is not supported")
    longest = read("sentence_bert_config.json").get("max_seq_length") or settings["max_positions"]
    return known[modes[0]] if modes else "mean", "Normalize" in modules or not modules, longest


# BERT and MiniLM (Devlin et al. 2018, arXiv:1810.04805; Wang et al. 2020, arXiv:2002.10957): norms after each part.

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}


def read_bert(config: ConfigFile, weights: Weights, folder: Path) -> Imported:
    settings, notes = _settings(config), []
    weights.strip_prefix("bert.").drop(r"(embeddings\.)?(position_ids|token_type_ids)")
    if weights.drop(r"cls\..*"):
        notes.append("the heads of pre-training (masked words, next sentence) are left out")
    found = to_ours(bert_table(config["num_hidden_layers"]), weights)
    if not found["types.weight"].any():  # `regard export` writes zeros for an encoder without them
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


def bert_table(layers: int) -> list[WeightMap]:
    """Return the table of weights of the body."""
    found = [
        WeightMap("embedding.table.weight", ("embeddings.word_embeddings.weight",)),
        WeightMap("embedding.positions.table", ("embeddings.position_embeddings.weight",)),
        WeightMap("types.weight", ("embeddings.token_type_embeddings.weight",)),
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


# ESM (Rives et al. 2019, 10.1073/pnas.2016239118; Lin et al. 2022): BERT with norms before each part.
#
# ESM was made for proteins, but its architecture is general: it is the public encoder with norms first, so our encoders
# are exported as ESM. Two differences to ours are converted here:
#
#     positions   learned ones are counted from 1, and row 0 of their table is never read
#     rotary      rotates halves of a head's features, ours rotates neighbors: features 0 … d/2 − 1 and d/2 … d − 1 of
#                 queries and keys become 0 2 4 … and 1 3 5 …

POSITIONS = {"absolute": "learned", "rotary": "rotary"}


def read_esm(config: ConfigFile, weights: Weights, folder: Path) -> Imported:
    settings = _esm_settings(config)
    weights.strip_prefix("esm.").drop(r"(embeddings\.position_ids|contact_head\..*|.*rotary_embeddings\.inv_freq)")
    notes = ["the head of pre-training (masked words) is left out"] if weights.drop(r"lm_head\..*") else []
    weights.rename({"classifier.dense": "pooler.dense", "classifier.out_proj": "classifier"})
    found = to_ours(esm_table(**table_sizes(settings)), weights)
    tokenizer = padded_with_zero(config, wordpiece(folder), folder)
    return encoder_run(config, weights, found, settings, tokenizer, folder, notes)


def _esm_settings(config: ConfigFile) -> dict[str, Any]:
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
    """Return the settings of an encoder that the table of weights depends on."""
    return {name: settings[name] for name in ("layers", "width", "heads", "positions", "embedding_norm")}


def esm_table(layers: int, width: int, heads: int, positions: str, embedding_norm: bool) -> list[WeightMap]:
    """Return the table of weights of the body."""
    found = [WeightMap("embedding.table.weight", ("embeddings.word_embeddings.weight",))]
    if positions == "learned":
        theirs = "embeddings.position_embeddings.weight"
        found.append(WeightMap("embedding.positions.table", (theirs,), skipped=1))
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
    """Return the rows of queries, keys and values in our order, as rows of theirs. Values keep their order."""
    rows = torch.arange(width).view(heads, 2, -1).transpose(1, 2).flatten()
    return torch.cat([rows, width + rows, 2 * width + torch.arange(width)])
