"""One graph: a module with named tensors in and out, written by torch's exporter and looked over by onnx."""

import io
import logging
import warnings
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.trace import Trace
from regard.errors import RegardError

OPSET = 20
ATTENTION = "attention.{}"  # an output: the weights of the attention of this name, rows (× heads) × queries × keys
ENDING = ".onnx"


@dataclass(frozen=True)
class Graph:
    """`inputs`: an example of each, by name; `dynamic`: the dimensions of them that may be of any size."""

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
            except Exception as error:  # the exporter has kinds of its own for each of its stages
                told = str(error).rpartition("## Exception summary")[2].strip()  # before it stands advice
                raise RegardError(f"torch could not write the graph {self.name!r}: {told[:500]}") from error
            assert program is not None
            program.save(str(file))
        onnx.checker.check_model(str(file))
        if dtype == "int8":
            _quantize(file)
        return file

    def _dims(self, name: str) -> dict[int, Any]:
        return dict.fromkeys(self.dynamic.get(name, {}), torch.export.Dim.DYNAMIC)

    def about(self) -> dict[str, Any]:
        """For graphs.json: what goes in, and what comes out."""
        inputs = {
            name: {
                "type": str(tensor.dtype).removeprefix("torch."),
                "shape": [self.dynamic.get(name, {}).get(axis, size) for axis, size in enumerate(tensor.shape)],
            }
            for name, tensor in self.inputs.items()
        }
        return {"inputs": inputs, "outputs": list(self.outputs)}


class Flat(nn.Module):
    """A function of named tensors as a module; it holds the model, so that its weights are those of the graph."""

    def __init__(self, model: nn.Module, names: Sequence[str], compute: Any) -> None:
        super().__init__()
        self.model, self.names, self.compute = model, list(names), compute

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.compute(dict(zip(self.names, tensors, strict=True))))


class Session:
    """A graph in ONNX Runtime."""

    def __init__(self, file: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.inputs = [one.name for one in self._session.get_inputs()]
        self.outputs = [one.name for one in self._session.get_outputs()]

    def __call__(self, tensors: Mapping[str, Any]) -> dict[str, Tensor]:
        """Those of the tensors that the graph reads; a graph leaves out inputs that change nothing."""
        given = {name: np.asarray(tensors[name]) for name in self.inputs}
        found = self._session.run(self.outputs, given)
        return {name: torch.from_numpy(np.asarray(one)) for name, one in zip(self.outputs, found, strict=True)}


def names_in(trace: Trace) -> list[str]:
    """Of the attentions that were seen; of a model that has none, nothing."""
    try:
        return list(trace.names)
    except RuntimeError:
        return []


def weights_in(trace: Trace, names: Sequence[str]) -> list[Tensor]:
    """Of the attentions that are to be given, if any, in the order in which they ran: while torch traces, modules are
    not always those that have the names."""
    return [trace[name] for name in (trace.names if names else ())]


def _quantize(file: Path) -> None:
    """Weights of products as 8-bit integers, with a scale each; activations when they are known ("dynamic")."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(str(file))
    del model.graph.value_info[:]  # the quantizer turns weights round, and would find sizes that were true before
    with _quiet():
        quantize_dynamic(model, str(file), weight_type=QuantType.QInt8)
    onnx.checker.check_model(str(file))


@contextmanager
def _quiet() -> Any:
    """Without the exporter's diary."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
