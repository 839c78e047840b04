"""A model as a tree of modules that the runtime for browsers builds again: class, settings, parameters, parts.

Nothing here knows a job. A module of Python is written down under its own names, and `runtime/` has a class of the same
name with the same equation. What it has no class for is refused by name.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.role import Role
from regard.exporters.base import RefusalError
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import FUNCTIONS
from regard.layers.word_dropout import WordDropout

# The classes of the runtime, and the buffers that each needs. What another buffer holds is computed again.
KNOWN: dict[str, tuple[str, ...]] = dict.fromkeys(
    (
        "Additive", "Attended", "Attention", "AttentionPooling", "Bert", "Bilinear", "Block", "Captioner", "Classifier",
        "Concat", "Conv2d", "Convolution", "ConvNet", "Cosine", "Dot", "Embedding", "FeedForward", "Gate", "GroupNorm",
        "GRU", "Identity", "LanguageModel", "LayerNorm", "Learned", "Linear", "LSTM", "MultiHead", "Pooling",
        "PositionAttention", "RecurrentDecoder", "RecurrentEncoder", "RelativeBias", "RMSNorm", "ScaledDot", "Seq2Seq",
        "Sequential", "Sinusoidal", "SinusoidalGrid", "TransformerDecoder", "TransformerEncoder", "Trilinear",
        "VisionTransformer",
    ),
    (),
) | {"Alibi": ("slopes",), "PictureEncoder": ("mean", "deviation"), "Rotary": ("frequency",)}  # fmt: skip
SILENT = (Dropout, nn.Dropout, nn.Dropout2d, WordDropout)  # they do nothing outside of training


class Numbers(NamedTuple):
    """All parameters, one after the other; what is shared stands there once."""

    tensors: list[Tensor]
    places: dict[int, int]

    def place(self, tensor: Tensor) -> int:
        key = id(tensor)
        if key not in self.places:
            self.places[key] = len(self.tensors)
            self.tensors.append(tensor)
        return self.places[key]

    def shapes(self) -> list[list[int]]:
        return [list(tensor.shape) or [1] for tensor in self.tensors]

    def bytes(self, dtype: Any = np.float16) -> bytes:
        return b"".join(t.detach().float().cpu().numpy().astype(dtype).tobytes() for t in self.tensors)


def module_tree(model: nn.Module) -> tuple[dict[str, Any], Numbers]:
    numbers = Numbers([], {})
    return _tree(model, numbers, ""), numbers


def _tree(module: nn.Module, numbers: Numbers, name: str) -> Any:
    if isinstance(module, SILENT):
        return {"class": "Identity", "settings": {}, "parameters": {}, "parts": {}}
    if isinstance(module, nn.ModuleList):
        return [_tree(part, numbers, f"{name}.{n}") for n, part in enumerate(module)]
    kind = type(module).__name__
    if kind not in KNOWN:
        raise RefusalError(f"the runtime for browsers has no {kind} ({name})")
    parameters = {key: numbers.place(one) for key, one in module.named_parameters(recurse=False)}
    parameters |= {key: numbers.place(getattr(module, key)) for key in KNOWN[kind]}
    parts: dict[str, Any] = {}
    for key, part in module._modules.items():
        if isinstance(part, nn.Embedding):
            parameters[key] = numbers.place(part.weight)
        elif part is None:
            parts[key] = None
        else:
            parts[key] = _tree(part, numbers, f"{name}.{key}".lstrip("."))
    if isinstance(module, nn.Sequential):
        parts = {"parts": list(parts.values())}
    return {"class": kind, "settings": _settings(module), "parameters": parameters, "parts": parts}


def _settings(module: nn.Module) -> dict[str, Any]:
    """Numbers, words and lists of them that a module has as attributes."""
    found: dict[str, Any] = {}
    for key, value in vars(module).items():
        if isinstance(value, Role):
            found[key] = value._asdict()
        elif not key.startswith("_") and key != "training" and _plain(value):
            found[key] = value
        elif key == "activation":
            found[key] = next(name for name, function in FUNCTIONS.items() if function is value)
    return found


def _plain(value: object) -> bool:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(_plain(one) for one in value)
    return value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, torch.dtype))
