"""What a page needs of a run beside its numbers: how an input is read, and how an output is written."""

import base64
import json
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import nn

from regard.data.tokenizer import Tokenizer
from regard.encoders.class_token import by_class_token
from regard.exporters.base import RefusalError
from regard.exporters.html.module_tree import module_tree
from regard.inputs.image.input import ImageInput
from regard.inputs.prompt.input import PromptInput
from regard.inputs.text.input import TextInput
from regard.models.classifier import Classifier
from regard.outputs.labels.output import LabelsOutput
from regard.outputs.text.continuation import Continuation
from regard.outputs.text.output import TextOutput
from regard.special_tokens import PAD, START, UNK

BERT = ["BertNormalizer", "BertPreTokenizer"]  # how text is cut before WordPiece


@runtime_checkable
class HasModel(Protocol):
    """As much of a run as a page needs."""

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
    if type(given) is TextInput:
        frame, cut = given.frame, given.data.max_length - 1 if given.cuts else None
        first = [] if frame.first is None else [frame.first]
        return {
            "kind": "text", "tokenizer": tokenizer(given.tokenizer), "first": first, "end": frame.end, "max_length": cut
        }  # fmt: skip
    kinds = " and ".join(given.kinds)
    raise RefusalError(f"a page takes one text or one picture, and what comes in here is something else ({kinds})")


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
    raise RefusalError(f"a page cannot write {made.unit} yet: text and labels only")


def tokenizer(one: Tokenizer) -> dict[str, Any]:
    """A vocabulary as the runtime reads it."""
    spec = json.loads(one.to_json())
    as_bert = [(spec[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer")] == BERT
    unknown = one.specials.unk is None and one.kind not in ("byte", "bytes")
    if unknown or (one.kind == "wordpiece" and not as_bert):
        raise RefusalError(f"the runtime for browsers does not know such tokenizers of kind {one.kind}")
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
