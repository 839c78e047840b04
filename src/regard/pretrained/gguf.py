"""Read GGUF, the files of llama.cpp: settings, tokenizer and weights in one, the weights usually quantized.

Quantized weights are dequantized to float32. Rows of queries and keys are reordered as in Hugging Face's files:
llama.cpp's rotary positions rotate neighboring features, Llama's original files rotate halves.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from regard.errors import CallError, RegardError, nearest, pip_install
from regard.pretrained import language
from regard.pretrained.language import with_frame
from regard.pretrained.sources import ConfigFile
from regard.pretrained.tokenizer_files import byte_level
from regard.pretrained.weights import Imported, Weights

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # type → bytes of a number
STRING, ARRAY = 8, 9
DIMENSIONS = 4  # at most


def require_plausible(file: Path) -> None:
    """Raise a `RegardError` unless all counts in the header of a GGUF file fit into the file.

        "GGUF", version, tensors, fields;   a field: name, type, value;   a tensor: name, dimensions, type, place

    https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """
    with file.open("rb") as handle:
        head = _Head(handle, file)
        if handle.read(4) != b"GGUF":
            raise RegardError(f"{file} is not a GGUF file")
        head.number("I")
        tensors, fields = head.number("Q"), head.number("Q")
        for _ in range(fields):
            head.skip(head.number("Q"))
            head.skip_value(head.number("I"))
        for _ in range(tensors):
            head.skip(head.number("Q"))
            dimensions = head.number("I")
            if dimensions > DIMENSIONS:
                raise RegardError(f"{file} is damaged: a tensor with {dimensions:,} dimensions")
            head.skip(8 * dimensions + 4 + 8)


class _Head:
    def __init__(self, handle: BinaryIO, file: Path) -> None:
        self._handle, self._file, self._size = handle, file, file.stat().st_size

    def number(self, form: str) -> int:
        size = struct.calcsize(form)
        found = self._handle.read(size)
        if len(found) < size:
            raise self._cut_short()
        return struct.unpack(f"<{form}", found)[0]

    def skip(self, count: int) -> None:
        if count > self._size - self._handle.tell():
            raise self._cut_short()
        self._handle.seek(count, 1)

    def skip_value(self, kind: int) -> None:
        if kind == STRING:
            self.skip(self.number("Q"))
        elif kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner == STRING:
                for _ in range(count):
                    self.skip(self.number("Q"))
            else:
                self.skip(count * self._bytes(inner))
        else:
            self.skip(self._bytes(kind))

    def _bytes(self, kind: int) -> int:
        if kind not in SIZES:
            raise RegardError(f"{self._file} is damaged: unknown type {kind}")
        return SIZES[kind]

    def _cut_short(self) -> RegardError:
        return RegardError(f"{self._file} cannot be read: its header describes more data than the file holds")


# Names of settings and weights in llama.cpp and in Hugging Face's files, for import and export.

_SIZES = ("embedding_length", "feed_forward_length", "block_count", "attention.head_count", "context_length")


@dataclass(frozen=True)
class GgufLayout:
    """Names of one architecture.

    settings   name in config.json → key of the file, after the architecture
    fixed      settings that are the same for all such files, and not stored
    block      llama.cpp's name → Hugging Face's, for layers in a block; `whole`: for other layers
    blocks     Hugging Face's prefix of the names of blocks
    heads      llama.cpp's names of maps whose features are rotated in pairs → the setting with the number of heads
    """

    settings: Mapping[str, str]
    fixed: Mapping[str, Any]
    block: Mapping[str, str]
    whole: Mapping[str, str]
    blocks: str
    heads: Mapping[str, str]
    convert: Callable[..., Imported]

    def to_theirs(self, name: str) -> str:
        """Convert llama.cpp's name of a weight to Hugging Face's."""
        *place, part, kind = name.split(".")
        layer = f"{self.blocks}.{place[1]}.{self.block.get(part, part)}" if place else self.whole.get(part, part)
        return f"{layer}.{kind}"

    def to_gguf(self, name: str) -> str:
        """Convert Hugging Face's name of a weight to llama.cpp's."""
        layer, _, kind = name.rpartition(".")
        whole = {theirs: part for part, theirs in self.whole.items()}
        if layer in whole:
            return f"{whole[layer]}.{kind}"
        number, _, rest = layer.removeprefix(f"{self.blocks}.").partition(".")
        part = next(part for part, theirs in self.block.items() if theirs == rest)
        return f"blk.{number}.{part}.{kind}"


LAYOUTS = {
    "llama": GgufLayout(
        settings={
            **dict(zip(("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                        "max_position_embeddings"), _SIZES, strict=True)),
            "num_key_value_heads": "attention.head_count_kv", "rms_norm_eps": "attention.layer_norm_rms_epsilon",
            "rope_theta": "rope.freq_base", "head_dim": "rope.dimension_count",
        },
        fixed={"hidden_act": "silu"},
        block={
            "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
            "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
        },
        whole={"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head"},
        blocks="layers",
        heads={"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"},
        convert=language.convert_llama,
    ),
    "gpt2": GgufLayout(
        settings={
            **dict(zip(("n_embd", "n_inner", "n_layer", "n_head", "n_positions"), _SIZES, strict=True)),
            "layer_norm_epsilon": "attention.layer_norm_epsilon",
        },
        fixed={"activation_function": "gelu_new"},
        block={
            "attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
            "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj",
        },
        whole={"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f", "output": "lm_head"},
        blocks="h",
        heads={},
        convert=language.convert_gpt2,
    ),
}  # fmt: skip


CONTROL = 3  # type of tokens that are not text


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
        raise CallError(f"{file}: general.architecture={kind!r} is not supported{nearest(str(kind), LAYOUTS)}")
    layout, where = LAYOUTS[kind], str(file)
    if told.get(f"{kind}.rope.scaling.type", "none") != "none":
        raise CallError(f"{where}: scaled rotary positions ({kind}.rope.scaling) are not supported")
    found = {name: told.get(f"{kind}.{key}") for name, key in layout.settings.items()}
    # Round a float32 of the file to its significant digits: 1e-5, not 9.999999747378752e-06.
    found = {name: float(f"{value:.7g}") if isinstance(value, float) else value for name, value in found.items()}
    weights = Weights(dict(_tensors(reader, layout, found, where)), where)
    tree = {**found, **layout.fixed, "tie_word_embeddings": "lm_head.weight" not in weights}
    return layout.convert(
        ConfigFile(tree, where), weights, _tokenizer(told, file), str(told.get("general.name", file.stem))
    )


def _tensors(reader: Any, layout: GgufLayout, config: dict[str, Any], where: str) -> list[tuple[str, Tensor]]:
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
    """Reorder features 0 1 2 3 … of a head, rotated in neighboring pairs, to 0 2 … 1 3 …, rotated in halves."""
    return rows.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _tokenizer(told: dict[str, Any], file: Path) -> Any:
    model = told.get("tokenizer.ggml.model")
    if model != "gpt2":
        raise CallError(f"{file}: tokenizer.ggml.model={model!r} is not supported; only 'gpt2', BPE over bytes, is")
    names, types = told["tokenizer.ggml.tokens"], told["tokenizer.ggml.token_type"]
    specials = [name for name, kind in zip(names, types, strict=True) if kind == CONTROL]
    entries = {name: index for index, name in enumerate(names)}
    tokenizer = byte_level(entries, told["tokenizer.ggml.merges"], told.get("tokenizer.ggml.pre", "default"), specials)
    return with_frame(tokenizer, told.get("tokenizer.ggml.bos_token_id"), told.get("tokenizer.ggml.eos_token_id"))
