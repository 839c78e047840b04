"""An export with the interface of `regard.api.Run`, as far as its graphs allow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from regard import config
from regard.catalog import load_object
from regard.data.labels import Example
from regard.errors import CallError
from regard.light.inputs import LightInput
from regard.light.session import Description
from regard.look.records import AttentionRecord
from regard.settings.recipe import Recipe
from regard.tasks.result import LookOptions, Looks, Overrides, Prediction, refuse, require_pairs
from regard.work import Answers, Take, at_once

#: The class of each kind of input and of output. Only the classes that an export needs are loaded.
INPUTS = {
    "text": "regard.light.inputs:LightText",
    "long text": "regard.light.inputs:LightLongText",
    "texts": "regard.light.inputs:LightTwoTexts",
    "words": "regard.light.outputs:LightWords",
    "prompt": "regard.light.inputs:LightPrompt",
    "image": "regard.light.inputs:LightPicture",
    "sound": "regard.light.inputs:LightSound",
    "question": "regard.light.outputs:LightQuestion",
    "series": "regard.light.inputs:LightSeries",
    "windows": "regard.light.inputs:LightWindows",
    "two": "regard.light.inputs:LightJoint",
}
OUTPUTS = {
    "text": "regard.light.writing:LightWriter",
    "transcript": "regard.light.writing:LightTranscripts",
    "continuation": "regard.light.continuation:LightContinuation",
    "labels": "regard.light.outputs:LightLabels",
    "tags": "regard.light.outputs:LightTags",
    "vector": "regard.light.outputs:LightVectors",
    "span": "regard.light.outputs:LightSpans",
    "values": "regard.light.outputs:LightValues",
    "towers": "regard.light.drawings:LightMatches",
    "drawing": "regard.light.drawings:LightDrawings",
}


def every_kind() -> list[type]:
    """Load all classes, for compilation."""
    return [_class(path) for path in (*INPUTS.values(), *OUTPUTS.values())]


def _class(path: str) -> Any:
    return load_object(path)


class LightJob(NamedTuple):
    input: Any
    output: Any


def load(folder: str | Path) -> "OnnxRun":
    """Load an ONNX export from its folder."""
    about = Description.of(Path(folder))
    for kinds, found in ((INPUTS, about.reads["kind"]), (OUTPUTS, about.says["kind"])):
        if found not in kinds:
            raise CallError(f"{folder} was written by another version of regard: unknown kind {found!r}")
    input = _input(about)
    return OnnxRun(about, about.recipe, LightJob(input, _class(OUTPUTS[about.says["kind"]])(about, input)))


def _input(about: Description) -> LightInput:
    """Create the input; a joint input has two."""
    both = [_input(replace(about, reads=part)) for part in about.reads.values() if isinstance(part, dict)]
    return _class(INPUTS[about.reads["kind"]])(about, *both)


@dataclass(frozen=True)
class OnnxRun(Looks):
    about: Description
    recipe: Recipe
    job: LightJob

    @property
    def folder(self) -> Path:
        return self.about.folder

    @property
    def weight_files(self) -> list[Path]:
        """Return all files that an output depends on."""
        return sorted(self.folder.glob("*.onnx*"))

    @property
    def parameters(self) -> int:
        return self.about.parameters

    @property
    def methods(self) -> list[str]:
        """Return the methods of looking: only the raw weights."""
        return ["raw"]

    @property
    def explanations(self) -> list[str]:
        return []

    def predict(
        self,
        inputs: Any,
        overrides: Overrides = (),
        *,
        prefix: str = "",
        attention: bool = False,
        without: Sequence[str] = (),
        workers: int | None = 1,
        **decoding: Any,
    ) -> Any:
        """Predict: one input gives one prediction, a list gives a list. Decoding options are `beam=1`, `n_best=3`,
        ...
        """
        output = self._with(overrides, decoding)
        _refuse_heads(without)
        refuse(self.recipe.job, output, prefix=prefix, attention=attention)
        self.count_workers(workers, None)
        single = self.job.input.is_one(inputs)
        found = output.predict([inputs] if single else list(inputs), prefix=prefix, attention=attention)
        return found[0] if single else found

    def predict_arriving(
        self, take: Take, *, parse: Callable[[Any], Any] = lambda one: one, prefix: str = "", **decoding: Any
    ) -> Answers:
        """Yield (arrived, prediction) for inputs that arrive while others are processed (`regard.work`)."""
        return at_once(lambda some: self.predict([parse(one) for one in some], prefix=prefix, **decoding), take)

    def count_workers(self, workers: int | None, inputs: int | None, overrides: Overrides = ()) -> int:
        """Return one: ONNX Runtime uses threads."""
        if workers is not None and workers > 1:
            raise CallError(f"workers={workers}: ONNX Runtime already uses all cores; remove workers")
        return 1

    def stream(
        self,
        text: Any,
        on_text: Callable[[str, str], None],
        overrides: Overrides = (),
        *,
        prefix: str = "",
        **decoding: Any,
    ) -> Prediction:
        """Predict one input and call `tell(piece, text so far)` during generation. An exception in `on_text` ends the
        work.
        """
        return self._with(overrides, decoding).stream(text, on_text, prefix=prefix)

    def score(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Prediction]:
        """Return the log-probability of each given output."""
        require_pairs(len(inputs), len(outputs))
        found = self.job.output.score_outputs(inputs, outputs)
        return [Prediction(self.job.input.name(one), [said]) for one, said in zip(inputs, found, strict=True)]

    def _make_record(
        self, text: Any, overrides: Overrides, options: LookOptions, without: Sequence[str], decoding: Mapping[str, Any]
    ) -> AttentionRecord:
        method, instead = options.method, options.instead
        if options.sample and "sample" not in decoding:
            raise CallError(f"sample=True: look on an export explains the most probable output only; {_ASK}")
        if method != "raw" or options.evidence or instead is not None:
            asked = f"method={method!r}" if method != "raw" else "evidence" if options.evidence else f"{instead=}"
            raise CallError(f"{asked} needs the PyTorch model, and an export has attention weights only: {_ASK}")
        changed = self._with(overrides, decoding)
        _refuse_heads(without)
        refuse(self.recipe.job, changed, prefix=options.prefix, gold=options.gold)
        told = {"model": options.name, "forced": options.output is not None}
        best, *others = (
            replace(one, input=one.input or self.job.input.name(text), **told)
            for one in changed.look(text, options.output, options.prefix)
        )
        record = replace(best, gold=options.gold, beams=tuple(others))
        record.matrix(None, options.layer, options.head)  # raises for a missing layer or head
        return record

    def explain(self, *_: Any, **__: Any) -> NoReturn:
        raise CallError(f"an export cannot be explained: {_ASK}")

    def weight(self, *_: Any, **__: Any) -> NoReturn:
        raise CallError(f"an export cannot trace a weight: {_ASK}")

    def head_profile(self, *_: Any, **__: Any) -> NoReturn:
        raise CallError(f"an export has no head profiles: {_ASK}")

    role_history = head_profile

    def examples(self, most: int = 6) -> list[Example]:
        """Return some inputs of the validation part, if they are texts."""
        return [Example(text, ()) for text in self.about.examples[:most]]

    def has_history_of_looks(self) -> bool:
        return False

    def best_scores(self) -> dict[str, float]:
        """Return the best validation scores of training by name."""
        return self.about.scores

    def _with(self, overrides: Overrides, decoding: Mapping[str, Any]) -> Any:
        if not overrides and not decoding:
            return self.job.output
        recipe = config.apply_overrides(self.recipe, overrides, {"decoding": decoding}, str(self.folder))
        return self.job.output.with_recipe(recipe)


def _refuse_heads(without: Sequence[str]) -> None:
    if without:
        raise CallError(f"without={without[0]!r}: heads of an export cannot be masked; {_ASK}")


_ASK = "use the exported run with PyTorch"
