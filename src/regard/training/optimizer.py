"""AdamW, or Muon with AdamW for all but hidden matrices; and which parameters decay.

    m ← β₁ m + (1−β₁) g,   v ← β₂ v + (1−β₂) g²,   θ ← θ − η (m̂ / (√v̂ + ε) + λ θ)

Kingma & Ba 2014, algorithm 1 (arXiv:1412.6980); decay apart from the gradient: Loshchilov & Hutter 2017, algorithm 2
(arXiv:1711.05101). torch's fused kernel makes one pass over memory; on one processor core it took 8 ms for 5.6 M
parameters where the `foreach` form took 28 ms. It also divides the gradient by a tensor and changes nothing
where another tensor is 1 (made for torch's gradient scaler). So clipping needs no extra pass,
and skipping a bad step does not wait for the GPU.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from regard.settings.training import TrainingSettings

# Muon: momentum whose matrices are made orthogonal before they are used.
#
#     m ← μ m + (1−μ) g,    u = (1−μ) g + μ m                       (Nesterov)
#     θ ← θ − η (0.2 √max(rows, columns) · polar(u) + λ θ)          polar(U Σ Vᵀ) = U Vᵀ
#
# Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks" (kellerjordan.github.io/posts/muon). A
# gradient of a matrix has few large singular values; with all of them made 1, every direction is learnt alike. The
# factor 0.2 √max(rows, columns) gives a step the size of AdamW's, so that one learning rate and one decay λ serve for
# both: Liu et al. 2025, section 2.2 (arXiv:2502.16982).
#
# polar(u) is approached by Newton-Schulz steps, which are matrix products only:
#
#     X₀ = u / |u|,    A = X Xᵀ,    X ← a X + (b A + c A²) X
#
# with Jordan's (a, b, c), which send all singular values to between 0.7 and 1.2 in five steps: exactness gains
# nothing.
#
# Where we differ: matrices of one shape are processed together, as one batch of products. Like the fused AdamW of
# torch, a step divides the gradient by a tensor, and changes nothing where another tensor is 1.

COEFFICIENTS, ROUNDS = (3.4445, -4.7750, 2.0315), 5
SIZE = 0.2  # root mean square of a step, as usual for AdamW


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the matrices in lists of modules (repeated layers), without embeddings and the output layer."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    found = dict.fromkeys(weight for blocks in lists for weight in blocks.parameters() if weight.ndim == 2)
    tables = {module.weight for module in model.modules() if isinstance(module, nn.Embedding)}
    return [weight for weight in found if weight not in tables and weight.requires_grad]


class Muon:
    def __init__(self, weights: Sequence[Tensor], *, momentum: float, weight_decay: float) -> None:
        self.momentum, self.weight_decay = momentum, weight_decay
        self.groups: dict[torch.Size, list[Tensor]] = {}
        for weight in weights:
            self.groups.setdefault(weight.shape, []).append(weight)
        self.memory = {shape: torch.stack([w.detach() for w in group]).zero_() for shape, group in self.groups.items()}

    @torch.no_grad()
    def step(self, rate: float, divisor: Float[Tensor, ""], skip: Float[Tensor, ""]) -> None:
        """Update with gradient / divisor, or change nothing where skip is 1. The gradients are overwritten."""
        for shape, group in self.groups.items():
            if all(weight.grad is None for weight in group):
                continue  # like AdamW: weights without a gradient do not change or decay
            memory = self.memory[shape]
            gradient = torch.stack([_gradient(weight) for weight in group]) / divisor.to(memory.dtype)
            gradient = gradient.masked_fill(skip.bool(), 0.0)  # also where it is NaN
            keep = 1.0 - skip
            memory.lerp_(gradient, keep.to(memory.dtype) * (1.0 - self.momentum))
            update = orthogonal(gradient.lerp_(memory, self.momentum))
            scale = -rate * SIZE * math.sqrt(max(shape)) * keep
            torch._foreach_mul_(group, 1.0 - rate * self.weight_decay * keep)  # pyright: ignore[reportPrivateImportUsage]
            torch._foreach_add_(group, list((update * scale).unbind()))  # pyright: ignore[reportPrivateImportUsage]
            for weight in group:
                weight.grad = None

    def tensors(self, names: Mapping[Tensor, str]) -> dict[str, Tensor]:
        """Return the state by name of weight."""
        return {
            f"{names[weight]}.momentum": memory
            for shape, group in self.groups.items()
            for weight, memory in zip(group, self.memory[shape].unbind(), strict=True)
        }

    def restore(
        self, saved: dict[str, Tensor], names: Mapping[Tensor, str], fill: Callable[[Tensor, Tensor], None]
    ) -> None:
        for name, memory in self.tensors(names).items():
            fill(memory, saved[name])


def orthogonal(update: Float[Tensor, "B m n"]) -> Float[Tensor, "B m n"]:
    """Return polar(U) of each matrix, approximated by Newton-Schulz."""
    a, b, c = COEFFICIENTS
    tall = update.shape[-2] > update.shape[-1]
    x = update.mT if tall else update  # the smaller side first: A is then the smaller of the two squares
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-20)
    if x.device.type == "cuda":  # Jordan's choice: a GPU is many times faster at it, and singular values are about 1
        x = x.bfloat16()
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(update.dtype)


def _gradient(weight: Tensor) -> Tensor:
    return torch.zeros_like(weight) if weight.grad is None else weight.grad


class Average:
    """A running average of the weights, which varies less than the weights of single steps.

        θ̄ ← θ̄ + (1 − d_s) (θ − θ̄),      d_s = min(d, (1 + s)/(10 + s))

    Polyak & Juditsky 1992; exponential as in Kingma & Ba 2014, section 7.2 (arXiv:1412.6980). d_s is smaller in the
    first steps, to forget the random start. The mean of the last checkpoints (Vaswani et al. 2017, section 6.1) has
    a similar effect; the running average needs no files, and exact resume needs only two entries of state.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights: list[Tensor] = [weight for weight in model.parameters() if weight.requires_grad]
        self.names = [name for name, weight in model.named_parameters() if weight.requires_grad]
        self.mean = [weight.detach().clone() for weight in self.weights]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.mean, self.weights, 1 - decay)  # pyright: ignore[reportPrivateImportUsage]

    @contextmanager
    def use_average(self) -> Iterator[None]:
        """Use the averaged weights for validation and saving; restore the current weights at the end."""
        own = [weight.detach().clone() for weight in self.weights]
        self._put(self.mean)
        try:
            yield
        finally:
            self._put(own)

    @torch.no_grad()
    def _put(self, values: list[Tensor]) -> None:
        for weight, value in zip(self.weights, values, strict=True):
            weight.copy_(value)

    def tensors(self) -> dict[str, Tensor]:
        return dict(zip(self.names, self.mean, strict=True))


