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
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from regard.attention.masks import leading_shape, shown_weights
from regard.attention.score import DotForm, Role, Score, TanhForm

# The computation of attention weights in a trace: the scores, and the values that are averaged.
#
#     e = score(q, k) + bias       a = softmax(e) where the mask allows       y = Σ_heads Σ_j a_j v_j W_o
#
# `row` returns the numbers of one query of one head, and `added` the contribution of each key to y.


class Values(NamedTuple):
    """`value`: B H K Dv (or B K Dv for one head); `out`: H Dv D, or None without an output layer."""

    value: Tensor
    out: Tensor | None


class ScoredRow(NamedTuple):
    """`form`: of the query and all keys. `scores`: including the bias; −∞ for keys that the mask hides."""

    form: DotForm | TanhForm
    bias: Float[Tensor, " K"] | None
    scores: Float[Tensor, " K"]

    def with_key(self, key: int) -> DotForm | TanhForm:
        """Return the form of the query and one key."""
        return self.form._replace(key=self.form.key[[key]])


class Scoring(NamedTuple):
    """The computation of one call. `together`: one softmax for all queries; each key belongs to its best query."""

    score: Score
    form: DotForm | TanhForm
    mask: Tensor | None = None
    bias: Tensor | None = None
    together: bool = False
    values: Values | None = None

    def row(self, weights: Float[Tensor, "N H Q K"], batch: int, head: int, query: int) -> ScoredRow:
        """Return one row. `weights`: the weights of this call; beams may share the keys of a row."""
        own, beam = divmod(batch, len(weights) // len(self._expand(self.form.query)))
        query += beam * weights.shape[-2]
        form = self.form._replace(
            query=self._of_head(self.form.query, own, head), key=self._of_head(self.form.key, own, head)
        )
        queries = slice(None) if self.together else [query]
        scores = form._replace(query=form.query[queries]).table()
        size = (len(form.query), len(form.key))
        bias = None if self.bias is None else self._of_head(self.bias, own, head, size)[queries]
        scores = scores if bias is None else scores + bias
        if self.mask is not None:
            scores = scores.masked_fill(~self._of_head(self.mask, own, head, size)[queries], -torch.inf)
        return ScoredRow(
            form._replace(query=form.query[[query]]), None if bias is None else bias[-1], scores.max(0).values
        )

    def added(
        self, weights: Float[Tensor, "N H Q K"], batch: int, query: int
    ) -> tuple[Float[Tensor, "H K D"], Float[Tensor, "H K Dv"]]:
        """Return what each key of each head adds to the output (their sum), and the values that are averaged."""
        assert self.values is not None
        value, out = self.values
        value = value if value.ndim == 4 else value.unsqueeze(1)
        value = value[batch * len(value) // len(weights)].float()
        rows = weights[batch].sum(-2) if self.together else weights[batch, :, query]
        value = value.repeat_interleave(len(rows) // len(value), 0)[:, : rows.shape[-1]]
        return rows.unsqueeze(-1) * (value if out is None else value @ out.float()), value

    def _expand(self, x: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        return x.expand(*leading_shape(self.form.query, self.form.key), *(size or x.shape[-2:]))

    def _of_head(self, x: Tensor, batch: int, head: int, size: tuple[int, int] | None = None) -> Tensor:
        """Return one head, N M. Heads are one dimension after the batch, two (groups that share keys), or none."""
        one = self._expand(x, size)[batch]
        return one.reshape(-1, *one.shape[-2:])[head]


class TracedWeights:
    """The attention weights that a trace recorded, by name."""

    def __init__(self, values: bool = False) -> None:
        self._scorings: dict[str, list[Scoring]] = {}
        self._values: dict[str, Values] | None = {} if values else None
        self._kept: dict[str, list[Tensor]] = {}
        self._modules: dict[str, nn.Module] = {}

    @property
    def names(self) -> list[str]:
        """Return the names of all attentions that ran, in the order of their first call."""
        self._require_something()
        return list(self._kept)

    def module(self, name: str) -> nn.Module:
        """Return the attention module of this name."""
        return self._modules[name]

    def role(self, name: str) -> Role:
        """Return the role of the attention of this name; without one, it counts as encoder self-attention."""
        role = getattr(self._modules[name], "role", None)
        return role if isinstance(role, Role) else Role("encoder", list(self._kept).index(name))

    def values(self, name: str) -> Values:
        """Return the values that this attention averaged; needs values=True."""
        if self._values is None:
            raise RuntimeError("this trace keeps no values: use Trace(model, values=True)")
        return self._values[name]

    def scorings(self, name: str) -> list[Scoring]:
        """Return the scorings of this attention, one for each of `calls`; needs scores=True."""
        if name not in self._scorings:
            raise RuntimeError(f"this trace keeps no scores of {name!r}: use Trace(model, scores=True)")
        return list(self._scorings[name])

    def calls(self, name: str) -> list[Float[Tensor, "*b Q K"]]:
        """Return the weights of one attention, one tensor for each call."""
        self._require_something()
        if name not in self._kept:
            raise KeyError(f"no attention named {name!r} was traced; there are: {', '.join(self._kept)}")
        return list(self._kept[name])

    def __getitem__(self, name: str) -> Float[Tensor, "*b Q K"]:
        """Return the weights of one attention; decoding steps are joined along Q, with zeros for later keys."""
        calls = self.calls(name)
        if any(weights.shape[:-2] != calls[0].shape[:-2] for weights in calls):  # symbolic sizes are not hashable
            rows = sorted({tuple(weights.shape[:-2]) for weights in calls})
            raise ValueError(
                f"{name!r} was called with batches of different shapes {rows}, which cannot be "
                f"joined; read them one by one with calls({name!r})"
            )
        longest = max(weights.shape[-1] for weights in calls)
        return torch.cat([F.pad(weights, (0, longest - weights.shape[-1])) for weights in calls], dim=-2)

    def __contains__(self, name: object) -> bool:
        return name in self._kept

    def _require_something(self) -> None:
        if not self._kept:
            raise RuntimeError(
                "nothing was traced: no attention of regard ran inside `with Trace() as seen:` in this thread"
            )


class ModuleNames:
    """Names for the modules in a trace: the path in the first model that contains the module."""

    def __init__(self) -> None:
        self._names: dict[nn.Module, str] = {}
        self._used: set[str] = set()

    def of(self, module: nn.Module) -> str:
        """Return the name of a module. A module that is not part of a known one becomes a root."""
        if module not in self._names:
            self.learn(module)
        return self._names[module]

    def learn(self, root: nn.Module) -> None:
        kind = type(root).__name__
        for path, module in root.named_modules():
            if module not in self._names:
                self._names[module] = self._unused_name(path or kind, kind)

    def _unused_name(self, name: str, kind: str) -> str:
        """Return a unique name; a part of a second model with the same name becomes 'Kind.part', 'Kind.part#2'."""
        if name in self._used and not name.startswith(kind):
            name = f"{kind}.{name}"
        number, unique = 1, name
        while unique in self._used:
            number += 1
            unique = f"{name}#{number}"
        self._used.add(unique)
        return unique


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

    def note_scores(self, scoring: Scoring) -> None:
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
