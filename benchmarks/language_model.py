"""tiny Shakespeare, characters: the recipe `shakespeare` compared with a plain loop with nanoGPT's documented settings.

    python benchmarks/language_model.py [--steps 2000] [--short 400] [--plain-steps 2400] [--threads 1] [--seed 1]

Settings of both: 4 layers, 4 heads, width 128, context 64; the first 90% of the text for training, the rest for
validation. There is no test part: all losses are validation losses. The settings of the recipe were tuned on this loss;
those of the plain loop are nanoGPT's. Both take turns in one process, a 25th part of their tokens each, so that a
disturbance of the machine affects both. Only training is timed, batches included; with one thread by processor time.

Pass: the recipe, with 1.54 M training tokens, has a loss of at most 1.62; with a fifth of them
(`training.max_steps=300`, so that its schedule ends there) it reaches 1.886 in a third of the plain loop's time.

nanoGPT documents 1.88 for 2,000 steps of 12 windows (1.54 M tokens). That is an estimate by 240 random windows, which
varies by 0.016 between draws; on the whole last 10% the same loop has 1.906 to 1.915 (three seeds). So that it reaches
1.88 there, the plain loop has 2,400 steps here; `--plain-steps 2000` is nanoGPT's number.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import config
from regard.cost.hardware import processor
from regard.job import make_job
from regard.tasks.text.settings import GenerateRecipe
from regard.training.budget import schedule
from regard.training.parallel import Parallel
from regard.training.update import Update

TEXT = Path(os.environ.get("REGARD_DATA", "data")) / "tinyshakespeare" / "input.txt"
LAYERS, HEADS, WIDTH, CONTEXT, BATCH, STEPS, SHORT, PLAIN_STEPS = 4, 4, 128, 64, 12, 2000, 400, 2400
TURNS = 25
DOCUMENTED, PROMISED, SHARE = 1.886, 1.62, 1 / 3


class PlainBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        q, k, v = (y.view(B, T, HEADS, -1).transpose(1, 2) for y in self.project(self.norm1(x)).split(WIDTH, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, WIDTH)
        x = x + self.out(y)
        return x + self.narrow(F.gelu(self.widen(self.norm2(x))))


class PlainGPT(nn.Module):
    """GPT-2's design as everybody writes it: learned positions, tied table, N(0, 0.02²), no dropout and no bias."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(PlainBlock() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                last = name.endswith(("out.weight", "narrow.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * LAYERS) if last else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.table.weight.T


