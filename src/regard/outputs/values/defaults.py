"""What is decided for a forecaster, where nobody else has."""

from typing import Any

from regard.inputs.series import defaults as series
from regard.settings.decisions import Plan, Sample, Size


def decide(kinds: tuple[str, str], sample: Sample) -> Plan:
    decisions, look_back, window = series.windows(sample.inputs[0])
    patch = 16 if look_back >= 128 else max(1, look_back // 8)
    common: dict[str, Any] = {
        "kind": "patch", "patch": patch, "stride": patch, "heads": 4, "dropout": 0.2, "shortcut": True,
        "instance_norm": "last",
    }  # fmt: skip
    return Plan(decisions, [
        Size("small", {**common, "width": 16, "feed_forward": 64, "layers": 2}, 4),
        Size("middle", {**common, "width": 32, "feed_forward": 128, "layers": 2}, 30),
    ], 16 * window)  # fmt: skip
