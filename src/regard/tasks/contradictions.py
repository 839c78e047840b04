"""Settings of a recipe that contradict its data, the same for every job: tiny batches, truncated outputs."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from regard.data.check_report import CheckReport, Finding
from regard.data.examples import Examples
from regard.data.tables import Role
from regard.tasks.base import Output

FEW = 2  # minimum mean examples per batch; smaller batches train unstably
WANTED = 16
LONG = 0.01  # share of all targets


def contradictions(output: Output, splits: dict[Role, Any], report: CheckReport) -> Iterator[Finding]:
    train, training = splits["train"], output.recipe.training
    if not len(train) or "train" not in report.splits:
        return
    file, sides = report.splits["train"].file, report.splits["train"].sides
    each = len(train) / max(1, output.batches(train, training.max_tokens).len_epoch(0)) * training.accumulate
    if each < min(FEW, len(train) / 4):
        what = f"{each:.2g} {sides[0]} a step: training.max_tokens={training.max_tokens} holds no more"
        advice = f"set training.max_tokens={round(training.max_tokens * WANTED / each)}, or training.accumulate"
        yield Finding("warning", "train", what, len(train), file, [], advice)
    longest = getattr(getattr(output.recipe, "decoding", None), "max_length", None)
    if longest is not None and output.writes_text and isinstance(train, Examples):
        lengths = train.lengths()[1] - 1  # without the end token
        cut = lengths > longest
        if len(lengths) and cut.mean() > LONG:
            what = f"{cut.mean():.0%} of the {sides[1]}s are longer than decoding.max_length={longest} tokens"
            advice = f"outputs would be cut: set decoding.max_length={int(np.max(lengths) * 1.2) + 1}"
            yield Finding("warning", "train", what, int(cut.sum()), file, [], advice)
