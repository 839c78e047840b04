"""Hardware data: operations per second, memory, bandwidth; of some GPUs by name, and of this machine by measurement.

Peaks are the manufacturers' figures for dense matrices (no sparsity), with float32 accumulation. Models reach only a
share of them, `utilization`. Large training runs report between 0.2 and 0.5 of the peak (GPT-3 0.21, PaLM 0.46:
Chowdhery et al. 2022, arXiv:2204.02311, Table 3), and we assume 0.4. Of the *measured* matrix product of a CPU, a
training step of a small Transformer gets about half.
"""

import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.cost.counting import Kept
from regard.errors import CallError, nearest

GPU_UTILIZATION = 0.4
HERE_UTILIZATION = 0.5


@dataclass(frozen=True)
class Hardware:
    """`count` devices, each with a peak by data type (first the usual one for training)."""

    name: str
    peak: dict[str, float]  # floating-point operations per second
    memory: float  # bytes
    bandwidth: float  # bytes per second
    source: str
    utilization: float = GPU_UTILIZATION
    count: int = 1

    @property
    def dtype(self) -> str:
        return next(iter(self.peak))

    def __str__(self) -> str:
        return self.name if self.count == 1 else f"{self.count} × {self.name}"


def _gpu(name: str, peak: dict[str, float], gigabytes: float, bandwidth: float, source: str) -> Hardware:
    return Hardware(
        name, {dtype: tera * 1e12 for dtype, tera in peak.items()}, gigabytes * 1e9, bandwidth * 1e9, source
    )


#: TFLOP/s, GB and GB/s. float32 is without TF32, which torch disables by default.
NAMED = {
    "t4": _gpu("T4", {"float16": 65.0, "float32": 8.1}, 16.0, 320.0, "NVIDIA T4 data sheet"),
    "p100": _gpu("P100", {"float32": 10.6, "float16": 21.2}, 16.0, 732.0, "NVIDIA Tesla P100 data sheet, SXM2"),
    "v100": _gpu("V100", {"float16": 125.0, "float32": 15.7}, 32.0, 900.0, "NVIDIA V100 data sheet, SXM2"),
    "a100": _gpu(
        "A100",
        {"bfloat16": 312.0, "float16": 312.0, "float32": 19.5},
        80.0,
        2039.0,
        "NVIDIA A100 data sheet, SXM 80 GB",
    ),
    "h100": _gpu(
        "H100", {"bfloat16": 989.0, "float16": 989.0, "float32": 67.0}, 80.0, 3350.0, "NVIDIA H100 data sheet, SXM"
    ),
    "rtx4090": _gpu(
        "RTX 4090",
        {"bfloat16": 165.0, "float16": 165.0, "float32": 82.6},
        24.0,
        1008.0,
        "NVIDIA Ada architecture white paper",
    ),
}


def find(name: str) -> Hardware:
    """Return the hardware of a name: `here` (measured), or a GPU with an optional count, such as `a100:8`."""
    kind, _, times = name.lower().partition(":")
    if times and not (times.isdigit() and int(times) > 0):
        raise CallError(f"hardware={name!r}: the count after the colon must be a positive number, as in {kind}:8")
    if kind == "here":
        if times:
            raise CallError(f"hardware={name!r}: 'here' is one machine; remove the count")
        return here()
    if kind not in NAMED:
        raise CallError(f"hardware={name!r} is not known{nearest(kind, ['here', *NAMED])}")
    return replace(NAMED[kind], count=int(times or 1))


def processor() -> str:
    """Describe the processor for timings, with the vector units that torch uses: `AMD EPYC, 2 threads, AVX512`."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"


def here(seconds: float = 1.0) -> Hardware:
    """Measure this machine for `seconds`: the fastest float32 matrix product (1024³) and copy of 64 MB."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    device = accelerator or torch.device("cpu")
    a, b = torch.randn(2, 1024, 1024, device=device).unbind()
    source = torch.ones(16 * 2**20, device=device)
    target = torch.empty_like(source)
    product = _fastest(lambda: torch.mm(a, b), device, seconds / 2)
    copy = _fastest(lambda: target.copy_(source), device, seconds / 2)
    return Hardware(
        "this machine",
        {"float32": 2 * 1024**3 / product},
        _memory(device),
        2 * source.nbytes / copy,  # a copy reads every byte and writes it
        f"measured, {device.type}" + (f", {torch.get_num_threads()} threads" if accelerator is None else ""),
        utilization=HERE_UTILIZATION,
    )


def _memory(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[1])
    return float(machine_memory())


def machine_memory() -> int:
    """Return the memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _fastest(run: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Return the fastest time: disturbances only add time."""
    best, rounds, end = math.inf, 0, time.perf_counter() + seconds
    while rounds < 4 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        best, rounds = min(best, time.perf_counter() - start), rounds + 1
    return best


# Timing: several cases in interleaved rounds, and the fastest run of each.


def fastest_runs(
    cases: dict[tuple[str, int, int], Callable[[], None]],
    seconds: float,
    device: torch.device,
    clock: Callable[[], float],
) -> tuple[dict[tuple[str, int, int], float], int]:
    """Return the fastest run of every case, and the number of rounds."""
    best = dict.fromkeys(cases, math.inf)
    for run in cases.values():
        _seconds(run, device, clock)  # first calls allocate and choose kernels
    rounds, end = 0, time.perf_counter() + seconds
    while rounds < 3 or time.perf_counter() < end:
        for case, run in cases.items():
            best[case] = min(best[case], _seconds(run, device, clock))
        rounds += 1
    return best, rounds


def _seconds(run: Callable[[], None], device: torch.device, clock: Callable[[], float]) -> float:
    start = clock()
    run()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return clock() - start


# Measure the cost of one training step on this machine, for any model and batch.
#
# It is measured because the number of counted tokens is known only when the loss is computed.
#
#     memory   16 bytes per trained weight (as `cost/estimate.py`), 4 per frozen weight, and the activations of a
#     batch
#     time     of a forward and a backward pass; the optimizer needs little time in comparison


class StepCost(NamedTuple):
    seconds: float
    weights: int  # bytes that training keeps for weights
    activations: int  # bytes that it keeps for this batch


def weight_bytes(model: nn.Module) -> int:
    return sum(weight.numel() * (16 if weight.requires_grad else 4) for weight in model.parameters())


def step_cost(model: nn.Module, batch: Any) -> StepCost:
    """Measure a step; `model(batch)` returns a loss with `total`. The random state is restored."""
    kept = Kept({parameter.untyped_storage()._cdata for parameter in model.parameters()})
    with torch.random.fork_rng([]), torch.enable_grad():
        with torch.autograd.graph.saved_tensors_hooks(kept.add, lambda tensor: tensor), kept:
            model(batch)  # also a warm-up
        begin = time.perf_counter()
        model(batch).total.backward()
        seconds = time.perf_counter() - begin
    model.zero_grad(set_to_none=True)
    return StepCost(seconds, weight_bytes(model), 4 * kept.numbers + kept.bytes)
