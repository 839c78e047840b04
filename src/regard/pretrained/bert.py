"""BERT and MiniLM (Devlin et al. 2018, arXiv:1810.04805; Wang et al. 2020, arXiv:2002.10957).

The body alone becomes an `encode` run; with the head of a classifier a `classify` run, with that for questions an
`answer` run.
"""

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.data.label_writing import Writing
from regard.data.labels import Labels
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.pretrained.config_file import ConfigFile
from regard.pretrained.imported import NO_DATA, Imported
from regard.pretrained.tokenizer_files import wordpiece
from regard.pretrained.weights import Weights

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}


def read(config: ConfigFile, weights: Weights, folder: Path) -> Imported:
    settings, notes = _settings(config), []
    weights.stripped("bert.").drop(r"(embeddings\.)?(position_ids|token_type_ids)")
    if weights.drop(r"cls\..*"):
        notes.append("the heads of pre-training (masked words, next sentence) are left out")
    found = encoder_weights(weights, config["num_hidden_layers"])
    settings["pooler"] = "pooler.dense.weight" in weights
    if settings["pooler"]:
        found |= weights.linear("pooler", "pooler.dense")
    found = {f"encoder.{name}": tensor for name, tensor in found.items()}
    tokenizer = _tokenizer(config, folder)
    name, files = config.get("_name_or_path", "") or folder.name, {}
    if "classifier.weight" in weights:
        found |= weights.linear("output", "classifier")
        recipe, labels = _classifier(config, settings, name)
        files["labels.json"] = labels.to_json()
    elif "qa_outputs.weight" in weights:
        found |= weights.linear("pointers", "qa_outputs")
        recipe = _reader(settings, name)
    else:
        recipe = _encoder(folder, settings, name)
    weights.finish()
    return Imported(recipe, found, {"tokenizer.json": tokenizer}, files, notes)


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


def _classifier(config: ConfigFile, settings: dict[str, Any], name: str) -> tuple[dict[str, Any], Labels]:
    config.require("architectures", ["BertForSequenceClassification"])
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
            "pooling": "summary",
            "head_dropout": config.get("classifier_dropout", settings["dropout"]),
        },
    }
    return recipe, labels


def labels_of(config: ConfigFile, separator: str | None = None) -> Labels:
    """The classes by name. Files leave them out where they are the usual two, without names."""
    if config.get("problem_type", "") == "regression":
        raise CallError(f"{config.where}: problem_type='regression' is not understood: labels are classes here")
    names = config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    return Labels([names[number] for number in sorted(names, key=int)], Writing(separator))


def _reader(settings: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        "job": "answer",
        "about": f"A reader that answers questions, {name}",
        "data": {"train": NO_DATA, "max_length": min(384, settings["max_positions"]), **_windows(settings)},
        "model": settings,
    }


def _windows(settings: dict[str, Any]) -> dict[str, int]:
    """PreallocatedCache for questions and overlap in proportion, where a model reads less than the usual 384 tokens."""
    most = min(384, settings["max_positions"])
    return {"max_question": min(64, most // 6), "overlap": min(128, most // 3)}


def _tokenizer(config: ConfigFile, folder: Path) -> Tokenizer:
    tokenizer = wordpiece(folder)
    if tokenizer.specials.pad != config.get("pad_token_id", 0) or tokenizer.specials.pad != 0:
        raise CallError(f"{folder}: padding has the id {tokenizer.specials.pad}, and must have 0")
    if tokenizer.size != config["vocab_size"]:
        raise CallError(f"{folder}: {tokenizer.size} tokens do not fit weights for {config['vocab_size']}")
    return tokenizer


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


def encoder_weights(weights: Weights, layers: int) -> dict[str, Tensor]:
    found = {
        "embedding.table.weight": weights.take("embeddings.word_embeddings.weight"),
        "embedding.positions.table": weights.take("embeddings.position_embeddings.weight"),
        "types.weight": weights.take("embeddings.token_type_embeddings.weight"),
        **weights.linear("embedding_norm", "embeddings.LayerNorm"),
    }
    for number in range(layers):
        ours, theirs = f"layers.{number}", f"encoder.layer.{number}"
        found |= weights.joined(
            f"{ours}.attention.project", (f"{theirs}.attention.self.{part}" for part in ("query", "key", "value"))
        )
        found |= weights.linear(f"{ours}.attention.out", f"{theirs}.attention.output.dense")
        found |= weights.linear(f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm")
        found |= weights.linear(f"{ours}.feed_forward.widen", f"{theirs}.intermediate.dense")
        found |= weights.linear(f"{ours}.feed_forward.narrow", f"{theirs}.output.dense")
        found |= weights.linear(f"{ours}.feed_forward_norm", f"{theirs}.output.LayerNorm")
    return found


def _sentence_transformer(folder: Path, settings: dict[str, Any]) -> tuple[str, bool, int]:
    """How a folder of sentence-transformers makes one vector: its pooling, whether of length 1, most tokens."""

    def read(name: str) -> Any:
        file = folder / name
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    modules = [module["type"].rsplit(".", 1)[-1] for module in read("modules.json") or []]
    strange = set(modules) - {"Transformer", "Pooling", "Normalize"}
    if strange:
        raise CallError(f"{folder / 'modules.json'}: the module {sorted(strange)[0]} is not understood")
    pooling = read("1_Pooling/config.json")
    modes = [
        mode.removeprefix("pooling_mode_") for mode, on in pooling.items() if mode.startswith("pooling_mode_") and on
    ]
    known = {"mean_tokens": "mean", "cls_token": "cls"}
    if len(modes) > 1 or any(mode not in known for mode in modes):
        raise CallError(f"{folder / '1_Pooling/config.json'}: pooling by {', '.join(modes)} is not understood")
    longest = read("sentence_bert_config.json").get("max_seq_length") or settings["max_positions"]
    return known[modes[0]] if modes else "mean", "Normalize" in modules or not modules, longest
