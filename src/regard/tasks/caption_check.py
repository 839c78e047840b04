"""The data check of captioning: pictures, captions, and what the model will cost on them."""

from collections import Counter

import numpy as np
import torch

from regard.cost.units import count
from regard.data.check import PERCENTILES, CheckReport, Finding, SideFigures, SplitFigures
from regard.data.image_batches import CaptionBatches, Captions
from regard.data.image_check import picture_findings
from regard.data.image_store import PictureStore
from regard.data.tables import Role
from regard.data.tokens import Tokenizer
from regard.settings.caption import CaptionRecipe
from regard.tasks.caption_build import build_captioner
from regard.tasks.pictures import regions_of


def check(recipe: CaptionRecipe, stores: dict[Role, PictureStore], tokenizer: Tokenizer) -> CheckReport:
    data = recipe.data
    regions = regions_of(recipe.model.encoder, data)
    splits: dict[Role, SplitFigures] = {}
    findings = picture_findings(stores, data.max_bad)
    captions = {role: Captions(store, tokenizer, data.max_length) for role, store in stores.items()}
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
    return CheckReport(splits, {"caption": tokenizer.size}, findings, _estimates(recipe, captions["train"], tokenizer))


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


def _estimates(recipe: CaptionRecipe, captions: Captions, tokenizer: Tokenizer) -> dict[str, str]:
    with torch.device("meta"):
        model = build_captioner(recipe, tokenizer.size)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    frozen = sum(p.numel() for p in model.parameters()) - trained
    regions = regions_of(recipe.model.encoder, recipe.data)
    batches = CaptionBatches(captions, _nothing, regions, recipe.training.max_tokens, seed=recipe.training.seed)
    plan = batches.plan(0)
    return {
        "parameters": count(trained) + (f", and {count(frozen)} that are frozen" if frozen else ""),
        "regions of a picture": f"{regions}",
        "batches in an epoch": f"{len(plan):,}, of {len(captions) / max(1, len(plan)):.0f} captions",
    }


def _nothing(rows: object, keys: object, epoch: int) -> torch.Tensor:
    raise AssertionError("planning reads no picture")
