"""Models whose weights are read from a file afterwards: nothing is drawn for them, which takes longer than to read."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import init
from torch.overrides import TorchFunctionMode

DRAWING = {Tensor.normal_, Tensor.uniform_, init.normal_, init.uniform_, init.kaiming_uniform_}  # all others call these


class Undrawn(TorchFunctionMode):
    """`with Undrawn(): model = build()`. What is in its weights then is whatever was in memory."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in DRAWING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
