"""GGUF, the files of llama.cpp: settings, tokenizer and weights in one, the weights usually quantized.

Quantized weights are read as the float32 numbers that they stand for. Rows of queries and keys are put back into the
order of Hugging Face's files: llama.cpp turns neighboring features by rotary positions, Llama's own files the halves.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import CallError, RegardError
from regard.pretrained import llama
from regard.pretrained.config_file import ConfigFile
from regard.pretrained.gguf_header import require_plausible
from regard.pretrained.imported import Imported
from regard.pretrained.language import with_frame
from regard.pretrained.tokenizer_files import byte_level
from regard.pretrained.weights import Weights

#: llama.cpp's name → Hugging Face's, of one block and of the whole.
BLOCK = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
WHOLE = {"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head"}
CONTROL = 3  # the type of tokens that are no text


def read(file: Path) -> Imported:
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError:
        raise CallError(f"{file} is a GGUF file: pip install 'regard[pretrained]' to read it") from None
    try:
        require_plausible(file)
        reader = GGUFReader(file)
        told = {name: field.contents() for name, field in reader.fields.items()}
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise RegardError(f"{file} cannot be read: {error}") from None
    kind = told.get("general.architecture")
    if kind != "llama":
        raise CallError(f"{file}: general.architecture={kind!r} is not understood; only 'llama' is")
    config = _config(told, str(file))
    weights = Weights(dict(_tensors(reader, config)), str(file))
    config = ConfigFile({**config.tree, "tie_word_embeddings": "lm_head.weight" not in weights}, str(file))
    return llama.convert(config, weights, _tokenizer(told, file), str(told.get("general.name", file.stem)))


def _config(told: dict[str, Any], where: str) -> ConfigFile:
    """What the file says, under the names of Hugging Face's config.json."""
    names = {
        "hidden_size": "embedding_length",
        "intermediate_size": "feed_forward_length",
        "num_hidden_layers": "block_count",
        "num_attention_heads": "attention.head_count",
        "num_key_value_heads": "attention.head_count_kv",
        "max_position_embeddings": "context_length",
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "rope_theta": "rope.freq_base",
        "head_dim": "rope.dimension_count",
    }
    if told.get("llama.rope.scaling.type", "none") != "none":
        raise CallError(f"{where}: rotary positions that are stretched (llama.rope.scaling) are not understood")
    found = {ours: told.get(f"llama.{theirs}") for ours, theirs in names.items()}
    # A float32 of the file, in as many digits as it has: 1e-5, not 9.999999747378752e-06.
    found = {name: float(f"{value:.7g}") if isinstance(value, float) else value for name, value in found.items()}
    return ConfigFile({**found, "hidden_act": "silu"}, where)


def _tensors(reader: Any, config: ConfigFile) -> list[tuple[str, Tensor]]:
    from gguf.quants import dequantize

    heads = {"attn_q": config["num_attention_heads"]}
    heads["attn_k"] = config.get("num_key_value_heads", heads["attn_q"])
    found = []
    for tensor in reader.tensors:
        try:
            values = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        except NotImplementedError as error:
            raise RegardError(f"{config.where}: {tensor.name} cannot be read: {error}") from None
        *place, part, _ = tensor.name.split(".")
        if part in heads:
            values = _halves(values, heads[part])
        name = f"layers.{place[1]}.{BLOCK.get(part, part)}" if place else WHOLE.get(part, part)
        found.append((f"{name}.weight", values))
    return found


def _halves(rows: Tensor, heads: int) -> Tensor:
    """Features 0 1 2 3 … of a head, turned in neighboring pairs, in the order 0 2 … 1 3 …, turned in halves."""
    return rows.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _tokenizer(told: dict[str, Any], file: Path) -> Any:
    model = told.get("tokenizer.ggml.model")
    if model != "gpt2":
        raise CallError(f"{file}: tokenizer.ggml.model={model!r} is not understood; only 'gpt2', BPE over bytes, is")
    names, types = told["tokenizer.ggml.tokens"], told["tokenizer.ggml.token_type"]
    specials = [name for name, kind in zip(names, types, strict=True) if kind == CONTROL]
    entries = {name: index for index, name in enumerate(names)}
    tokenizer = byte_level(entries, told["tokenizer.ggml.merges"], told.get("tokenizer.ggml.pre", "default"), specials)
    return with_frame(tokenizer, told.get("tokenizer.ggml.bos_token_id"), told.get("tokenizer.ggml.eos_token_id"))
