"""Muon: momentum whose matrices are made orthogonal before they are used.

    m ← μ m + (1−μ) g,    u = (1−μ) g + μ m                       (Nesterov)
    θ ← θ − η (0.2 √max(rows, columns) · polar(u) + λ θ)          polar(U Σ Vᵀ) = U Vᵀ

Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks" (kellerjordan.github.io/posts/muon). A
gradient of a matrix has few large singular values; with all of them made 1, every direction is learnt alike. The factor
0.2 √max(rows, columns) gives a step the size of AdamW's, so that one learning rate and one decay λ serve for both: Liu
et al. 2025, section 2.2 (arXiv:2502.16982).

polar(u) is approached by Newton-Schulz steps, which are matrix products only:

    X₀ = u / |u|,    A = X Xᵀ,    X ← a X + (b A + c A²) X

with Jordan's (a, b, c), which send all singular values to between 0.7 and 1.2 in five steps: exactness gains nothing.

Where we differ: matrices of one shape are processed together, as one batch of products. Like the fused AdamW of
torch, a step divides the gradient by a tensor, and changes nothing where another tensor is 1.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

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
