"""One update of the weights.

    g = Σ ∂L/∂θ / Σ count        over all batches that are accumulated and all processes

Losses and gradients are summed first and divided once, so any split of a batch gives the same gradient. (A mean of
means would weigh the tokens of short batches more.) DDP and FSDP average over processes; the divisor reverses that.
Gradients longer than `clip` are scaled to that length: Pascanu et al. 2012, algorithm 1 (arXiv:1211.5063). The same
division does it, in the optimizer's kernel.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.settings.training import TrainingSettings
from regard.training.checkpoint import Tensors
from regard.training.optimizer import Average, Optimizer
from regard.training.parallel import Parallel

ABOVE_MEDIAN = (10.0, 100.0)  # of the loss, of the gradient norm
ABOVE_START, WINDOW = 4.0, 64


class SpikeDetector:
    """Detection of steps to skip: the loss or its gradient is NaN, infinite or has exploded.

    The loss of an item has *exploded* when it is more than ten times its median over the last 64 good steps; the
    gradient, when it is more than a hundred times as long. Batches of hard sentences stay well below, and are
    clipped. Both must also be more than four times their value at the start: late in a good run, both are near
    zero.

    Everything stays on the device: the skip flag is a tensor for the fused optimizer, so no step waits for the GPU.
    All inputs have been summed over processes before, so that all processes decide the same.
    """

    def __init__(self, device: torch.device) -> None:
        self.recent = torch.full((WINDOW, 2), torch.nan, device=device)
        self.above = torch.tensor(ABOVE_MEDIAN, device=device)
        self.start = torch.full((2,), torch.nan, device=device)

    def bad(self, step: int, seen: Float[Tensor, "2"]) -> Float[Tensor, ""]:
        """Return 1 if a step with this (loss, gradient norm) must be skipped, else 0; NaN medians compare as False."""
        median = self.recent.nanmedian(dim=0).values
        exploded = (seen > self.above * median) & (seen > ABOVE_START * self.start)
        bad = (exploded | ~seen.isfinite()).any()
        row = self.recent[step % WINDOW]
        row.copy_(torch.where(bad, row, seen))
        self.start.copy_(torch.where(self.start.isnan() & ~bad, seen, self.start))
        return bad.float()

    def tensors(self) -> dict[str, Tensor]:
        return {"spikes.recent": self.recent, "spikes.start": self.start}


class Update:
    """The model and everything else that a step changes.

    `spare()` returns some batch: a process without a share of a batch must still take part in the gradient exchange,
    with a loss of weight zero.
    """

    def __init__(
        self,
        model: nn.Module,
        settings: TrainingSettings,
        parallel: Parallel,
        spare: Callable[[], Any],
    ) -> None:
        self.model, self.settings, self.parallel, self.spare = model, settings, parallel, spare
        self.wrapped = parallel.wrap(model).train()
        if settings.compile == "on" or (settings.compile == "auto" and _worth_compiling(model, parallel.device)):
            self.wrapped.compile(dynamic=True)
        self.half = settings.precision == "bf16" or (settings.precision == "auto" and _has_bf16(parallel.device))
        self.optimizer = Optimizer(model, settings)
        self.average = Average(model, settings.average) if settings.average else None
        self.spikes = SpikeDetector(parallel.device)

    def __call__(self, step: int, shares: Sequence[Any], rate: float) -> Float[Tensor, "4"]:
        """Take step `step` on this process's shares of batches, at a learning rate.

        Return (sum of losses, count, gradient length, skipped) on the device, without waiting for the GPU.
        """
        parallel, clip = self.parallel, self.settings.clip
        parallel.seed(self.settings.seed, step)
        sums = torch.zeros(2, device=parallel.device)
        for number, share in enumerate(shares, 1):
            with parallel.accumulating(self.wrapped, last=number == len(shares)):
                total, count = self._loss(share)
                total.backward()
            sums += torch.stack([total.detach().float(), count])
        total, count = parallel.sum_(sums).unbind()
        count = count.clamp(min=1)

        divisor = count / parallel.world
        length = parallel.length([w.grad for w in self.optimizer.names if w.grad is not None]) / divisor
        bad = self.spikes.bad(step, torch.stack([total / count, length]))
        if clip:
            divisor = divisor * (length / clip).clamp(min=1)
        self.optimizer.step(rate, divisor, bad)
        if self.average is not None:
            self.average.update(step)
        return torch.stack([total, count, length, bad])

    def _loss(self, share: Any) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the sum and count of one share."""
        batch = self.spare() if share is None else share
        with torch.autocast(self.parallel.device.type, torch.bfloat16) if self.half else nullcontext():
            loss = self.wrapped(batch.to(self.parallel.device))
        count = loss.total.new_zeros((), dtype=torch.float32) + loss.count
        return (loss.total * 0, count * 0) if share is None else (loss.total, count)

    def use_average(self) -> AbstractContextManager[None]:
        """Use the weights for validation and export: the averaged ones, if they are kept."""
        return nullcontext() if self.average is None else self.average.use_average()

    def weights(self) -> Tensors:
        with self.use_average():
            return {name: value.clone() for name, value in self.parallel.weights(self.model).items()}

    def tensors(self) -> dict[str, Tensors]:
        """Return all whole tensors that exact resume needs. All processes must call it."""
        gather = self.parallel.gather
        tensors = {
            "weights": self.parallel.weights(self.model),
            "optimizer": {name: gather(value) for name, value in self.optimizer.tensors().items()},
            "spikes": self.spikes.tensors(),
        }
        if self.average is not None:
            tensors["average"] = {name: gather(value) for name, value in self.average.tensors().items()}
        return tensors

    def restore(self, saved: dict[str, Tensors]) -> None:
        self.parallel.load(self.model, saved["weights"])
        self.optimizer.restore(saved["optimizer"], self.parallel.fill)
        for name, value in self.spikes.tensors().items():
            self.parallel.fill(value, saved["spikes"][name])
        if self.average is not None:
            for name, value in self.average.tensors().items():
                self.parallel.fill(value, saved["average"][name])


def _worth_compiling(model: nn.Module, device: torch.device) -> bool:
    """Whether to compile: on GPUs, unless the model loops over time, where every length would compile again."""
    return device.type == "cuda" and not any(isinstance(m, nn.RNNBase | nn.RNNCellBase) for m in model.modules())


def _has_bf16(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_bf16_supported()
