"""Count on the meta device, where tensors have shapes but no storage, so models of any size are free to build.

Parameters are counted from the modules. Operations are counted by torch in a real forward and backward pass: matrix
products, two operations per multiply-add, as in papers. Element-wise operations are not counted. For a Transformer this
is about

    forward = 2 · (parameters of its matrices) · tokens + 4 · layers · n² · d        backward = 2 · forward

Activations are the tensors that autograd would keep for the backward pass, each storage once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True)
class OperationCounts:
    """Operations and stored activations of one pass."""

    forward: int  # floating-point operations
    backward: int
    kept_numbers: int  # floating-point numbers kept for the backward pass
    kept_bytes: int  # and the bytes of masks and indices


def parameter_parts(model: nn.Module, depth: int = 2) -> dict[str, int]:
    """Return parameters by part, in the order of the model's definition; their sum is the total.

    Parts are the submodules of the model down to `depth`. A shared parameter (tied embeddings) counts once, for its
    first part. A stack of layers is one part.
    """
    parts: dict[str, int] = {}
    for name, parameter in model.named_parameters():  # lists shared parameters once
        owner, _, leaf = name.rpartition(".")
        # A parameter next to submodules (a class token) is a separate part; weight and bias of one layer are not.
        path = name.split(".") if any(model.get_submodule(owner).children()) else owner.split(".")
        stack = next((i for i, step in enumerate(path) if step.isdigit()), len(path))
        key = ".".join(path[: min(stack, depth)]) or leaf
        parts[key] = parts.get(key, 0) + parameter.numel()
    return parts


def count_pass(model: nn.Module, forward: Callable[[], Tensor]) -> OperationCounts:
    """Run `forward` and a backward pass from the sum of its result, on the meta device, and count.

    `forward` ends with the logits, not with a loss: training takes the loss in blocks and never keeps the logits
    (`regard.layers.loss`), and neither does a sum.
    """
    ours = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept = Kept(ours)
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mv: _matrix_times_vector})
    with torch.enable_grad(), counter:
        with torch.autograd.graph.saved_tensors_hooks(kept.add, lambda tensor: tensor), kept:
            result = forward()
        ahead = counter.get_total_flops()
        result.sum().backward()
        total = counter.get_total_flops()
    model.zero_grad(set_to_none=True)
    return OperationCounts(ahead, total - ahead, kept.numbers, kept.bytes)


def _matrix_times_vector(matrix: tuple[int, int], *_: object, **__: object) -> int:
    """Count wᵀ tanh(…) of the additive score, which torch does not count."""
    return 2 * matrix[0] * matrix[1]


class Kept(TorchFunctionMode):
    """Sum of the storages that autograd keeps, without parameters.

    The meta device runs attention by its plain formula, which keeps the Q×K tables; real devices run a fused kernel
    that keeps queries, keys, values, the result and one number for each query. So for that call, these are counted.
    """

    def __init__(self, parameters: set[int]) -> None:
        super().__init__()
        self._seen = parameters
        self._alive: list[torch.UntypedStorage] = []  # so that no address is reused
        self._inside_attention = False
        self.numbers, self.bytes = 0, 0

    def add(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if not self._inside_attention and storage._cdata not in self._seen:
            self._seen.add(storage._cdata)
            self._alive.append(storage)
            if tensor.is_floating_point():
                self.numbers += storage.nbytes() // tensor.element_size()
            else:
                self.bytes += storage.nbytes()
        return tensor

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not F.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        self._inside_attention = True
        try:
            result = func(*args, **(kwargs or {}))
        finally:
            self._inside_attention = False
        for tensor in (*args[:3], result):
            self.add(tensor)
        self.numbers += result[..., 0].numel()
        return result
