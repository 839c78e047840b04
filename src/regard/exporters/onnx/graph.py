"""An ONNX graph: a module with named input and output tensors, written by torch's exporter and checked by onnx."""

import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.api import Run
from regard.attention.trace import Trace
from regard.errors import RegardError
from regard.models.classifier import Classifier, Tagger
from regard.models.drawer import TextToImage
from regard.models.embedder import Embedder, TwoTowers
from regard.models.forecaster import Forecaster
from regard.models.reader import SpanReader

OPSET = 20
ATTENTION = "attention.{}"  # an output: the weights of the attention of this name, rows (× heads) × queries × keys
ENDING = ".onnx"


@dataclass(frozen=True)
class Graph:
    """A graph to write. `inputs`: an example of each, by name; `dynamic`: their dimensions of any size."""

    name: str
    module: nn.Module  # forward(*inputs) gives a tuple, in the order of `outputs`
    inputs: Mapping[str, Tensor]
    dynamic: Mapping[str, Mapping[int, str]]
    outputs: Sequence[str]

    def write(self, folder: Path, dtype: str) -> Path:
        import onnx

        file = folder / f"{self.name}{ENDING}"
        examples = tuple(tensor.contiguous() for tensor in self.inputs.values())  # strides would become inputs, too
        with _quiet(), torch.no_grad():
            try:
                program = torch.onnx.export(
                    self.module.eval(), examples, dynamo=True, opset_version=OPSET,
                    input_names=list(self.inputs), output_names=list(self.outputs), verbose=False,
                    dynamic_shapes=(tuple(self._dims(name) for name in self.inputs),),
                )  # fmt: skip
            except Exception as error:  # each stage of the exporter has its exceptions
                summary = str(error).rpartition("## Exception summary")[2].strip()  # advice precedes it
                raise RegardError(f"torch could not write the graph {self.name!r}: {summary[:500]}") from error
            assert program is not None
            program.save(str(file))
        onnx.checker.check_model(str(file))
        if dtype == "int8":
            _quantize(file)
        return file

    def _dims(self, name: str) -> dict[int, Any]:
        return dict.fromkeys(self.dynamic.get(name, {}), torch.export.Dim.DYNAMIC)

    def about(self) -> dict[str, Any]:
        """Return the entry of graphs.json: inputs and outputs."""
        inputs = {
            name: {
                "type": str(tensor.dtype).removeprefix("torch."),
                "shape": [self.dynamic.get(name, {}).get(axis, size) for axis, size in enumerate(tensor.shape)],
            }
            for name, tensor in self.inputs.items()
        }
        return {"inputs": inputs, "outputs": list(self.outputs)}


class Flat(nn.Module):
    """A function of named tensors as a module; it holds the model, so the graph has its weights."""

    def __init__(self, model: nn.Module, names: Sequence[str], compute: Any) -> None:
        super().__init__()
        self.model, self.names, self.compute = model, list(names), compute

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.compute(dict(zip(self.names, tensors, strict=True))))


