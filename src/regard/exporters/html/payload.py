"""Data of a run for its page, beside the weights: how inputs are read and outputs are written."""

import base64
import json
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.score import Role
from regard.data.tokenizer import Tokenizer
from regard.encoders.image import by_class_token
from regard.exporters.base import RefusalError
from regard.inputs.image.input import ImageInput
from regard.inputs.prompt.input import PromptInput
from regard.inputs.text.input import LabeledTextInput, TextInput
from regard.layers.feed_forward import FUNCTIONS, Dropout, WordDropout
from regard.models.classifier import Classifier
from regard.special_tokens import PAD, START, UNK
from regard.tasks.labels.output import LabelsOutput
from regard.tasks.text.continuation import Continuation
from regard.tasks.text.output import TextOutput

# A model as a tree of modules for the browser runtime: class, settings, parameters, parts.
#
# This code knows no job. A Python module is stored under its names, and `runtime/` has a class of the same name with
# the same equation. Modules without such a class raise a RefusalError with their name.

# The classes of the runtime, and the buffers that each needs. Other buffers are computed again.
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
SILENT = (Dropout, nn.Dropout, nn.Dropout2d, WordDropout)  # no effect outside of training


class Numbers(NamedTuple):
    """All parameters in one array; shared parameters are stored once."""

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
    """Return the attributes of a module that are numbers, strings or lists of them."""
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


BERT = ["BertNormalizer", "BertPreTokenizer"]  # the split before WordPiece


@runtime_checkable
class HasModel(Protocol):
    """The parts of a run that a page needs."""

    @property
    def job(self) -> Any: ...
    @property
    def model(self) -> nn.Module: ...
    @property
    def recipe(self) -> Any: ...


def payload(run: HasModel, precision: str = "float16") -> dict[str, Any]:
    tree, numbers = module_tree(run.model)
    written = base64.b64encode(numbers.bytes(np.float16 if precision == "float16" else np.float32)).decode()
    return {
        "model": {"tree": tree, "shapes": numbers.shapes(), "type": precision, "numbers": written},
        "input": described_input(run),
        "output": described_output(run),
    }


def described_input(run: HasModel) -> dict[str, Any]:
    given = run.job.input
    if isinstance(given, ImageInput):
        data = given.data
        return {"kind": "image", "height": data.height, "width": data.width, "channels": data.channels, "fit": data.fit}
    if isinstance(given, PromptInput):
        return {"kind": "prompt", "tokenizer": tokenizer(given.tokenizer), "first": given.read("").ids}
    if type(given) in (TextInput, LabeledTextInput):
        frame, long = given.frame, type(given) is LabeledTextInput
        cut = given.data.max_length - 1 if given.cuts or long else None
        first = [] if frame.first is None else [frame.first]
        return {
            "kind": "text", "tokenizer": tokenizer(given.tokenizer), "first": first, "end": frame.end,
            "max_length": cut, "windows": long,
        }  # fmt: skip
    kinds = " and ".join(given.kinds)
    raise RefusalError(f"a page supports one text or one picture as input, not {kinds}")


def described_output(run: HasModel) -> dict[str, Any]:
    made, recipe = run.job.output, run.recipe
    if isinstance(made, LabelsOutput):
        model = run.model
        assert isinstance(model, Classifier)
        labels = made.labels
        return {
            "kind": "labels", "names": list(labels.names), "several": labels.several,
            "threshold": recipe.decoding.threshold, "separator": labels.writing.separator,
            "class_token": by_class_token(model.encoder, model.pooling), "grid": getattr(model.encoder, "grid", None),
        }  # fmt: skip
    if isinstance(made, Continuation):
        special = made.tokenizer.specials
        never = sorted({special.pad, special.unk, special.start} - {special.end, None})  # pyright: ignore[reportArgumentType]
        return {
            "kind": "continuation", "tokenizer": tokenizer(made.tokenizer), "context": made.context,
            "max_length": min(40, recipe.decoding.max_length), "end": special.end, "forbidden": never,
            "first": len(made.input.read("").ids),
        }  # fmt: skip
    if isinstance(made, TextOutput):
        how = recipe.decoding
        if how.coverage_penalty or how.sample:
            raise RefusalError("a page writes by beam search, without decoding.coverage_penalty and decoding.sample")
        return {
            "kind": "text", "tokenizer": tokenizer(made.tokenizer), "beam": how.beam, "n_best": how.n_best,
            "alpha": how.length_penalty, "gnmt": False, "max_length": how.max_length, "min_length": how.min_length,
            "forbidden": [PAD, START] if how.unknown else [PAD, START, UNK],
        }  # fmt: skip
    raise RefusalError(f"a page cannot write {made.unit}: only text and labels")


def tokenizer(one: Tokenizer) -> dict[str, Any]:
    """Return a vocabulary in the form that the runtime reads."""
    spec = json.loads(one.to_json())
    as_bert = [(spec[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer")] == BERT
    unknown = one.specials.unk is None and one.kind not in ("byte", "bytes")
    if unknown or (one.kind == "wordpiece" and not as_bert):
        raise RefusalError(f"the runtime for browsers does not support this tokenizer of kind {one.kind}")
    model, normalizer = spec["model"], json.dumps(spec["normalizer"])
    vocabulary, scores = model["vocab"], []
    if isinstance(vocabulary, dict):
        pieces = [""] * one.size
        for piece, index in vocabulary.items():
            pieces[index] = piece
    else:
        pieces, scores = [piece for piece, _ in vocabulary], [score for _, score in vocabulary]
    return {
        "kind": one.kind, "lowercase": '"Lowercase"' in normalizer,
        "normalizer": spec["normalizer"] if as_bert else None, "vocabulary": pieces, "scores": scores,
        "merges": [pair if isinstance(pair, str) else " ".join(pair) for pair in model.get("merges", [])],
        "specials": sorted(index for index in one.specials.names if index is not None), "unk": one.specials.unk,
    }  # fmt: skip
