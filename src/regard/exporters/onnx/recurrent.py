"""Recurrent layers as the operators GRU and LSTM of ONNX, over sequences of any length.

torch's exporter would unroll them to the length of its example. Gates stand in another order there (GRU: z r n for our
r z n; LSTM: i o f g for our i f g o), sequences come with time first, and both biases are one.
"""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

GATES = {"GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2)}


def with_operators(model: nn.Module) -> nn.Module:
    """A copy of the model, for tracing: outside of a graph its recurrent layers give zeros."""
    copy = deepcopy(model)
    for parent in list(copy.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.GRU | nn.LSTM):
                parent._modules[name] = Operator(child)
    return copy


class Operator(nn.Module):
    """In the place of an nn.GRU or nn.LSTM of one direction that has the batch first."""

    def __init__(self, layers: nn.GRU | nn.LSTM) -> None:
        super().__init__()
        self.kind, self.width = type(layers).__name__, layers.hidden_size
        self.weights = nn.ParameterList()
        for number in range(layers.num_layers):
            inputs, states, *biases = (self._ordered(weights) for weights in layers.all_weights[number])
            self.weights += [inputs.unsqueeze(0), states.unsqueeze(0), torch.cat(biases).unsqueeze(0)]

    def _ordered(self, weights: Tensor) -> Tensor:
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
