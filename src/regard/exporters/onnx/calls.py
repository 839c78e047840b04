"""What says all at once: methods of a model, each of them one graph.

Classifier, Tagger   model             what comes in → logits
Embedder             model             tokens → a vector
Forecaster           model             the past, what is known ahead → values of each step, target and quantile
Reader               model             question, document → two pointers; place 0 is *no answer*
TwoTowers            image, text       pictures, tokens → vectors of length 1
Drawer               picture_decoder   codes, how many of them are there → pixels
                     picture_encoder   pixels → codes; its graph `decoder` (`language.py`) writes them
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.api import Run
from regard.attention.trace import Trace
from regard.exporters.onnx.graph import ATTENTION, Flat, Graph, names_in, weights_in
from regard.exporters.onnx.recurrent import with_operators
from regard.exporters.onnx.tensors import NAME, long_enough, named, rebuilt, sequences
from regard.models.classifier import Classifier
from regard.models.drawer import Drawer
from regard.models.embedder import Embedder
from regard.models.forecaster import Forecaster
from regard.models.reader import Reader
from regard.models.tagger import Tagger
from regard.models.two_towers import TwoTowers


class Call(NamedTuple):
    """`part.method(*arguments)` gives `outputs`; an argument that is a batch gives the names of its fields."""

    graph: str
    method: str
    outputs: tuple[str, ...]
    arguments: tuple[str, ...] = (NAME,)
    part: str = ""  # the module, by its path in the model
    fixed: bool = False  # whether rows alone may be of any number, and lengths are the model's own

    def ask(self, model: nn.Module, given: Sequence[Any]) -> list[Tensor]:
        found = getattr(model.get_submodule(self.part), self.method)(*given)
        return [found] if isinstance(found, Tensor) else list(found)

    def tensors(self, given: Sequence[Any]) -> dict[str, Tensor]:
        pairs = zip(self.arguments, given, strict=True)
        return {name: tensor for argument, one in pairs for name, tensor in named(one, argument).items()}

    def to_graph(self, model: nn.Module, given: Sequence[Any], attention: bool) -> Graph:
        """`given`: an example of its arguments."""
        model = with_operators(model)
        tensors = self.tensors(given)
        dynamic = {name: {0: "batch"} for name in tensors} if self.fixed else sequences(tensors)
        tensors = long_enough(tensors, dynamic)
        with Trace(model) as trace, torch.no_grad():
            self.ask(model, given)
        names = names_in(trace) if attention else []

        def compute(read: dict[str, Tensor]) -> list[Tensor]:
            pairs = zip(self.arguments, given, strict=True)
            with Trace(model) as seen:
                found = self.ask(model, [rebuilt(one, read, argument) for argument, one in pairs])
            return [*found, *weights_in(seen, names)]

        outputs = [*self.outputs, *map(ATTENTION.format, names)]
        return Graph(self.graph, Flat(model, list(tensors), compute), tensors, dynamic, outputs)


CALLS: dict[type[nn.Module], tuple[Call, ...]] = {
    Classifier: (Call("model", "logits", ("logits",)),),
    Tagger: (Call("model", "logits", ("logits",)),),
    Embedder: (Call("model", "vectors", ("vector",)),),
    Forecaster: (Call("model", "predict", ("values",), ("past", "known"), fixed=True),),
    Reader: (Call("model", "point", ("start_logits", "end_logits"), ("question", "document")),),
    TwoTowers: tuple(Call(side, "forward", ("vector",), part=side) for side in ("image", "text")),
    Drawer: (
        Call("picture_decoder", "painted", ("pixels",), ("codes", "drawn"), "tokenizer", fixed=True),
        Call("picture_encoder", "codes", ("codes",), ("pixels",), "tokenizer", fixed=True),
    ),
}


def calls_of(model: nn.Module) -> tuple[Call, ...]:
    return next((calls for kind, calls in CALLS.items() if isinstance(model, kind)), ())


def arguments(run: Run, call: Call, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """What a call is given for some inputs of the job: a row for each."""
    model, output, input = run.model, run.job.output, run.job.input
    if isinstance(model, Drawer):  # any codes will do, and the pictures of any
        generator = torch.Generator().manual_seed(len(inputs))
        codes = torch.randint(len(model.tokenizer.codebook.table), (len(inputs), model.regions), generator=generator)
        drawn = model.regions - torch.arange(len(inputs)) % model.regions
        return (codes, drawn) if call.method == "painted" else (model.tokenizer.pictures(codes),)
    if call.part == "text":
        texts = output.captions or ["?"]  # pyright: ignore[reportAttributeAccessIssue]
        some = [texts[number % len(texts)] for number in range(len(inputs))]
        return (output.text.collate([output.read_text(text) for text in some]),)  # pyright: ignore[reportAttributeAccessIssue]
    items = [input.read(one) for one in inputs]
    source = input.collate(items)
    if isinstance(model, Forecaster):
        return source, torch.from_numpy(np.stack([item.known for item in items]))
    return (source.question, source.document) if isinstance(model, Reader) else (source,)