def plain(steps: int, train: Tensor, valid: Tensor, vocabulary: int, seed: int) -> Iterator[tuple[int, float]]:
    """AdamW, 1e-3 to 1e-4 by a cosine after 100 steps, betas .9 .99, decay .1, clipping at 1. After each turn: loss."""
    torch.manual_seed(1336 + seed)  # 1337 is nanoGPT's
    model = PlainGPT(vocabulary)
    decaying = [weight for weight in model.parameters() if weight.ndim > 1]
    rest = [weight for weight in model.parameters() if weight.ndim < 2]
    optimizer = torch.optim.AdamW([{"params": decaying, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.99))  # fmt: skip
    windows = valid[: (len(valid) - 1) // CONTEXT * CONTEXT + 1].unfold(0, CONTEXT + 1, CONTEXT)

    def loss(batch: Tensor) -> Tensor:
        return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())

    yield 0, math.nan  # ready
    for step in range(1, steps + 1):
        done = (step - 100) / max(1, steps - 100)
        rate = 1e-3 * step / 100 if step < 100 else 1e-4 + 9e-4 * (1 + math.cos(math.pi * done)) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate
        starts = torch.randint(len(train) - CONTEXT, (BATCH,))
        found = loss(torch.stack([train[start : start + CONTEXT + 1] for start in starts.tolist()]))
        found.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % (steps // TURNS) == 0:
            yield step * BATCH * CONTEXT, math.nan
            with torch.inference_mode():
                losses = [float(loss(part)) * len(part) for part in windows.split(256)]
            yield step * BATCH * CONTEXT, sum(losses) / len(windows)


def recipe(steps: int, cache: Path, seed: int) -> Iterator[tuple[int, float]]:
    """The recipe with the parts that `regard train` has: its windows, model, update and validation."""
    settings = config.read("shakespeare", {"data.train": str(TEXT), "training.seed": seed})
    assert isinstance(settings, GenerateRecipe)
    sizes, batch = settings.model, settings.training.max_tokens
    assert (sizes.layers, sizes.heads, sizes.width, sizes.context) == (LAYERS, HEADS, WIDTH, CONTEXT)
    last = steps * BATCH * CONTEXT // batch
    assert settings.training.max_steps == last or steps != STEPS, "1.54 M tokens"
    job = make_job(settings)
    job.prepare(cache)
    torch.manual_seed(seed)
    model, batches = job.build(), job.batches()
    rate = schedule(settings.training, last)
    update = Update(model, settings.training, Parallel(device=torch.device("cpu")), lambda: None)
    stream = (batch for epoch in range(10**6) for batch in batches.epoch(epoch))
    tokens = 0
    yield tokens, math.nan  # ready
    for step in range(1, last + 1):
        windows = next(stream)
        assert windows is not None
        tokens += windows.tokens[:, 1:].numel()
        update(step, [windows], rate(step))
        if step % (last // TURNS) == 0:
            yield tokens, math.nan
            model.eval()
            loss = job.bound(model).validate()["loss"]
            model.train()
            yield tokens, loss


def take_turns(systems: dict[str, Iterator[tuple[int, float]]]) -> dict[str, list[dict[str, float]]]:
    """Each trains for a turn (timed), then validates (not timed)."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    curves: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
    seconds = dict.fromkeys(systems, 0.0)
    for system in systems.values():
        next(system)
    for turn in range(TURNS):
        for name, system in systems.items():
            start = clock()
            next(system)
            seconds[name] += clock() - start
            tokens, loss = next(system)
            curves[name].append({"tokens": tokens, "seconds": seconds[name], "loss": loss})
        if (turn + 1) % 5 == 0:
            said = (
                f"{name} {at['loss']:.4f} after {at['tokens'] / 1e6:.2f} M tokens, {at['seconds']:.0f} s"
                for name, at in ((name, curve[-1]) for name, curve in curves.items())
            )
            print("; ".join(said), flush=True)
    return curves


def reached(curve: list[dict[str, float]], loss: float) -> dict[str, float]:
    """The first turn after which the loss is there; the last one, if it never is."""
    return next((point for point in curve if point["loss"] <= loss), curve[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS, help="of 12 windows that the recipe gets (of 100)")
    parser.add_argument("--short", type=int, default=SHORT, help="the same, for the recipe with a shorter schedule")
    parser.add_argument("--plain-steps", type=int, default=PLAIN_STEPS, help="of the plain loop; a multiple of 100")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if not TEXT.is_file():
        print(f"{TEXT} is not there: set REGARD_DATA to a folder that has tinyshakespeare/input.txt")
        return 0
    if given.threads:
        torch.set_num_threads(given.threads)
    print(processor())
    text = TEXT.read_text(encoding="utf-8")
    letters = sorted(set(text))
    ids = torch.tensor([letters.index(letter) for letter in text])
    cut = int(0.9 * len(ids))
    with tempfile.TemporaryDirectory() as cache:
        curves = take_turns(
            {
                "plain": plain(given.plain_steps, ids[:cut], ids[cut:], len(letters), given.seed),
                "recipe": recipe(given.steps, Path(cache), given.seed),
                "short": recipe(given.short, Path(cache), given.seed),
            }
        )
    theirs = curves["plain"]
    other = reached(theirs, DOCUMENTED)
    shares = {name: reached(curve, DOCUMENTED)["seconds"] / other["seconds"] for name, curve in curves.items()}
    for name, curve in curves.items():
        end, there = curve[-1], reached(curve, DOCUMENTED)
        print(
            f"{name}: {end['loss']:.4f} after {end['tokens'] / 1e6:.2f} M tokens, {end['seconds']:.1f} s; {DOCUMENTED} "
            f"after {there['tokens'] / 1e6:.2f} M and {there['seconds']:.1f} s, {shares[name]:.2f} of the plain loop's"
        )
    if given.json:
        given.json.write_text(json.dumps({"curves": curves, "shares": shares}, indent=1))
    if given.steps < STEPS or given.plain_steps < PLAIN_STEPS or given.short != SHORT:
        return 0
    enough = all(curves[name][-1]["loss"] <= DOCUMENTED for name in curves)
    met = enough and curves["recipe"][-1]["loss"] <= PROMISED and shares["short"] <= SHARE
    print("met" if met else "MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
