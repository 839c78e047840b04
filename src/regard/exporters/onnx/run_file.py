"""Files of a run that a program without torch reads beside its graphs (`regard.light`).

config.yaml   the recipe: how inputs are read, and how outputs are decoded
run.json      facts of the model: tokens around a text, regions of a picture, axes of each attention
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.api import Run
from regard.attention.score import Role
from regard.encoders.image import by_class_token
from regard.inputs.base import Input
from regard.inputs.image.input import ImageInput
from regard.inputs.joint import JointInput
from regard.inputs.joint_reader import JointItem
from regard.inputs.prompt.input import PromptInput
from regard.inputs.question.input import QuestionInput
from regard.inputs.series.input import SeriesInput, WindowInput
from regard.inputs.sound.input import SoundInput
from regard.inputs.text.input import LabeledTextInput, TextInput, TwoTextsInput
from regard.inputs.text.words import WordsInput
from regard.layers.pooling import attends
from regard.light.session import RUN_FILE
from regard.models.classifier import Classifier
from regard.models.drawer import TextToImage
from regard.models.embedder import Embedder, TwoTowers
from regard.models.forecaster import Forecaster, PatchForecaster
from regard.settings.recipe import CONFIG
from regard.tasks.labels.output import LabelsOutput
from regard.tasks.picture.output import PictureOutput
from regard.tasks.span.output import SpanOutput
from regard.tasks.tags.output import TagsOutput
from regard.tasks.text.continuation import Continuation
from regard.tasks.text.output import TextOutput
from regard.tasks.text.transcription import Transcription
from regard.tasks.values.output import ValuesOutput
from regard.tasks.vector.encode import VectorOutput
from regard.tasks.vector.match import Match

EXAMPLES = 6
KINDS: dict[type, str] = {  # a class before its base class
    Transcription: "transcript", TextOutput: "text", Continuation: "continuation", LabelsOutput: "labels",
    TagsOutput: "tags", VectorOutput: "vector", SpanOutput: "span", ValuesOutput: "values", Match: "towers",
    PictureOutput: "drawing",
}  # fmt: skip


def write_run_file(folder: Path, run: Run, inputs: Sequence[Any]) -> None:
    input = run.job.input
    roles = {name: getattr(module, "role", None) for name, module in run.model.named_modules()}
    about = {
        "says": _says(run),
        "reads": _reads(input, run.model, next(iter(inputs), None)),
        "attentions": {name: list(role[:2]) for name, role in roles.items() if isinstance(role, Role)},
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "scores": run.best_scores(),
        "examples": [input.word(one) for one in inputs[:EXAMPLES]] if input.kinds == ("text",) else [],
    }
    (folder / RUN_FILE).write_text(json.dumps(about, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    shutil.copyfile(run.folder / CONFIG, folder / CONFIG)


def _says(run: Run) -> dict[str, Any]:
    output, model = run.job.output, run.model
    kind = next(name for kind, name in KINDS.items() if isinstance(output, kind))
    if isinstance(model, Classifier):
        return {"kind": kind, "first": by_class_token(model.encoder, model.pooling)}
    if isinstance(model, Embedder):
        joins = model.encoder.types is not None
        return {"kind": kind, "first": by_class_token(model.encoder, model.pooling), "joins": joins}
    if isinstance(model, Forecaster):
        return {"kind": kind, "patches": isinstance(model, PatchForecaster)}
    if isinstance(model, TextToImage):
        grid = list(model.tokenizer.grid)
        return {"kind": kind, "words": model.words, "text_length": model.text_length, "grid": grid}
    if isinstance(output, Match) and isinstance(model, TwoTowers):
        towers = {"image": model.image, "text": model.text}
        first = {side: by_class_token(tower.encoder, tower.pooling) for side, tower in towers.items()}
        return {
            "kind": kind, "scale": model.scale.item(), "first": first, "text": _reads(output.text, model, None)
        }  # fmt: skip
    return {"kind": kind}


TEXTS = {WordsInput: "words", TwoTextsInput: "texts", LabeledTextInput: "long text"}


def _reads(input: Input, model: Any, one: Any) -> dict[str, Any]:
    """Return the facts on the input; `one` is an example."""
    if isinstance(input, JointInput):
        both = zip(JointItem._fields, (input.first, input.second), input.read(one), strict=True)
        return {"kind": "two"} | {side: _reads(part, model, item) for side, part, item in both}
    if isinstance(input, TextInput):
        frame = input.frame
        kind = next((name for kind, name in TEXTS.items() if isinstance(input, kind)), "text")
        longest = None if kind == "text" and not input.cuts else input.data.max_length - 1
        return {"kind": kind, "first": frame.first, "end": frame.end, "pad": frame.pad, "longest": longest}
    if isinstance(input, QuestionInput):
        return {"kind": "question", "marked": input.marked, "pad": input.pad}
    if isinstance(input, ImageInput):
        item = input.read(one)
        if isinstance(model, Classifier) and not attends(model.pooling):
            item = input.inside(item)
        grid = list(item.grid or input.grid)
        return {"kind": "image", "grid": grid, "class_token": item.class_token}
    if isinstance(input, SoundInput):
        return {"kind": "sound", "reduction": input.times.reduction}
    if isinstance(input, SeriesInput):
        return {"kind": "windows" if isinstance(input, WindowInput) else "series"}
    assert isinstance(input, PromptInput)
    return {"kind": "prompt"}
