"""Export a run as ONNX graphs, with files that define how inputs become tensors.

Seq2Seq            encoder, decoder (one step), scorer      `seq2seq.py`
LanguageModel      decoder (any number of steps)            `seq2seq.py`
all others         one graph for each call                  `graph.py`
"""

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard import api
from regard.api import Run
from regard.data.batches import pad_sentences
from regard.errors import CallError
from regard.exporters.base import Comparison, ExportPlan, ExportRequest, Format, RefusalError
from regard.exporters.onnx import seq2seq
from regard.exporters.onnx import seq2seq as language
from regard.exporters.onnx.graph import OPSET, Graph, arguments, calls_of, with_operators
from regard.exporters.onnx.run_file import write_run_file
from regard.exporters.onnx.stand_in import GraphSeq2Seq, stand_in
from regard.exporters.proof import (
    TOLERANCE,
    WRITTEN,
    certain_job,
    certain_recipe,
    compare_texts,
    difference,
    greedy_tokens,
    is_tie,
    suppressed_ids,
    tied_at,
    worst,
)
from regard.generation.sampling import SamplingState, generate
from regard.light.run import load
from regard.models.drawer import TextToImage
from regard.models.embedder import Embedder, TwoTowers
from regard.models.forecaster import Forecaster
from regard.models.language_model import LanguageModel
from regard.models.seq2seq import Seq2Seq

HELPERS = ("language_model", "rerank")  # of `decoding`


def helpers(run: Run) -> Iterator[tuple[str, ExportRequest]]:
    """Yield the auxiliary models of a run (`auxiliary_models.py`), to export into folders named after their settings.

    They are always float32: the cost of other dtypes is measured for the run alone.
    """
    how = getattr(run.recipe, "decoding", None)
    for name in HELPERS:
        if (folder := getattr(how, name, None)) is not None:
            other = api.load(folder)
            yield name, ExportRequest(other, inputs=_examples(other))


def _examples(run: Run) -> list[Any]:
    """Return inputs to trace graphs with: any pictures; none for texts."""
    data: Any = run.recipe.data
    if run.job.input.kind != "image":
        return []
    chance = np.random.default_rng(0)
    return [chance.integers(0, 256, (data.height, data.width, data.channels), np.uint8) for _ in range(2)]


GRAPHS = "graphs.json"


class Onnx(Format):
    name: ClassVar[str] = "onnx"
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "int8")
    writes: ClassVar[tuple[str, ...]] = ("onnx", "onnxscript", "onnxruntime")
    traces: ClassVar[bool] = True
    gives_attention: ClassVar[bool] = True

    def plan(self, request: ExportRequest) -> ExportPlan:
        model = request.run.model
        if getattr(getattr(request.run.recipe, "decoding", None), "coverage_penalty", 0.0) and not request.attention:
            raise CallError("decoding.coverage_penalty needs attention weights: remove --no-attention")
        if isinstance(model, Seq2Seq):
            return SearchPlan(request)
        if isinstance(model, LanguageModel):
            return ContinuationPlan(request)
        if calls_of(model):
            return CallsPlan(request)
        raise RefusalError(f"there is no ONNX graph for {type(model).__name__}")


class GraphPlan(ExportPlan):
    library = "onnx"
    searches = True
    how = (
        "regard predict FOLDER INPUT   # also look and serve; without PyTorch: pip install 'regard[light]'\n"
        'onnxruntime.InferenceSession("FOLDER/NAME.onnx")   # inputs, outputs and their shapes: graphs.json'
    )

    def __init__(self, request: ExportRequest) -> None:
        self.wish, self.run = request, request.run
        self.input = request.run.job.input

    @abstractmethod
    def graphs(self) -> list[Graph]:
        """Return the graphs; the runtime loads each of them separately."""

    def constants(self) -> dict[str, float]:
        """Return the constants that a user of the graphs needs."""
        return {}

    def examples(self) -> list[Any]:
        """Return the two longest inputs, to trace the graphs with."""
        return sorted(self.wish.inputs, key=lambda one: self.input.length(self.input.read(one)))[-2:] * 2

    def write(self, folder: Path) -> None:
        about: dict[str, Any] = {"opset": OPSET, "dtype": self.wish.dtype}
        made = self.graphs()
        for graph in made:
            graph.write(folder, self.wish.dtype)
        about |= {"graphs": {graph.name: graph.about() for graph in made}, "constants": self.constants()}
        (folder / GRAPHS).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        self.run.job.save(folder)  # tokenizers, labels, scales
        write_run_file(folder, self.run, self.wish.inputs)
        for name, other in helpers(self.run):
            (folder / name).mkdir()
            Onnx().plan(other).write(folder / name)

    def stand_in(self, folder: Path) -> nn.Module:
        return stand_in(self.run.model, folder)

    def source(self, inputs: Sequence[Any]) -> Any:
        return self.input.collate([self.input.read(one) for one in inputs])


