"""Which past times each step attended to, as a record: rows are steps ahead, columns steps (or patches) of the past."""

from dataclasses import dataclass

import numpy as np
import torch

from regard.attention import Trace
from regard.errors import CallError
from regard.inputs.series.windows import Layout, SeriesBatch
from regard.look import Attention, AttentionRecord, Axis
from regard.look.axis import axis
from regard.look.records import Kind
from regard.models.forecaster import Forecaster
from regard.models.patch_forecaster import PatchForecaster
from regard.outputs.values.scoring import is_cross


@dataclass(frozen=True)
class Seen:
    """One window, with the names of its times and the numbers of the series that the picture shows."""

    batch: SeriesBatch
    past: list[str]
    ahead: list[str]
    signal: np.ndarray  # of the past, in the user's units
    target: int


def look(model: Forecaster, lay: Layout, seen: Seen, *, name: str, input: str, output: str) -> AttentionRecord:
    with torch.no_grad(), Trace(model) as trace:
        model.predict(seen.batch.past, seen.batch.known)
    try:
        names = trace.names
    except RuntimeError:
        raise CallError("this model has no attention (model.context is not attention): nothing to look at") from None
    if isinstance(model, PatchForecaster):
        return _patches(model, trace, seen, name, input, output)
    axes = {"target": axis(seen.ahead), "source": _past(seen, seen.past, lay.look_back)}
    attentions = []
    for module in names:
        kind: Kind = "cross" if is_cross(module) else "encoder" if module.startswith("encoder.") else "decoder"
        rows, columns = ("source", "source") if kind == "encoder" else ("target", "source")
        columns = "target" if kind == "decoder" else columns
        weights = trace[module][0].float().cpu().numpy()
        attentions.append(Attention(module, kind, _layer(module), weights, rows, columns))
    attentions.sort(key=lambda one: ("cross", "encoder", "decoder").index(one.kind))
    return AttentionRecord(tuple(attentions), axes, model=name, input=input, output=output)


def _patches(model: PatchForecaster, trace: Trace, seen: Seen, name: str, input: str, output: str) -> AttentionRecord:
    """Self-attention of the patches of one target: its row of the batch, which has a row for each target."""
    encoder = model.encoder
    starts = [min(p * encoder.stride, len(seen.past) - 1) for p in range(encoder.patches)]
    patches = _past(seen, [seen.past[start] for start in starts], encoder.stride)
    attentions = tuple(
        Attention(
            module, "encoder", _layer(module), trace[module][seen.target].float().cpu().numpy(), "source", "source"
        )
        for module in trace.names
    )
    return AttentionRecord(attentions, {"source": patches}, model=name, input=input, output=output)


def _past(seen: Seen, labels: list[str], stride: int) -> Axis:
    """Times are counted in steps from the first that was read: calendars have steps of unequal length."""
    steps = len(seen.past) / len(labels) if len(labels) == len(seen.past) else float(stride)
    times = [place * steps for place in range(len(labels))]
    until = max(float(len(seen.past)), times[-1] + steps)
    return axis(labels, times=times, until=until, unit="steps", signal=seen.signal)


def _layer(name: str) -> int:
    return int(name.split(".layers.")[1].split(".")[0]) if ".layers." in name else 0
