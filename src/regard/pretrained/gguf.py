"""GGUF, the files of llama.cpp: settings, tokenizer and weights in one, the weights usually quantized.

Quantized weights are read as the float32 numbers that they stand for. Rows of queries and keys are put back into the
order of Hugging Face's files: llama.cpp turns neighboring features by rotary positions, Llama's own files the halves.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import CallError, RegardError, nearest, pip_install
from regard.pretrained.config_file import ConfigFile
from regard.pretrained.gguf_header import require_plausible
from regard.pretrained.gguf_layouts import LAYOUTS, Layout
from regard.pretrained.imported import Imported
from regard.pretrained.language import with_frame
from regard.pretrained.tokenizer_files import byte_level
from regard.pretrained.weights import Weights

CONTROL = 3  # the type of tokens that are no text


def read(file: Path) -> Imported:
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError:
        raise CallError(f"{file} is a GGUF file: {pip_install('regard[pretrained]')} to read it") from None
    try:
        require_plausible(file)
        reader = GGUFReader(file)
        told = {name: field.contents() for name, field in reader.fields.items()}
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise RegardError(f"{file} cannot be read: {error}") from None
    kind = told.get("general.architecture")
    if kind not in LAYOUTS:
        raise CallError(f"{file}: general.architecture={kind!r} is not understood{nearest(str(kind), LAYOUTS)}")
    layout, where = LAYOUTS[kind], str(file)
    if told.get(f"{kind}.rope.scaling.type", "none") != "none":
        raise CallError(f"{where}: rotary positions that are stretched ({kind}.rope.scaling) are not understood")
    found = {name: told.get(f"{kind}.{key}") for name, key in layout.settings.items()}
    # A float32 of the file, in as many digits as it has: 1e-5, not 9.999999747378752e-06.
    found = {name: float(f"{value:.7g}") if isinstance(value, float) else value for name, value in found.items()}
    weights = Weights(dict(_tensors(reader, layout, found, where)), where)
    tree = {**found, **layout.fixed, "tie_word_embeddings": "lm_head.weight" not in weights}
    return layout.convert(
        ConfigFile(tree, where), weights, _tokenizer(told, file), str(told.get("general.name", file.stem))
    )


def _tensors(reader: Any, layout: Layout, config: dict[str, Any], where: str) -> list[tuple[str, Tensor]]:
    from gguf.quants import dequantize

    found = []
    for tensor in reader.tensors:
        try:
            values = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        except NotImplementedError as error:
            raise RegardError(f"{where}: {tensor.name} cannot be read: {error}") from None
        turned = layout.heads.get(tensor.name.split(".")[-2])
        if turned is not None:
            values = _halves(values, config[turned] or config[layout.heads["attn_q"]])
        found.append((layout.to_theirs(tensor.name), values))
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