def growing(inputs: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield batches of one, two, three, … inputs: sizes that the graphs were not traced with."""
    done, size = 0, 1
    while done < len(inputs):
        yield inputs[done : done + size]
        done, size = done + size, size + 1


class CallsPlan(GraphPlan):
    """Plan of a model that predicts in one call. A text-to-image model generates its codes first."""

    def __init__(self, request: ExportRequest) -> None:
        super().__init__(request)
        self.output = certain_job(request.run, own=True).output

    def graphs(self) -> list[Graph]:
        model, some, attention = self.run.model, self.examples()[:2], self.wish.attention
        found = [call.to_graph(model, arguments(self.run, call, some), attention) for call in calls_of(model)]
        return (
            [*language.language_model_graphs(model.writer, attention), *found]
            if isinstance(model, TextToImage)
            else found
        )

    def constants(self) -> dict[str, float]:
        model = self.run.model
        if isinstance(model, TextToImage):
            return {"words": model.words, "text_length": model.text_length, "regions": model.regions}
        return {"scale": model.scale.item()} if isinstance(model, TwoTowers) else {}

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        own, other = self.run.model, self.stand_in(folder)
        for group in growing(inputs):
            with torch.inference_mode():
                ours, theirs = (self.numbers(model, group) for model in (own, other))
            told = zip(group, self.say(own, group), self.say(other, group), strict=True)
            for row, (one, mine, its) in enumerate(told):
                apart = worst(difference(ours[name][row], theirs[name][row], name) for name in ours)
                yield Comparison(self.input.name(one), *apart, mine, its, is_tie(self.run, one, mine, its))

    def numbers(self, model: nn.Module, inputs: Sequence[Any]) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for call in calls_of(self.run.model):
            told = call.ask(model, arguments(self.run, call, inputs))
            found |= {f"{call.graph}: {name}": one for name, one in zip(call.outputs, told, strict=True)}
        return found

    def say(self, model: nn.Module, inputs: Sequence[Any]) -> list[str]:
        """Return the outputs as texts to compare; empty for outputs that are only numbers."""
        if isinstance(model, Embedder | Forecaster):
            return [""] * len(inputs)
        return [one.text for one in self.output.predict(model, inputs)]


class SearchPlan(GraphPlan):
    def graphs(self) -> list[Graph]:
        model = with_operators(self.run.model)
        assert isinstance(model, Seq2Seq)
        return seq2seq.seq2seq_graphs(model, self.source(self.examples()[:2]), self.wish.attention)

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        """Compare logits by the graphs, and texts by `regard predict`, of the run and of its export."""
        model, other, light = self.run.model, self.stand_in(folder), load(folder)
        assert isinstance(model, Seq2Seq)
        assert isinstance(other, GraphSeq2Seq)
        output: Any = certain_job(self.run, own=True).output
        exported = light.job.output.with_recipe(certain_recipe(light.recipe))
        for group in growing(inputs):
            items = [self.input.read(one) for one in group]
            found = output.search(model, items), exported.search(items)
            pairs = [(ours[0], theirs[0]) for ours, theirs in zip(*found, strict=True)]
            source, target = self.source(group), pad_sentences([ours.tokens for ours, _ in pairs])
            with torch.inference_mode():
                expected = model.output(model.features(model.encode(source), target))
                tables = {"logits of a step": other.features(other.encode(source), target)}
                scored = other.note_scores(source, target)
            tables |= {} if scored is None else {"logits": scored}
            for row, (one, (ours, theirs)) in enumerate(zip(group, pairs, strict=True)):
                steps = len(ours.tokens) + 1
                apart = worst(
                    difference(expected[row, :steps], table[row, :steps], name) for name, table in tables.items()
                )
                mine, its, parted = compare_texts(self.run, one, (ours.tokens, theirs.tokens))
                parted = parted or (mine != its and abs(ours.score - theirs.score) <= TOLERANCE)
                yield Comparison(self.input.name(one), *apart, mine, its, parted)


class ContinuationPlan(GraphPlan):
    def graphs(self) -> list[Graph]:
        assert isinstance(self.run.model, LanguageModel)
        return language.language_model_graphs(self.run.model, self.wish.attention)

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        model, other = self.run.model, self.stand_in(folder)
        assert isinstance(model, LanguageModel)
        assert isinstance(other, LanguageModel)
        tokenizer, context = self.run.job.input.tokenizer, self.run.recipe.model.context  # pyright: ignore[reportAttributeAccessIssue]
        for group in growing(inputs):
            read = [list(self.input.read(text).ids[-context + WRITTEN :]) for text in group]
            theirs: list[list[int]] = [[] for _ in group]
            for one in generate(
                other, read, SamplingState(temperature=0), context=context, max_length=WRITTEN,
                end=tokenizer.specials.end, forbidden=suppressed_ids(tokenizer.specials), device=torch.device("cpu"),
            ):  # fmt: skip
                theirs[one.row].append(one.token)
            for text, begun, its in zip(group, read, theirs, strict=True):
                own = greedy_tokens(self.run, begun, WRITTEN)
                told = torch.tensor([[*begun, *own]])
                with torch.inference_mode():
                    expected, found = model.output(model.features(told)), other.features(told)
                parted = own != its and tied_at(expected[0, len(begun) - 1 :], own, its)
                apart = difference(expected, found, "logits")
                yield Comparison(text, *apart, tokenizer.decode(own), tokenizer.decode(its), parted)
