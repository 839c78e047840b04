"""Automatic settings of a forecaster."""

from typing import Any

from regard.inputs.series import defaults as series
from regard.settings.decisions import Plan, Sample, Size

SAMPLE, SERIES = 8000, 20  # steps of a series, and number of series, for measuring the speed of a model
FEWEST, USUAL = 16, 64  # windows of a batch: neighbors are similar, so small batches carry little information


def decide(kinds: tuple[str, str], sample: Sample) -> Plan:
    decisions, look_back, window = series.windows(sample.inputs[0], sample.told)
    facts = sample.inputs[0]
    steps = max(SAMPLE, 4 * window) * min(facts.series, SERIES)
    week = 3 <= facts.season <= 16 and look_back >= 3 * facts.season
    patch = facts.season if week else 16 if look_back >= 128 else max(1, look_back // 8)
    levels = facts.series > 1  # several series have different levels and spreads
    norm = "window" if levels else "last"
    if facts.categories:  # patches read each target separately
        common: dict[str, Any] = {"kind": "recurrent", "context": "attention", "dropout": 0.1, "instance_norm": norm}
        sizes = [Size("small", {**common, "width": 32}, 6), Size("middle", {**common, "width": 64}, 20)]
        return Plan(decisions, sizes, FEWEST * window, USUAL * window, steps)
    common = {
        "kind": "patch", "patch": patch, "stride": patch, "heads": 4, "dropout": 0.2, "shortcut": True,
        "instance_norm": norm,
    }  # fmt: skip
    return Plan(decisions, [
        Size("small", {**common, "width": 16, "feed_forward": 64, "layers": 2}, 2),
        Size("middle", {**common, "width": 32, "feed_forward": 128, "layers": 2}, 30),
    ], FEWEST * window, USUAL * window, steps)  # fmt: skip
