"""Looking at attention from outside.

    with Trace(model) as seen:
        model(batch)
    seen.names                       # ['encoder.layers.0.attention', ...]
    seen['encoder.layers.0.attention']   # weights, B H Q K

Attention modules never store their weights. They ask `tracing()` whether somebody looks; if so, they compute their
weights in the open and hand them to `Trace.keep`, if not, the fused kernel runs and there is nothing to keep. The
active trace is a context variable, so a trace sees what runs in its own thread (or async job) and no other. Of
nested traces the innermost sees.

`Trace(model, gradients=True)` also keeps the weights as part of the graph: `seen.gradients(total)` is then the gradient
of a number by the weights of every attention.

`Trace()` needs no model: while it is active, a global hook notes the names of the parts of each module called. The
names are then relative to the module first called. A method that is not `forward` (a decoder's `step`) passes by all
hooks; to trace one by name, say `Trace(model)`.
"""

from contextvars import ContextVar, Token

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from regard.attention.head_mask import shown_weights
from regard.attention.role import Role

_active: ContextVar["Trace | None"] = ContextVar("regard_trace", default=None)


def tracing() -> "Trace | None":
    """The trace that is looking at this moment, or None."""
    return _active.get()


class Trace:
    def __init__(self, model: nn.Module | None = None, *, gradients: bool = False):
        self._in_graph: dict[str, list[Tensor]] | None = {} if gradients else None
        self._names: dict[nn.Module, str] = {}
        self._used: set[str] = set()
        self._kept: dict[str, list[Tensor]] = {}
        self._modules: dict[str, nn.Module] = {}
        self._token: Token | None = None
        self._hook: RemovableHandle | None = None
        if model is not None:
            self._learn_names(model)

    def __enter__(self) -> "Trace":
        if self._token is not None:
            raise RuntimeError("this Trace is active already; make a new one for each with statement")
        self._token = _active.set(self)
        self._hook = register_module_forward_pre_hook(self._before_forward)
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._token is not None
        assert self._hook is not None
        _active.reset(self._token)
        self._hook.remove()
        self._token = self._hook = None

    def keep(self, module: nn.Module, weights: Float[Tensor, "*b Q K"]) -> None:
        """Called by attention modules, once for each computation. What is shown has no part in any gradient."""
        if module not in self._names:
            self._learn_names(module)
        name = self._names[module]
        self._modules[name] = module
        self._kept.setdefault(name, []).append(shown_weights(module, weights.detach()))
        if self._in_graph is not None:  # what is shown may be a view of what was used
            self._in_graph.setdefault(name, []).append(weights if weights._base is None else weights._base)

    def gradients(self, total: Float[Tensor, ""]) -> dict[str, Float[Tensor, "*b Q K"]]:
        """∂ total / ∂ weights of every attention, shaped as `self[name]`; of a trace with gradients=True."""
        if self._in_graph is None:
            raise RuntimeError("this trace keeps no gradients: say Trace(model, gradients=True)")
        flat = [one for calls in self._in_graph.values() for one in calls]
        found = iter(torch.autograd.grad(total, flat, allow_unused=True, materialize_grads=True))
        return {
            name: torch.cat([next(found).reshape(weights.shape) for weights in self._kept[name]], dim=-2)
            for name in self._in_graph
        }

    @property
    def names(self) -> list[str]:
        """Every attention that ran, in the order in which they first did."""
        self._require_something()
        return list(self._kept)

    def module(self, name: str) -> nn.Module:
        """The attention of this name."""
        return self._modules[name]

    def role(self, name: str) -> Role:
        """What the attention of this name is for. One that nobody has placed is taken for self-attention."""
        role = getattr(self._modules[name], "role", None)
        return role if isinstance(role, Role) else Role("encoder", list(self._kept).index(name))

    def calls(self, name: str) -> list[Float[Tensor, "*b Q K"]]:
        """The weights of one attention, one tensor a call."""
        self._require_something()
        if name not in self._kept:
            raise KeyError(f"no attention named {name!r} was traced; there are: {', '.join(self._kept)}")
        return list(self._kept[name])

    def __getitem__(self, name: str) -> Float[Tensor, "*b Q K"]:
        """The weights of one attention; the steps of decoding joined along Q, with zero for keys not there yet."""
        calls = self.calls(name)
        rows = {weights.shape[:-2] for weights in calls}
        if len(rows) > 1:
            raise ValueError(
                f"{name!r} was called with batches of different shapes {sorted(map(tuple, rows))}, which cannot be "
                f"joined into one picture; take them one by one with calls({name!r})"
            )
        longest = max(weights.shape[-1] for weights in calls)
        return torch.cat([F.pad(weights, (0, longest - weights.shape[-1])) for weights in calls], dim=-2)

    def __contains__(self, name: object) -> bool:
        return name in self._kept

    def _before_forward(self, module: nn.Module, inputs: object) -> None:
        # The hook is global: it also runs in other threads, and under traces nested within this one.
        if _active.get() is self and module not in self._names:
            self._learn_names(module)

    def _learn_names(self, root: nn.Module) -> None:
        kind = type(root).__name__
        for path, module in root.named_modules():
            if module not in self._names:
                self._names[module] = self._unused(path or kind, kind)

    def _unused(self, name: str, kind: str) -> str:
        """Two models under one trace may have parts of one name: the second's become 'Kind.part', 'Kind.part#2'."""
        if name in self._used and not name.startswith(kind):
            name = f"{kind}.{name}"
        number, unique = 1, name
        while unique in self._used:
            number += 1
            unique = f"{name}#{number}"
        self._used.add(unique)
        return unique

    def _require_something(self) -> None:
        if not self._kept:
            raise RuntimeError(
                "nothing was traced: no attention of regard ran inside `with Trace() as seen:` in this thread"
            )
