"""What a program without torch has to know of a run beside its graphs: `regard.light` reads it.

    config.yaml   the recipe: how inputs are read, and how outputs are searched for
    run.json      what the model itself decides: tokens around a text, regions of a picture, who attends to what

A run whose input or output `regard.light` does not have gets no `run.json`; its graphs serve other programs.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.api import CONFIG, Run
from regard.attention.role import Role
from regard.encoders.class_token import by_class_token
from regard.inputs.image.input import ImageInput
from regard.inputs.prompt.input import PromptInput
from regard.inputs.question.input import QuestionInput
from regard.inputs.series.input import SeriesInput
from regard.inputs.series.window_input import WindowInput
from regard.inputs.sound.input import SoundInput
from regard.inputs.text.input import TextInput
from regard.inputs.text.words import WordsInput
from regard.layers.pooling import attends
from regard.light.description import RUN_FILE
from regard.models.classifier import Classifier
from regard.outputs.labels.output import LabelsOutput
from regard.outputs.span.output import SpanOutput
from regard.outputs.tags.output import TagsOutput
from regard.outputs.text.continuation import Continuation
from regard.outputs.text.output import TextOutput
from regard.outputs.text.transcription import Transcription
from regard.outputs.vector.encode import VectorOutput

EXAMPLES = 6


def write_run_file(folder: Path, run: Run, inputs: Sequence[Any]) -> None:
    says, reads = _says(run), _reads(run, inputs)
    if says is None or reads is None:
        return
    roles = {name: getattr(module, "role", None) for name, module in run.model.named_modules()}
    about = {
        "says": says,
        "reads": reads,
        "attentions": {name: list(role[:2]) for name, role in roles.items() if isinstance(role, Role)},
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "scores": run.best_scores(),
        "examples": [run.job.input.word(one) for one in inputs[:EXAMPLES]] if run.job.input.kind == "text" else [],
    }
    (folder / RUN_FILE).write_text(json.dumps(about, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    shutil.copyfile(run.folder / CONFIG, folder / CONFIG)


def _says(run: Run) -> dict[str, Any] | None:
    output, model = run.job.output, run.model
    if isinstance(output, Transcription):
        return {"kind": "transcript"}
    if isinstance(output, TextOutput):
        return {"kind": "text"}
    if isinstance(output, Continuation):
        return {"kind": "continuation"}
    if isinstance(output, LabelsOutput) and isinstance(model, Classifier):
        return {"kind": "labels", "first": by_class_token(model.encoder, model.pooling)}
    others = {TagsOutput: "tags", VectorOutput: "vector", SpanOutput: "span"}
    return next(({"kind": name} for kind, name in others.items() if isinstance(output, kind)), None)


def _reads(run: Run, inputs: Sequence[Any]) -> dict[str, Any] | None:
    input, model = run.job.input, run.model
    if isinstance(input, TextInput):
        frame = input.frame
        longest = input.data.max_length - 1 if input.cuts else None
        kind = "words" if isinstance(input, WordsInput) else "text"
        return {"kind": kind, "first": frame.first, "end": frame.end, "pad": frame.pad, "longest": longest}
    if isinstance(input, QuestionInput):
        return {"kind": "question", "marked": input.marked, "pad": input.pad}
    if isinstance(input, PromptInput):
        return {"kind": "prompt"}
    if isinstance(input, ImageInput):
        item = input.read(inputs[0])
        if isinstance(model, Classifier) and not attends(model.pooling):
            item = input.inside(item)
        grid = list(item.grid or input.grid)
        return {"kind": "image", "grid": grid, "class_token": item.class_token}
    if isinstance(input, SeriesInput) and not isinstance(input, WindowInput):
        return {"kind": "series"}
    if isinstance(input, SoundInput):
        return {"kind": "sound", "reduction": input.times.reduction}
    return None