# The interfaces between the loop and the models and data it trains, independent of any job.


@runtime_checkable
class LossSum(Protocol):
    """What a trainable model's `forward(batch)` returns: the *sum* of the loss and how many items were summed."""

    @property
    def total(self) -> Tensor: ...
    @property
    def count(self) -> Any: ...


@runtime_checkable
class HasParameterGroups(Protocol):
    """A model whose parts have learning rates relative to the schedule's."""

    def rates(self) -> dict[Tensor, float]: ...


@runtime_checkable
class InStages(Protocol):
    """A model whose parts are trained one after the other: no step has a gradient for all weights."""

    in_stages: bool


@runtime_checkable
class TrainingBatch(Protocol):
    """One process's share of a batch."""

    def to(self, device: Any) -> Any: ...


@runtime_checkable
class BatchSource(Protocol):
    """The data in an order that depends only on (seed, epoch), so that a position in it is two integers.

    Batches are counted before they are split: each of `world` processes gets its part of every batch, so the same
    position means the same data for any number of processes. A process whose part is empty gets None.
    """

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[Any]: ...
    def len_epoch(self, number: int) -> int: ...


def decaying(model: nn.Module) -> set[nn.Parameter]:
    """Return the weights of linear and convolutional maps; norms, biases and embeddings do not decay."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return {weight for weight in model.parameters() if weight.ndim > 1 and id(weight) not in embeddings}


class Optimizer:
    """AdamW or Muon; every step takes a divisor of the gradient and a flag that skips the step."""

    def __init__(self, model: nn.Module, settings: TrainingSettings) -> None:
        decays = set(model.parameters()) if settings.decay_all else decaying(model)
        self.names: dict[Tensor, str] = {
            weight: name for name, weight in model.named_parameters() if weight.requires_grad
        }
        matrices = set(hidden_matrices(model)) if settings.optimizer == "muon" else set()
        rest = [weight for weight in self.names if weight not in matrices]
        paces: dict[Tensor, float] = model.rates() if isinstance(model, HasParameterGroups) else {}
        together: dict[tuple[float, float], list[Tensor]] = {}
        for weight in rest:
            decay = settings.weight_decay if weight in decays else 0.0
            together.setdefault((decay, paces.get(weight, 1.0)), []).append(weight)
        groups = [{"params": w, "weight_decay": decay, "pace": pace} for (decay, pace), w in together.items()]
        self.adam = None
        self._stepped = rest
        if groups:
            self.adam = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas, fused=True)
        self.muon = None
        if matrices:
            ordered = [weight for weight in self.names if weight in matrices]
            self.muon = Muon(ordered, momentum=settings.momentum, weight_decay=settings.weight_decay)

    def step(self, rate: float, divisor: Float[Tensor, ""], skip: Float[Tensor, ""]) -> None:
        """Update with gradient / divisor at this learning rate, or change nothing where skip is 1."""
        if self.muon is not None:
            self.muon.step(rate, divisor, skip)
        if self.adam is not None:
            for group in self.adam.param_groups:
                group["lr"] = rate * group["pace"]
            self.adam.grad_scale, self.adam.found_inf = divisor, skip  # pyright: ignore[reportAttributeAccessIssue]
            self.adam.step()
            increment_version(
                self._stepped
            )  # the fused kernel does not do it; packed copies of the weights are outdated now
            self.adam.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """Return the state by name, in the order of the model's parameters; a parameter never updated has none."""
        found = {} if self.muon is None else self.muon.tensors(self.names)
        if self.adam is not None:
            for weight, name in self.names.items():
                state = self.adam.state.get(weight, {})
                found |= {f"{name}.{part}": value for part, value in sorted(state.items())}
        return found

    def restore(self, saved: dict[str, Tensor], fill: Callable[[Tensor, Tensor], None]) -> None:
        """Load the state from `tensors`; `fill(target, value)` copies a whole tensor into a (part of a) tensor."""
        if self.muon is not None:
            self.muon.restore(saved, self.names, fill)
        for weight, name in self.names.items():
            if self.adam is None or f"{name}.step" not in saved:
                continue
            state = self.adam.state[weight]
            state["step"] = torch.zeros((), dtype=torch.float32, device=weight.device)
            state["exp_avg"] = torch.zeros_like(weight, memory_format=torch.preserve_format)
            state["exp_avg_sq"] = torch.zeros_like(weight, memory_format=torch.preserve_format)
            for part, value in state.items():
                fill(value, saved[f"{name}.{part}"])