class GraphSession:
    """A graph in ONNX Runtime."""

    def __init__(self, file: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.inputs = [one.name for one in self._session.get_inputs()]
        self.outputs = [one.name for one in self._session.get_outputs()]

    def __call__(self, tensors: Mapping[str, Any]) -> dict[str, Tensor]:
        """Run the graph on the tensors that it reads; unused inputs are not in the graph."""
        given = {name: np.asarray(tensors[name]) for name in self.inputs}
        found = self._session.run(self.outputs, given)
        return {name: torch.from_numpy(np.asarray(one)) for name, one in zip(self.outputs, found, strict=True)}


def names_in(trace: Trace) -> list[str]:
    """Return the names of the recorded attentions; empty for a model without attention."""
    try:
        return list(trace.names)
    except RuntimeError:
        return []


def weights_in(trace: Trace, names: Sequence[str]) -> list[Tensor]:
    """Return the weights of the requested attentions in the order in which they ran.

    While torch traces, modules are not always those with the names.
    """
    return [trace[name] for name in (trace.names if names else ())]


def _quantize(file: Path) -> None:
    """Quantize weights of products to 8-bit integers with a scale each; activations at run time ("dynamic")."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(str(file))
    del model.graph.value_info[:]  # the quantizer transposes weights, which makes these sizes wrong
    with _quiet():
        quantize_dynamic(model, str(file), weight_type=QuantType.QInt8)
    onnx.checker.check_model(str(file))


@contextmanager
def _quiet() -> Any:
    """Suppress the log lines of the exporter."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


# Inputs of encoders as named tensors.

NAME = "source"
LEAST = 3  # smallest size of a dynamic dimension in an example: torch takes 0 and 1 for constants


def name_tensors(source: Any, name: str = NAME) -> dict[str, Tensor]:
    """Return a single tensor under `name`, and the tensors of a batch under the names of its fields."""
    if isinstance(source, Tensor):
        return {name: source}
    found: dict[str, Tensor] = {}
    for field, value in _parts(source):
        found |= name_tensors(value, field)
    return found


def rebuilt(like: Any, tensors: Mapping[str, Tensor], name: str = NAME) -> Any:
    """Invert `name_tensors`: return a batch of the same class as `like`."""
    if isinstance(like, Tensor):
        return tensors[name]
    return type(like)(*(rebuilt(value, tensors, field) for field, value in _parts(like)))


def _parts(source: Any) -> Iterator[tuple[str, Any]]:
    if not (is_dataclass(source) or hasattr(source, "_fields")):
        raise TypeError(f"{type(source).__name__} is not a batch of tensors")
    names = [field.name for field in fields(source)] if is_dataclass(source) else source._fields
    return ((name, getattr(source, name)) for name in names)


def sequences(tensors: Mapping[str, Tensor]) -> dict[str, dict[int, str]]:
    """Return the dimensions that vary between batches: rows, and lengths of padded tensors. Pictures have one size."""
    found: dict[str, dict[int, str]] = {}
    for name, tensor in tensors.items():
        found[name] = {0: "batch"}
        if tensor.ndim in (2, 3):
            found[name][1] = f"{name}_length"
    return found


def long_enough(tensors: Mapping[str, Tensor], dynamic: Mapping[str, Mapping[int, str]]) -> dict[str, Tensor]:
    """Pad tensors that are too short for an example."""
    return {
        name: F.pad(tensor, (0, 0) * (tensor.ndim - 2) + (0, LEAST - tensor.shape[1]))
        if 1 in dynamic[name] and tensor.shape[1] < LEAST
        else tensor
        for name, tensor in tensors.items()
    }


# Recurrent layers as the operators GRU and LSTM of ONNX, over sequences of any length.
#
# torch's exporter would unroll them to the length of its example. In ONNX, gates have another order (GRU: z r n for
# our r z n; LSTM: i o f g for our i f g o), sequences have time first, and both biases are one tensor.

GATES = {"GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2)}


def with_operators(model: nn.Module) -> nn.Module:
    """Return a copy of the model for tracing; outside of a graph its recurrent layers return zeros."""
    copy = deepcopy(model)
    for parent in list(copy.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.GRU | nn.LSTM):
                parent._modules[name] = Operator(child)
    return copy


class Operator(nn.Module):
    """Replacement of a unidirectional nn.GRU or nn.LSTM with `batch_first`."""

    def __init__(self, layers: nn.GRU | nn.LSTM) -> None:
        super().__init__()
        self.kind, self.width = type(layers).__name__, layers.hidden_size
        self.weights = nn.ParameterList()
        for number in range(layers.num_layers):
            inputs, states, *biases = (self._order_weights(weights) for weights in layers.all_weights[number])
            self.weights += [inputs.unsqueeze(0), states.unsqueeze(0), torch.cat(biases).unsqueeze(0)]

    def _order_weights(self, weights: Tensor) -> Tensor:
        parts = weights.detach().chunk(len(GATES[self.kind]))
        return torch.cat([parts[number] for number in GATES[self.kind]])

    def forward(self, x: Tensor, state: Tensor | tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, object]:
        y, ends = x.transpose(0, 1), []
        attributes: dict[str, Any] = {"hidden_size": self.width}
        attributes |= {"linear_before_reset": 1} if self.kind == "GRU" else {}
        rows = x.shape[0]
        for number in range(len(self.weights) // 3):
            first = x.new_zeros(1, rows, self.width)
            begin = [first] * (1 if self.kind == "GRU" else 2)
            if state is not None:
                begin = [part[number : number + 1] for part in ((state,) if isinstance(state, Tensor) else state)]
            shape = [y.shape[0], 1, rows, self.width]
            found = torch.onnx.ops.symbolic_multi_out(
                self.kind,
                [y, *(self.weights[3 * number + part] for part in range(3)), None, *begin],
                attributes,
                dtypes=[x.dtype] * (1 + len(begin)),
                shapes=[shape, *[[1, rows, self.width]] * len(begin)],
            )
            y = found[0].squeeze(1)
            ends.append(found[1:])
        last = tuple(torch.cat(parts) for parts in zip(*ends, strict=True))
        return y.transpose(0, 1), last[0] if self.kind == "GRU" else last


# Models that predict in one call: each method is one graph.
#
# Classifier, Tagger   model             input → logits
# Embedder             model             tokens → a vector
# Forecaster           model             the past, known future → values of each step, target and quantile
# Reader               model             question, document → two pointers; place 0 is *no answer*
# TwoTowers            image, text       pictures, tokens → vectors of length 1
# TextToImage          picture_decoder   codes, their number → pixels
#                      picture_encoder   pixels → codes; its graph `decoder` (`seq2seq.py`) generates them


class GraphCall(NamedTuple):
    """A call `part.method(*arguments)` with its `outputs`; a batch as an argument has the names of its fields."""

    graph: str
    method: str
    outputs: tuple[str, ...]
    arguments: tuple[str, ...] = (NAME,)
    part: str = ""  # the module, by its path in the model
    fixed: bool = False  # whether only the number of rows varies; lengths are those of the model

    def ask(self, model: nn.Module, inputs: Sequence[Any]) -> list[Tensor]:
        found = getattr(model.get_submodule(self.part), self.method)(*inputs)
        return [found] if isinstance(found, Tensor) else list(found)

    def tensors(self, inputs: Sequence[Any]) -> dict[str, Tensor]:
        pairs = zip(self.arguments, inputs, strict=True)
        return {name: tensor for argument, one in pairs for name, tensor in name_tensors(one, argument).items()}

    def to_graph(self, model: nn.Module, inputs: Sequence[Any], attention: bool) -> Graph:
        """Return the graph of this call; `inputs` are an example of its arguments."""
        model = with_operators(model)
        tensors = self.tensors(inputs)
        dynamic = {name: {0: "batch"} for name in tensors} if self.fixed else sequences(tensors)
        tensors = long_enough(tensors, dynamic)
        with Trace(model) as trace, torch.no_grad():
            self.ask(model, inputs)
        names = names_in(trace) if attention else []

        def compute(read: dict[str, Tensor]) -> list[Tensor]:
            pairs = zip(self.arguments, inputs, strict=True)
            with Trace(model) as seen:
                found = self.ask(model, [rebuilt(one, read, argument) for argument, one in pairs])
            return [*found, *weights_in(seen, names)]

        outputs = [*self.outputs, *map(ATTENTION.format, names)]
        return Graph(self.graph, Flat(model, list(tensors), compute), tensors, dynamic, outputs)


CALLS: dict[type[nn.Module], tuple[GraphCall, ...]] = {
    Classifier: (GraphCall("model", "logits", ("logits",)),),
    Tagger: (GraphCall("model", "logits", ("logits",)),),
    Embedder: (GraphCall("model", "vectors", ("vector",)),),
    Forecaster: (GraphCall("model", "predict", ("values",), ("past", "known"), fixed=True),),
    SpanReader: (GraphCall("model", "point", ("start_logits", "end_logits"), ("question", "document")),),
    TwoTowers: tuple(GraphCall(side, "forward", ("vector",), part=side) for side in ("image", "text")),
    TextToImage: (
        GraphCall("picture_decoder", "paint", ("pixels",), ("codes", "drawn"), "tokenizer", fixed=True),
        GraphCall("picture_encoder", "codes", ("codes",), ("pixels",), "tokenizer", fixed=True),
    ),
}


def calls_of(model: nn.Module) -> tuple[GraphCall, ...]:
    return next((calls for kind, calls in CALLS.items() if isinstance(model, kind)), ())


def arguments(run: Run, call: GraphCall, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments of a call for some inputs of the job: a row for each."""
    model, output, input = run.model, run.job.output, run.job.input
    if isinstance(model, TextToImage):  # any codes and pictures serve
        generator = torch.Generator().manual_seed(len(inputs))
        codes = torch.randint(len(model.tokenizer.codebook.table), (len(inputs), model.regions), generator=generator)
        drawn = model.regions - torch.arange(len(inputs)) % model.regions
        return (codes, drawn) if call.method == "paint" else (model.tokenizer.pictures(codes),)
    if call.part == "text":
        texts = output.captions or ["?"]  # pyright: ignore[reportAttributeAccessIssue]
        some = [texts[number % len(texts)] for number in range(len(inputs))]
        return (output.text.collate([output.read_text(text) for text in some]),)  # pyright: ignore[reportAttributeAccessIssue]
    items = [input.read(one) for one in inputs]
    source = input.collate(items)
    if isinstance(model, Forecaster):
        return source, torch.from_numpy(np.stack([item.known for item in items]))
    return (source.question, source.document) if isinstance(model, SpanReader) else (source,)
