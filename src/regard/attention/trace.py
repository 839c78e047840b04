"""Looking at attention from outside.

    with Trace(model) as seen:
        model(batch)
    seen.names                       # ['encoder.layers.0.attention', ...]
    seen['encoder.layers.0.attention']   # weights, B H Q K

Attention modules never store their weights. They ask `tracing()` whether somebody looks; if so, they compute their
weights in the open and hand them to `Trace.keep`, if not, the fused kernel runs and there is nothing to keep. The
active trace is a context variable, so a trace sees what runs in its own thread (or async task) and no other. Of
nested traces the innermost sees.

`Trace(model, values=True)` also keeps what was averaged: `seen.values(name)`.
`Trace(model, scores=True)` also keeps what weights are the softmax of: `seen.scorings(name)`.
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
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from regard.attention.head_mask import shown_weights
from regard.attention.module_names import ModuleNames
from regard.attention.scoring import Scoring, Values
from regard.attention.traced_weights import TracedWeights

_active: ContextVar["Trace | None"] = ContextVar("regard_trace", default=None)


def tracing() -> "Trace | None":
    """The trace that is looking at this moment, or None."""
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

    def keep(
        self,
        module: nn.Module,
        weights: Float[Tensor, "*b Q K"],
        value: Float[Tensor, "*v K Dv"] | None = None,
        out: Float[Tensor, "H Dv D"] | None = None,
    ) -> None:
        """Called by attention modules, once for each computation. What is shown has no part in any gradient.

        `value`: the vectors that were averaged, a set for each head or for groups of them; `out`: each head's part of
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
        if self._in_graph is not None:  # what is shown may be a view of what was used
            self._in_graph.setdefault(name, []).append(weights if weights._base is None else weights._base)

    def scored(self, scoring: Scoring) -> None:
        """Called by whoever computes weights in the open, before they are kept."""
        self._scoring = scoring if self.scores else None

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

    def _before_forward(self, module: nn.Module, inputs: object) -> None:
        # The hook is global: it also runs in other threads, and under traces nested within this one.
        if _active.get() is self:
            self._names.of(module)
