"""Traces: record the attention weights of a model from outside.

    with Trace(model) as seen:
        model(batch)
    seen.names                       # ['encoder.layers.0.attention', ...]
    seen['encoder.layers.0.attention']   # weights, B H Q K

Attention modules never store their weights. They check `tracing()`: under a trace, they compute their weights
explicitly and pass them to `Trace.keep`; otherwise the fused kernel runs. The active trace is a context variable, so a
trace records only its own thread (or async task). Of nested traces the innermost records.

`Trace(model, values=True)` also keeps the values that were averaged: `seen.values(name)`.
`Trace(model, scores=True)` also keeps the scores before the softmax: `seen.scorings(name)`.
`Trace(model, gradients=True)` also keeps the weights in the graph: `seen.gradients(total)` is then the gradient
of a number by the weights of every attention.

`Trace()` needs no model: while it is active, a global hook records the names of the parts of each module called. The
names are then relative to the module first called. Methods other than `forward` (a decoder's `step`) do not trigger
hooks; use `Trace(model)` for them.
"""

from contextvars import ContextVar, Token

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from regard.attention.head_mask import shown_weights
from regard.attention.module_names import ModuleNames
from regard.attention.scoring import Scoring, Values
from regard.attention.traced_weights import TracedWeights

_active: ContextVar["Trace | None"] = ContextVar("regard_trace", default=None)


def tracing() -> "Trace | None":
    """Return the active trace, or None."""
    return _active.get()


class Trace(TracedWeights):
    def __init__(
        self, model: nn.Module | None = None, *, gradients: bool = False, values: bool = False, scores: bool = False
    ):
        super().__init__(values)
        self.scores = scores
        self._scoring: Scoring | None = None
        self._in_graph: dict[str, list[Tensor]] | None = {} if gradients else None
        self._names = ModuleNames()
        self._token: Token | None = None
        self._hook: RemovableHandle | None = None
        if model is not None:
            self._names.learn(model)

    def __enter__(self) -> "Trace":
        if self._token is not None:
            raise RuntimeError("this Trace is already active; create a new one for each with statement")
        self._token = _active.set(self)
        self._hook = register_module_forward_pre_hook(self._before_forward)
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._token is not None
        assert self._hook is not None
        _active.reset(self._token)
        self._hook.remove()
        self._token = self._hook = None

    def keep(
        self,
        module: nn.Module,
        weights: Float[Tensor, "*b Q K"],
        value: Float[Tensor, "*v K Dv"] | None = None,
        out: Float[Tensor, "H Dv D"] | None = None,
    ) -> None:
        """Record weights; called by attention modules once for each computation. Recorded tensors are detached.

        `value`: the averaged vectors, one set for each head or group of heads; `out`: each head's part of
        the matrix that mixes the heads, where there is one.
        """
        name = self._names.of(module)
        self._modules[name] = module
        self._kept.setdefault(name, []).append(shown_weights(module, weights.detach()))
        if self._scoring is not None and value is not None:
            kept = self._scoring._replace(values=Values(value.detach(), None if out is None else out.detach()))
            self._scorings.setdefault(name, []).append(kept)
        self._scoring = None
        if self._values is not None and value is not None:
            self._values[name] = Values(value.detach(), None if out is None else out.detach())
        if self._in_graph is not None:  # the recorded tensor may be a view of the one used
            self._in_graph.setdefault(name, []).append(weights if weights._base is None else weights._base)

    def scored(self, scoring: Scoring) -> None:
        """Record the scoring; called by code that computes weights explicitly, before `keep`."""
        self._scoring = scoring if self.scores else None

    def gradients(self, total: Float[Tensor, ""]) -> dict[str, Float[Tensor, "*b Q K"]]:
        """Return ∂ total / ∂ weights of every attention, shaped as `self[name]`; needs gradients=True."""
        if self._in_graph is None:
            raise RuntimeError("this trace keeps no gradients: use Trace(model, gradients=True)")
        flat = [one for calls in self._in_graph.values() for one in calls]
        found = iter(torch.autograd.grad(total, flat, allow_unused=True, materialize_grads=True))
        return {
            name: torch.cat([next(found).reshape(weights.shape) for weights in self._kept[name]], dim=-2)
            for name in self._in_graph
        }

    def _before_forward(self, module: nn.Module, inputs: object) -> None:
        # The hook is global: it also runs in other threads, and under traces nested within this one.
        if _active.get() is self:
            self._names.of(module)
