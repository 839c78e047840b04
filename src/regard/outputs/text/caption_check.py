"""The data check of pictures with captions, and what a model will cost on them."""

from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.cost.units import count
from regard.data.check_report import PERCENTILES, CheckReport, Finding, SideFigures, SplitFigures
from regard.data.tables import Role
from regard.data.tokenizer import Tokenizer
from regard.inputs.image.batches import BatchesAhead, Captions
from regard.inputs.image.check import picture_findings
from regard.inputs.image.store import PictureStore
from regard.outputs.text.caption_settings import CaptionDataSettings


def check(
    data: CaptionDataSettings,
    regions: int,
    stores: dict[Role, PictureStore],
    captions: dict[Role, Captions],
    tokenizer: Tokenizer,
    estimates: dict[str, str],
) -> CheckReport:
    """`regions`: vectors that a picture becomes; `captions`: those of each store."""
    splits: dict[Role, SplitFigures] = {}
    findings = picture_findings(stores, data.max_bad)
    for role, store in stores.items():
        rows = captions[role]
        image = SideFigures(regions * len(store), 0.0, dict.fromkeys(PERCENTILES, regions))
        unknown = rows.unknown / max(1, int(rows.all_lengths.sum()))
        lengths = {p: int(np.percentile(rows.all_lengths, p)) if len(rows.all_lengths) else 0 for p in PERCENTILES}
        text = SideFigures(int(rows.all_lengths.sum()), unknown, lengths)
        splits[role] = SplitFigures(store.name, len(store), store.read.bad, image, text, ("image", "caption"))
        if rows.overlong:
            what = f"{rows.overlong:,} captions longer than data.max_length={data.max_length} tokens"
            advice = "they are left out of training; raise data.max_length to keep them"
            findings.append(Finding("note", role, what, rows.overlong, store.name, [], advice))
        findings += _references(role, store)
    return CheckReport(splits, {"caption": tokenizer.size}, findings, estimates)


def _references(role: Role, store: PictureStore) -> list[Finding]:
    """Captions a picture, where they differ."""
    numbers = Counter(len(entry.texts) for entry in store.entries)
    if len(numbers) < 2:
        return []
    usual = numbers.most_common(1)[0][0]
    odd = [entry for entry in store.entries if len(entry.texts) != usual]
    what = f"{len(odd):,} pictures have more or fewer captions than the usual {usual}"
    names = ", ".join(entry.name for entry in odd[:3])
    return [Finding("note", role, what, len(odd), names, [], "nothing has to be done")]


def estimates(model: nn.Module, regions: int, batches: BatchesAhead[Any]) -> dict[str, str]:
    """`model` may be on the meta device: nothing is computed."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    frozen = sum(p.numel() for p in model.parameters()) - trained
    plan = batches.plan(0)
    captions = sum(map(len, plan))
    return {
        "parameters": count(trained) + (f", and {count(frozen)} that are frozen" if frozen else ""),
        "regions of a picture": f"{regions}",
        "batches in an epoch": f"{len(plan):,}, of {captions / max(1, len(plan)):.0f} captions",
    }


def nothing(rows: object, keys: object, epoch: int) -> torch.Tensor:
    """For batches that are planned, and not made."""
    raise AssertionError("planning reads no picture")
