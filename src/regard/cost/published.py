"""Published models by name, built from modules of this package on the meta device, with the figures of their papers.

`docs/cost.md` lists inconsistent figures in papers, and the chosen values.
"""

import torch
from torch import nn

from regard.cost.estimate import Cost
from regard.cost.hardware import Hardware
from regard.cost.passes import model_cost
from regard.cost.published_models import Published, gpt_entry, transformer_entry, vit_entry
from regard.cost.units import count
from regard.errors import CallError, nearest

_GPT2 = "Radford et al. 2019, Table 2; count of the published weights"
_GPT3 = "Brown et al. 2020, arXiv:2005.14165, Table 2.1"
_VIT = "Dosovitskiy et al. 2020, arXiv:2010.11929, Table 1"
_DEIT = "Touvron et al. 2020, arXiv:2012.12877, Table 1"

PUBLISHED: dict[str, Published] = {
    "transformer-base": transformer_entry(
        512, 8, 2048, 41_000, 65e6, 100_000,
        (
            "WMT14: 27.3 BLEU English-German, 38.1 English-French (Table 2)",
            "vocabulary of 41,000, as the paper's Table 3 implies; with the 37,000 of its text, 63.1M (docs/cost.md)",
        ),
    ),
    "transformer-big": transformer_entry(
        1024, 16, 4096, 37_000, 213e6, 300_000, ("WMT14: 28.4 BLEU English-German, 41.8 English-French (Table 2)",)
    ),
    "gpt2": gpt_entry("gpt2", 124e6, _GPT2),
    "gpt2-medium": gpt_entry("gpt2-medium", 355e6, _GPT2),
    "gpt2-large": gpt_entry("gpt2-large", 774e6, _GPT2),
    "gpt2-xl": gpt_entry("gpt2-xl", 1.56e9, _GPT2),
    "gpt3-small": gpt_entry("gpt3-small", 125e6, _GPT3, 300_000_000_000),
    "gpt3-medium": gpt_entry("gpt3-medium", 350e6, _GPT3, 300_000_000_000),
    "gpt3-large": gpt_entry("gpt3-large", 760e6, _GPT3, 300_000_000_000),
    "gpt3-1.3b": gpt_entry("gpt3-1.3b", 1.3e9, _GPT3, 300_000_000_000),
    "gpt3-2.7b": gpt_entry("gpt3-2.7b", 2.7e9, _GPT3, 300_000_000_000),
    "gpt3-6.7b": gpt_entry("gpt3-6.7b", 6.7e9, _GPT3, 300_000_000_000),
    "gpt3-13b": gpt_entry("gpt3-13b", 13e9, _GPT3, 300_000_000_000),
    "gpt3-175b": gpt_entry("gpt3-175b", 175e9, _GPT3, 300_000_000_000),
    "vit-ti16": vit_entry(192, 3, 5.7e6, _DEIT),
    "vit-s16": vit_entry(384, 6, 22e6, _DEIT),
    "vit-b16": vit_entry(768, 12, 86e6, _VIT),
}  # fmt: skip


def build(name: str) -> nn.Module:
    """Build a published model on the meta device."""
    with torch.device("meta"):
        return find(name).build()


def find(name: str) -> Published:
    if name not in PUBLISHED:
        raise CallError(f"{name!r} is not a known published model{nearest(name, PUBLISHED)}")
    return PUBLISHED[name]


def published_cost(
    name: str,
    *,
    hardware: Hardware | None = None,
    dtype: str | None = None,
    utilization: float | None = None,
    batch: int | None = None,
    length: int | None = None,
) -> Cost:
    """Estimate the cost of a published model, by default with its published batch and length."""
    entry = find(name)
    return model_cost(
        build(name),
        batch=batch or entry.batch,
        length=length or entry.length,
        name=name,
        hardware=hardware,
        dtype=dtype,
        utilization=utilization,
        training_tokens=entry.training_tokens,
        notes=(f"published: {count(entry.parameters)} parameters, {entry.source}", *entry.notes),
    )
