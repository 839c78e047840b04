"""A small real language model and its data, for the tests of training; and a script that trains it.

    python training_example.py FOLDER [setting=value ...] [dropout=0] [shard=1] [die=N,N,...] [kills=N] [attempts=N]

`die=9,2` trains in a process that dies by SIGKILL when it is about to write (fsync or rename) for the ninth time, then
in one that dies at the second; `kills=5` in five that are killed at random moments; then in one that lives.
`attempts=2`, under torchrun with `--max-restarts`: process 1 dies when it has joined, in the first two attempts.
"""

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.settings.training import TrainingSettings
from regard.training.loop import fit
from regard.training.parallel import Parallel, processes

VOCABULARY, LONGEST = 11, 9


class Loss(NamedTuple):
    total: Tensor
    count: Any


@dataclass(frozen=True)
class Rows:
    tokens: Tensor

    def to(self, device: torch.device) -> "Rows":
        return Rows(self.tokens.to(device))


class Words:
    """Counting in ones and twos, from unequal places to unequal lengths (0 is padding). One batch has one row only."""

    def __init__(self, batches: int = 6, rows: int = 5, seed: int = 3) -> None:
        draw = torch.Generator().manual_seed(seed)
        start = torch.randint(0, VOCABULARY, (batches, rows, 1), generator=draw)
        stride = torch.randint(1, 3, (batches, rows, 1), generator=draw)
        lengths = torch.randint(3, LONGEST + 1, (batches, rows, 1), generator=draw)
        tokens = (start + stride * torch.arange(LONGEST)) % (VOCABULARY - 1) + 1
        tokens = tokens.masked_fill(torch.arange(LONGEST) >= lengths, 0)
        self.data = [batch[:1] if number == 2 else batch for number, batch in enumerate(tokens)]
        self.seed = seed

    def len_epoch(self, number: int) -> int:
        return len(self.data)

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[Any]:
        order = list(range(len(self.data)))
        random.Random(f"{self.seed} {number}").shuffle(order)
        for index in order[start:]:
            share = self.data[index][rank::world]
            yield Rows(share) if len(share) else None


class Model(nn.Module):
    """A GRU language model with dropout and tied embeddings."""

    def __init__(self, width: int = 13, dropout: float = 0.3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width, padding_idx=0)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.layers = nn.ModuleList([nn.Linear(width, width), nn.Linear(width, width)])
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, VOCABULARY)
        self.output.weight = self.embedding.weight
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Rows) -> Loss:
        features, _ = self.gru(self.dropout(self.embedding(batch.tokens[:, :-1])))
        for layer in self.layers:
            features = features + torch.tanh(layer(features))
        logits = self.output(self.dropout(self.norm(features)))
        targets = batch.tokens[:, 1:]
        total = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0, reduction="sum")
        return Loss(total, (targets != 0).sum())


def new_model(dropout: float = 0.3) -> Model:
    torch.manual_seed(5)
    return Model(dropout=dropout)


def validate(model: nn.Module) -> dict[str, float]:
    loss = model(Rows(Words(seed=4).data[0].to(next(model.parameters()).device)))
    return {"loss": (loss.total / loss.count).item()}


def settings(**given: Any) -> TrainingSettings:
    """24 steps; a validation an epoch, checkpoints at other steps, averaging on."""
    usual = {"max_epochs": 4, "validate_every": 6, "save_every": 5, "log_every": 3, "warmup": 5, "average": 0.9}
    return TrainingSettings.model_validate(usual | given)


def train(folder: Path | str, parallel: Parallel | None = None, dropout: float = 0.3, **given: Any) -> Any:
    """(model, result, messages) of training the example."""
    messages: list[str] = []
    model = new_model(dropout)
    chosen = settings(**given)
    result = fit(model, Words(), chosen, folder, evaluate=validate, parallel=parallel, on_message=messages.append)
    return model, result, messages


# -------------------------------------------------------------------------------------------------- as a script
def _die_at(write: int) -> None:
    writes = 0

    def counting(real: Any) -> Any:
        def wrapper(*arguments: Any, **named: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes == write:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return wrapper

    os.fsync, os.rename, os.replace = map(counting, (os.fsync, os.rename, os.replace))


def _train_and_die(folder: str, given: dict[str, Any], write: int, after: float | None) -> None:
    """Train in a forked process that meets its end."""
    child = os.fork()
    if child == 0:
        if write:
            _die_at(write)
        train(folder, **given)
        os._exit(0)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print("died" if os.WIFSIGNALED(status) else "lived", flush=True)


def _seconds(given: dict[str, Any]) -> float:
    """That the whole training takes on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            train(folder, **given)
            os._exit(0)
        os.waitpid(child, 0)
        return time.monotonic() - began


if __name__ == "__main__":
    torch.set_num_threads(1)
    arguments: dict[str, Any] = dict(argument.split("=", 1) for argument in sys.argv[2:])
    writes, kills = arguments.pop("die", ""), int(arguments.pop("kills", 0))
    sharded, dropped = arguments.pop("shard", "0") == "1", float(arguments.pop("dropout", 0.3))
    attempts = int(arguments.pop("attempts", 0))
    import torch._dynamo  # the optimizer would import it in every forked process, which takes seconds

    for number in filter(None, writes.split(",")):
        _train_and_die(sys.argv[1], arguments, int(number), None)
    took = _seconds(arguments) if kills else 0.0
    for _ in range(kills):  # within half of the time that all of it takes: one that is done cannot be killed any more
        _train_and_die(sys.argv[1], arguments, 0, random.uniform(0, took / 2))
    with processes("cpu", shard=sharded) as alone_or_many:
        if alone_or_many.rank == 1 and int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < attempts:
            os.kill(os.getpid(), signal.SIGKILL)
        train(sys.argv[1], alone_or_many, dropped, **arguments)
