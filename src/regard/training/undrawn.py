"""Skip random initialization for models whose weights are loaded afterwards: it takes longer than loading."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import init
from torch.overrides import TorchFunctionMode

DRAWING = {Tensor.normal_, Tensor.uniform_, init.normal_, init.uniform_, init.kaiming_uniform_}  # all others call these


class Undrawn(TorchFunctionMode):
    """`with Undrawn(): model = build()`. The weights are uninitialized memory then."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in DRAWING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
