"""Automatic settings of a tagger."""

from typing import Any

from regard.inputs.text import defaults as texts
from regard.settings.decisions import Plan, Sample, Size, watch


def decide(kinds: tuple[str, str], sample: Sample) -> Plan:
    cut = texts.tokenizer(sample.inputs, sample.count)
    lengths = texts.token_lengths(sample.inputs, cut)
    spans = any(tag.startswith("B-") for tags in sample.targets for tag in tags.split())
    metric, why = ("f1", "tags B- and I- mark spans: whole spans must be correct") if spans else ("accuracy", "of tags")
    decisions = [
        *cut, texts.longest(lengths), texts.held_out(sample.count, "sentences"),
        watch(metric, why),
    ]  # fmt: skip
    common: dict[str, Any] = {"kind": "recurrent", "cell": "lstm", "dropout": 0.3 if sample.count < 20_000 else 0.2}
    return Plan(decisions, [
        Size("small", {**common, "width": 128, "embedding": 96}, 6),
        Size("middle", {**common, "width": 256, "embedding": 128}, 10, 2000),
        Size("large", {**common, "width": 384, "embedding": 256}, 15, 20_000),
    ])  # fmt: skip
