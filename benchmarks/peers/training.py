"""Tokens a second in training: the same batches, an update each."""

import statistics
import time
from itertools import islice

import torch
from torch import nn
from torch.nn import functional as F

from peers.messages import has, say
from peers.models import SMOOTHING, MarianPeer, TorchPeer, XPeer, ours
from regard.data.batches import PairBatch, TokenBatches
from regard.data.prepare import PreparedPairs
from regard.decoding.protocol import PAD, START
from regard.settings.training import TrainingSettings
from regard.training.parallel import Parallel
from regard.training.update import Update

CLIP, RATE = 1.0, 3e-4


class PlainLoop:
    """An update as it is usually written, for a model that gives logits."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model.train()
        self.adam = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)

    def __call__(self, batch: PairBatch) -> None:
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

    def __init__(self, batch: PairBatch) -> None:
        self.model, self.number = ours(norm_first=True), 0
        how = TrainingSettings.model_validate({"learning_rate": RATE, "clip": CLIP, "device": "cpu"})
        self.update = Update(self.model, how, Parallel(device=torch.device("cpu")), lambda _: RATE, lambda: batch)

    def __call__(self, batch: PairBatch) -> None:
        self.update(self.number, [batch])
        self.number += 1


def benchmark_training(data: PreparedPairs, rounds: int, steps: int) -> list[dict]:
    longest = 8192  # source and target, padding included: about 4,096 target tokens
    batches = list(islice(TokenBatches(data.train, longest).epoch(0), rounds * steps + 1))
    loops: dict[str, OurLoop | PlainLoop] = {"regard": OurLoop(batches[0])}
    loops["torch.nn.Transformer"] = PlainLoop(TorchPeer())
    for name, package, peer in (
        ("Hugging Face Marian", "transformers", MarianPeer),
        ("x-transformers", "x_transformers", XPeer),
    ):
        if has(package):
            loops[name] = PlainLoop(peer())
    for loop in loops.values():
        loop(batches[0])
    speeds: dict[str, list[float]] = {name: [] for name in loops}
    for number in range(rounds):
        some = batches[1 + number * steps :][:steps]
        tokens = sum(int((side != PAD).sum()) for batch in some for side in (batch.source, batch.target))
        for name, loop in loops.items():
            start = time.perf_counter()
            for batch in some:
                loop(batch)
            speeds[name].append(tokens / (time.perf_counter() - start))
        say(f"round {number + 1}: " + ", ".join(f"{name} {found[-1]:,.0f}" for name, found in speeds.items()))
    return [
        {
            "system": name,
            "tokens_per_second": statistics.median(found),
            "parameters": sum(w.numel() for w in loops[name].model.parameters() if w.requires_grad),
            "rounds": found,
        }
        for name, found in speeds.items()
    ]
