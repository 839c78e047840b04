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

import torch
from torch import Tensor, nn

from regard.attention import MultiHead
from regard.cost.counting import count_pass, parameter_parts
from regard.cost.hardware import Hardware
from regard.encoders.image import VisionTransformer
from regard.errors import CallError, nearest
from regard.models.classifier import Classifier
from regard.models.language_model import LanguageModel
from regard.models.seq2seq import Seq2Seq

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
        from regard.cost.picture import cost_table

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


# Readable numbers with units.

_DURATIONS = (
    (1e-3, 1e-6, "µs"),  # below this many seconds, shown in units of this many seconds, by this name
    (1.0, 1e-3, "ms"),
    (60.0, 1.0, "s"),
    (3600.0, 60.0, "min"),
    (48 * 3600.0, 3600.0, "h"),
    (math.inf, 86400.0, "days"),
)


def duration(seconds: float) -> str:
    """Format a duration with a suitable unit: `35 µs`, `1.2 s`, `3.5 days`."""
    unit, name = next((unit, name) for limit, unit, name in _DURATIONS if seconds < limit)
    return f"{_three_digits(seconds / unit)} {name}"


def count(number: int | float) -> str:
    """Format a count in thousands, millions, billions (10⁹), trillions: `65.1M`, `1.56B`."""
    for size, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{_three_digits(number / size)}{suffix}"
    return f"{number:.0f}"


def memory(size: int | float) -> str:
    """Format bytes in powers of 1000, as GPU manufacturers do: `80 GB`."""
    for unit, suffix in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{_three_digits(size / unit)} {suffix}"
    return f"{size:.0f} B"


def operations(number: int | float) -> str:
    """Format floating-point operations: `126 MFLOP`, and from 10¹⁵ on as in papers, `3.3e18 FLOP`."""
    if number >= 1e15:
        return f"{number:.2g} FLOP".replace("e+", "e")
    for unit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{_three_digits(number / unit)} {prefix}FLOP"
    return f"{number:.0f} FLOP"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


# Cost of a model of this package: one pass of each kind of model on synthetic input, for `estimate`.


def model_cost(
    model: nn.Module,
    *,
    batch: int,
    length: int,
    name: str = "model",
    hardware: Hardware | None = None,
    dtype: str | None = None,
    utilization: float | None = None,
    training_tokens: int | None = None,
    notes: tuple[str, ...] = (),
) -> Cost:
    """Estimate the cost of a translator, language model or classifier on the meta device. See `estimate`.

    Operations of a translator are per target token and source token: sources are as long as targets.
    """
    device = next(model.parameters()).device
    tokens = torch.ones(batch, length, dtype=torch.long, device=device)
    unit, decoder = "token", None
    forward: Callable[[], Tensor]
    if isinstance(model, Seq2Seq):
        decoder, forward = model.decoder, lambda: model.logits(model.features(model.encode(tokens), tokens))
    elif isinstance(model, LanguageModel):
        decoder, forward = model.decoder, lambda: model.logits(model.features(tokens))
    elif isinstance(model, Classifier) and isinstance(model.encoder, VisionTransformer):
        images = torch.zeros(batch, model.encoder.channels, *model.encoder.size, device=device)
        unit, forward = "image", lambda: model.logits(images)
    elif isinstance(model, Classifier):
        forward = lambda: model.logits(tokens)  # noqa: E731
    else:
        raise TypeError(
            f"a {type(model).__name__} has no cost estimate: use a translator, language model or classifier"
        )
    return estimate(
        model,
        forward,
        batch=batch,
        length=length,
        name=name,
        unit=unit,
        decoder=decoder,
        hardware=hardware,
        dtype=dtype,
        utilization=utilization,
        training_tokens=training_tokens,
        notes=notes,
    )
