"""Estimate the cost of a model before building it: parameters, operations, memory, and time on given hardware.

    training memory   16 bytes a parameter + activations kept for the backward pass
    decoding memory   weights + key/value cache · length · batch
    training time     operations / (devices · peak · utilization)
    decoding time     for one step, the larger of (weights + cache) / bandwidth and operations / (peak · utilization)

16 bytes: float32 weights, gradients, and the two moments of AdamW (Loshchilov and Hutter 2017, arXiv:1711.05101).
Mixed precision follows torch's autocast: float32 weights, gradients and moments, and activations of the smaller type.
Time on several devices excludes communication, so it is a lower bound.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from regard.attention import MultiHead
from regard.cost.counting import count_pass, parameter_parts
from regard.cost.hardware import Hardware
from regard.errors import CallError, nearest

if TYPE_CHECKING:
    from rich.table import Table

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class MemoryCost:
    """Bytes for the requested batch and length; `devices`: number of devices needed to hold them."""

    training: int
    weights: int  # of training: these four
    gradients: int
    optimizer: int
    activations: int
    decoding: int
    decoding_weights: int  # of decoding: these two
    kv_cache: int
    kv_cache_per_token: int
    training_devices: int | None
    decoding_devices: int | None


@dataclass(frozen=True)
class TimeCost:
    """Time on the hardware."""

    hardware: str
    dtype: str
    peak: float  # operations a second, of one device
    utilization: float  # assumed share of the peak
    source: str
    training_tokens_per_second: float
    decoding_tokens_per_second: float  # of the whole batch
    training_tokens: int | None
    training_seconds: float | None
    training_flops: float | None


@dataclass(frozen=True)
class Cost:
    """The full estimate. Operations are counted per `unit`: a token or an image."""

    name: str
    unit: str
    batch: int
    length: int
    parameters: int
    parts: dict[str, int]
    flops_per_token: dict[str, float]  # forward, training
    memory: MemoryCost
    time: TimeCost | None
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain dicts, numbers and strings, for JSON."""
        return asdict(self)

    def table(self) -> "Table":
        """Return a table for the terminal."""
        from regard.cost.report import cost_table

        return cost_table(self)


def estimate(
    model: nn.Module,
    forward: Callable[[], Tensor],
    *,
    batch: int,
    length: int,
    name: str = "model",
    unit: str = "token",
    decoder: nn.Module | None = None,
    hardware: Hardware | None = None,
    dtype: str | None = None,
    utilization: float | None = None,
    training_tokens: int | None = None,
    notes: tuple[str, ...] = (),
) -> Cost:
    """Estimate the cost of a model on the meta device, from one pass over `batch` rows of `length` tokens.

    `forward` runs this pass and returns the logits. Operations are for each of the batch · length tokens; with
    `unit="image"` for each of the batch rows. `decoder` is the part whose attention is cached when decoding (None: the
    model does not decode). `dtype` and `utilization` take precedence over the hardware's own.
    """
    dtype = _checked_dtype(dtype, hardware)
    if utilization is not None and not 0 < utilization <= 1:
        raise CallError(f"utilization={utilization} must be above 0 and at most 1: it is a share of the peak")
    counts = count_pass(model, forward)
    units = batch if unit == "image" else batch * length
    parameters = sum(parameter.numel() for parameter in model.parameters())
    flops = {"forward": counts.forward / units, "training": (counts.forward + counts.backward) / units}
    cached = cached_numbers(decoder) * BYTES[dtype] if decoder is not None else 0
    activations = counts.kept_numbers * BYTES[dtype] + counts.kept_bytes
    training, decoding = 16 * parameters + activations, BYTES[dtype] * parameters + cached * batch * length
    memory = MemoryCost(
        training,
        4 * parameters,
        4 * parameters,
        8 * parameters,
        activations,
        decoding,
        BYTES[dtype] * parameters,
        cached * batch * length,
        cached,
        math.ceil(training / hardware.memory) if hardware else None,
        math.ceil(decoding / hardware.memory) if hardware else None,
    )
    time = None
    if hardware:
        share = hardware.utilization if utilization is None else utilization
        speed = hardware.count * hardware.peak[dtype] * share
        step = max(decoding / (hardware.count * hardware.bandwidth), batch * flops["forward"] / speed)
        total = None if training_tokens is None else flops["training"] * training_tokens
        time = TimeCost(
            str(hardware),
            dtype,
            hardware.peak[dtype],
            share,
            hardware.source,
            speed / flops["training"],
            batch / step,
            training_tokens,
            None if total is None else total / speed,
            total,
        )
    return Cost(name, unit, batch, length, parameters, parameter_parts(model), flops, memory, time, notes)


def _checked_dtype(dtype: str | None, hardware: Hardware | None) -> str:
    known = list(hardware.peak if hardware else BYTES)
    if dtype is None:
        return hardware.dtype if hardware else "float32"
    if dtype not in known:
        raise CallError(
            f"dtype={dtype!r} is not known{f' for {hardware.name}' if hardware else ''}{nearest(dtype, known)}"
        )
    return dtype


def cached_numbers(decoder: nn.Module) -> int:
    """Return the number of cached keys and values per token: 2 · kv_heads · head_width per attention and layer.

    With cross-attention, the source counts as long as the target. A recurrent decoder has no cache: its state does not
    grow.
    """
    return sum(
        sum(attention.sizes[1:])  # of queries, keys and values
        for attention in decoder.modules()
        if isinstance(attention, MultiHead)
    )
