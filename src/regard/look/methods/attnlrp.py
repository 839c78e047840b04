"""AttnLRP: the contribution of each input part to the output, with a rule for each operation of a Transformer.

    R_i = x_i · ∂̃z / ∂x_i            Σ_i R_i + R(biases) + R(softmax) = z

Achtibat et al. 2024 (arXiv:2402.05602, section 3.3), as input × gradient with a gradient ∂̃ that obeys rules:

    linear maps, sums    the gradient as it is; a bias keeps its own share          ε-rule with ε = 0, equation 8
    f(x), elementwise    f(x) / x instead of f′(x)                                  identity, equation 9
    u · v, u vᵀ          half of the gradient to each of the two                    uniform, equation 13
    softmax              the gradient as it is: a Taylor expansion, whose constant  proposition 3.1
                         keeps a share, R(softmax)
    norms, x / ‖x‖       the divisor is a constant                                  proposition 3.4
    log softmax          the logits: explained is a logit z; with a contrast, its lead over another logit

Relevance also reaches the embeddings of the output so far. The second equation holds exactly and is checked: it fails
if an operation has no rule (a recurrent cell), and that is an error.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from regard.attention import Trace
from regard.errors import CallError
from regard.look.card import Figure
from regard.look.case import (
    WHOLE,
    Contributions,
    ExplainTarget,
    at_steps,
    detached_outputs,
    require_vectors,
    some_steps,
    to_numpy,
)

KEPT = 1e-3  # a larger lost share is an error
NO_RULE = (
    "attnlrp has rules for the operations of Transformers only, and this model has others (recurrent cells, gates): "
    "use the method input-gradient or integrated-gradients"
)

NAMES = {
    "input": "the input", "written": "what was written", "biases": "biases and positions",
    "softmax": "the constants of softmax",
}  # fmt: skip


class Relevance(NamedTuple):
    """Relevance of the input parts. `logits`: the explained logits; `shares`: relevance by destination."""

    parts: Float[np.ndarray, "T P"]
    logits: Float[np.ndarray, " T"]
    shares: dict[str, float]


def attnlrp(case: ExplainTarget) -> Contributions:
    parts, logits, shares = relevance(case)
    told = ", ".join(f"{share:+.2f} at {NAMES[name]}" for name, share in shares.items())
    about = f"The logits sum to {logits.sum():+.2f}; their relevance: {told}."
    lost = float(logits.sum()) - sum(shares.values())
    figures = [Figure("sum of the logits", float(logits.sum()))]
    figures += [Figure(f"of them at {NAMES[name]}", share) for name, share in shares.items() if share]
    return Contributions(
        parts, logits - parts.sum(axis=1), about, (*figures, Figure("of them lost", lost, better="low"))
    )


def relevance(case: ExplainTarget) -> Relevance:
    vectors = require_vectors(case, "attnlrp")
    assert case.gather is not None
    if any(isinstance(one, nn.RNNBase) for one in case.model.modules()):  # also in the other tower
        raise CallError(NO_RULE)
    others = [one for one in case.model.modules() if isinstance(one, nn.Embedding) and one is not vectors]
    parts, rules, size = [], PropagationRules(), 0.0
    with freeze_weights(case.model), Trace(case.model):  # under a trace, attention is computed without fused kernels
        for steps in some_steps(case):
            with detached_outputs([vectors]) as own, detached_outputs(others) as beside, rules:
                z = at_steps(case, steps)
            given = [leaf for _, leaf in (*own, *beside)]
            felt = torch.autograd.grad(z, given, allow_unused=True)
            products = [to_numpy(x if g is None else x * g) * (g is not None) for x, g in zip(given, felt, strict=True)]
            parts.append(case.gather(products[: len(own)]))
            for name, some in (("input", products[: len(own)]), ("written", products[len(own) :])):
                rules.shares[name] += sum(float(product.sum()) for product in some)
            size += sum(float(np.abs(product).sum()) for product in products)
        with torch.no_grad(), rules:
            logits = to_numpy(case.ask([WHOLE])[0])
    if abs(logits.sum() - sum(rules.shares.values())) > KEPT * (np.abs(logits).sum() + size):
        raise CallError(NO_RULE)
    return Relevance(np.concatenate(parts), logits, rules.shares)


class PropagationRules(TorchFunctionMode):
    """Mode in which operations have the gradient of their rule. `shares`: the relevance of constants."""

    def __init__(self) -> None:
        super().__init__()
        self.shares = dict.fromkeys(NAMES, 0.0)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "").strip("_")
        operands = args[0] if name in ("cat", "concat", "stack") else args[1:] if name == "einsum" else args[:2]
        felt = [isinstance(one, Tensor) and one.requires_grad for one in operands]
        if name in ("log_softmax", "logsigmoid"):
            return args[0].to(kwargs.get("dtype") or args[0].dtype)
        if not any(felt):
            return func(*args, **kwargs)
        if name in ONE_BY_ONE:
            y = ONE_BY_ONE[name](args[0].detach(), **kwargs)
            return _Ruled.apply(args[0], y, _ratio(y, args[0].detach()))
        if name in ("layer_norm", "rms_norm", "group_norm"):
            return self._norm(name, args, kwargs)
        if name == "normalize":
            return _normalize(*args, **kwargs)
        if name in ("div", "truediv", "true_divide") and felt[1]:
            return func(args[0], args[1].detach(), *args[2:], **kwargs)
        y = func(*args, **kwargs)
        if name in PRODUCTS:
            return _Ruled.apply(y, y.detach(), torch.tensor(0.5, device=y.device)) if sum(felt) > 1 else y
        if name in SUMS and not all(felt):  # the share that does not depend on the input
            zeros = [torch.zeros_like(one) if moves else one for one, moves in zip(operands, felt, strict=True)]
            rest = func(zeros, *args[1:], **kwargs) if operands is args[0] else func(*zeros, *args[2:], **kwargs)
            self._keep("biases", y, lambda g: g * rest.detach())
        elif name in AFFINE:
            rest = func(torch.zeros_like(args[0][:1]), *args[1:], **kwargs)
            self._keep("biases", y, lambda g: g * rest.detach())
        elif name == "softmax":
            self._count_softmax(args[0].detach(), y)
        return y

    def _norm(self, name: str, args: Any, kwargs: Any) -> Tensor:
        """Return (x − mean) / deviation with a constant deviation; an RMS norm has no mean, a group norm one each."""
        x = args[0]
        weight, bias = _argument(args, kwargs, 2, "weight"), _argument(args, kwargs, 3, "bias")
        if name == "group_norm":
            rows = x.unflatten(1, (args[1], -1)).flatten(2)
            weight, bias = (p if p is None else p.view(-1, *[1] * (x.dim() - 2)) for p in (weight, bias))
        else:
            rows = x.flatten(-len(args[1]))
        if name == "rms_norm":
            eps, bias = _argument(args, kwargs, 3, "eps"), None
        else:
            eps, rows = _argument(args, kwargs, 4, "eps"), rows - rows.mean(-1, keepdim=True)
        eps = torch.finfo(x.dtype).eps if eps is None else eps
        y = (rows * (rows.detach().square().mean(-1, keepdim=True) + eps).rsqrt()).view(x.shape)
        y = y if weight is None else y * weight
        if bias is not None:
            y = y + bias
            self._keep("biases", y, lambda g: g * bias.detach())
        return y

    def _count_softmax(self, x: Tensor, y: Tensor) -> None:
        s = y.detach()

        def lost(g: Tensor) -> Tensor:
            return g * s - x * s * (g - (g * s).sum(-1, keepdim=True))

        self._keep("softmax", y, lost)

    def _keep(self, name: str, y: Tensor, share: Callable[[Tensor], Tensor]) -> None:
        def count(g: Tensor) -> None:
            self.shares[name] += float(share(g).double().sum())

        y.register_hook(count)


class _Ruled(torch.autograd.Function):
    """Function with the value y and the gradient `factor` with respect to x."""

    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return y.clone()

    @staticmethod
    def backward(ctx, g: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        return g * ctx.saved_tensors[0], None, None


ONE_BY_ONE: dict[str, Callable[..., Tensor]] = {
    "relu": F.relu, "relu6": F.relu6, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh,
}  # fmt: skip
AFFINE = {"linear", "conv1d", "conv2d", "batch_norm"}
SUMS = {"add", "iadd", "radd", "sub", "isub", "rsub", "cat", "concat", "stack"}
PRODUCTS = {"matmul", "rmatmul", "bmm", "einsum", "mul", "rmul", "imul", "multiply"}


def _normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, **_: Any) -> Tensor:
    """Return `F.normalize` with a constant length."""
    return x / x.detach().norm(p, dim, keepdim=True).clamp_min(eps)


def _ratio(y: Tensor, x: Tensor) -> Tensor:
    return torch.where(x == 0, 0.0, y / torch.where(x == 0, 1.0, x))


def _argument(args: Any, kwargs: Any, place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


class _FixedFactor:
    """Frozen weights, and the number of threads that froze them."""

    def __init__(self, model: nn.Module) -> None:
        self.weights, self.users = [one for one in model.parameters() if one.requires_grad], 0


_held: WeakKeyDictionary[nn.Module, _FixedFactor] = WeakKeyDictionary()
_lock = Lock()


@contextmanager
def freeze_weights(model: nn.Module) -> Iterator[None]:
    """Freeze the weights, so that only values that depend on the input have gradients.

    Several threads may explain one model: the first freezes its weights, the last restores them.
    """
    with _lock:
        held = _held.setdefault(model, _FixedFactor(model))
        held.users += 1
        for one in held.weights:
            one.requires_grad_(False)
    try:
        yield
    finally:
        with _lock:
            held.users -= 1
            if not held.users:
                for one in held.weights:
                    one.requires_grad_(True)
                del _held[model]
