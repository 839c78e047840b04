"""Tokens a second in training: the same batches, an update each.

One thread is timed by its processor time, so that other work on the machine does not count.
"""

import statistics
import time
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from peers.messages import has, median_ratio
from peers.models import SMOOTHING, MarianPeer, TorchPeer, XPeer, ours
from regard.data.examples import ExampleBatch
from regard.job import Job
from regard.settings.training import TrainingSettings
from regard.special_tokens import PAD, START
from regard.training.parallel import Parallel
from regard.training.update import Update

MAX_TOKENS = 8192  # source and target, padding included: about 4,096 target tokens
WARM_UP = 2  # updates that are not timed
CLIP, RATE = 1.0, 3e-4


class PlainLoop:
    """An update as it is usually written, for a model that gives logits."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model.train()
        self.adam = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)

    def __call__(self, batch: ExampleBatch[Any]) -> None:
        begun = torch.cat([torch.full_like(batch.target[:, :1], START), batch.target[:, :-1]], dim=1)
        logits = self.model(batch.source, begun)
        loss = F.cross_entropy(
            logits.flatten(0, 1), batch.target.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
        )
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)


class OurLoop:
    """The update that `regard train` makes."""

    def __init__(self) -> None:
        self.model, self.number = ours(norm_first=True), 0
        how = TrainingSettings.model_validate({"learning_rate": RATE, "clip": CLIP, "device": "cpu"})
        one_process = Parallel(device=torch.device("cpu"))
        self.update = Update(self.model, how, one_process, spare=lambda: None)

    def __call__(self, batch: ExampleBatch[Any]) -> None:
        self.update(self.number, [batch], RATE)
        self.number += 1


def benchmark_training(data: Job, rounds: int) -> list[dict]:
    batches = islice(data.output.batches(data.splits["train"], MAX_TOKENS).epoch(0), rounds + WARM_UP)
    loops: dict[str, OurLoop | PlainLoop] = {"regard": OurLoop(), "torch.nn.Transformer": PlainLoop(TorchPeer())}
    if has("transformers"):
        loops["Hugging Face Marian"] = PlainLoop(MarianPeer())
    if has("x_transformers"):
        loops["x-transformers"] = PlainLoop(XPeer())
    speeds: dict[str, list[float]] = {name: [] for name in loops}
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    for number, batch in enumerate(batches):
        tokens = int((batch.source != PAD).sum() + (batch.target != PAD).sum())
        for name, loop in loops.items():
            start = clock()
            loop(batch)
            if number >= WARM_UP:
                speeds[name].append(tokens / (clock() - start))
    return [
        {
            "system": name,
            "tokens_per_second": statistics.median(found),
            "ratio": median_ratio(speeds["regard"], found),
            "parameters": sum(w.numel() for w in loops[name].model.parameters() if w.requires_grad),
            "rounds": found,
        }
        for name, found in speeds.items()
    ]
