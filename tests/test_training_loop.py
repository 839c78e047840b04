"""The loop in one process: what it computes, when it stops, what it writes."""

import json
import math
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, load_model
from torch import nn

from regard.errors import CallError
from regard.training.checkpoint import Result
from regard.training.lock import Stopped
from regard.training.loop import BAD_STEPS, DivergenceError, fit
from regard.training.metrics import read_metrics
from training_example import Loss, Rows, Words, new_model, settings, train, validate


def weights(model: nn.Module) -> list[torch.Tensor]:
    return list(model.state_dict().values())


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


# --------------------------------------------------------------------------------------------------- what it computes
def test_fit_equals_a_loop_written_by_hand(tmp_path: Path) -> None:
    """No dropout, constant rate: mean loss over real tokens, clipped, AdamW. Nothing else happens."""
    chosen = settings(max_epochs=2, average=0, weight_decay=0, schedule="constant", warmup=0, clip=0.5)
    ours, plain, data = new_model(dropout=0), new_model(dropout=0), Words()
    fit(ours, data, chosen, tmp_path)
    adam = torch.optim.AdamW(plain.parameters(), lr=chosen.learning_rate, betas=chosen.betas, weight_decay=0)
    for epoch in range(2):
        for batch in data.epoch(epoch):
            adam.zero_grad()
            loss = plain(batch)
            (loss.total / loss.count).backward()
            nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
            adam.step()
    for mine, theirs in zip(weights(ours), weights(plain), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


class Joined(Words):
    """The same data in batches three times as large."""

    def len_epoch(self, number: int) -> int:
        return super().len_epoch(number) // 3

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[Any]:
        rows = [batch.tokens for batch in super().epoch(number)]
        for first in range(start * 3, len(rows), 3):
            yield Rows(torch.cat(rows[first : first + 3]))


def test_accumulated_batches_equal_one_large_batch(tmp_path: Path) -> None:
    """Although the small batches have unequal numbers of tokens."""
    parts, whole = new_model(dropout=0), new_model(dropout=0)
    fit(parts, Words(), settings(accumulate=3), tmp_path / "parts")
    fit(whole, Joined(), settings(), tmp_path / "whole")
    for one, other in zip(weights(parts), weights(whole), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_the_last_step_takes_what_is_left(tmp_path: Path) -> None:
    result = fit(new_model(), Words(), settings(accumulate=4, max_epochs=3), tmp_path)
    assert (result.step, result.stopped_by) == (5, "max_epochs")  # 18 batches: 4 + 4 + 4 + 4 + 2


def test_training_helps(tmp_path: Path) -> None:
    _, result, _ = train(tmp_path, dropout=0, max_epochs=25, learning_rate=0.02, validate_every=75, save_every=75)
    assert result.best["value"] < 0.3 * validate(new_model().eval())["loss"]


def test_averaged_weights_are_the_ones_saved_and_scored(tmp_path: Path) -> None:
    model, result, _ = train(tmp_path, average=0.9)
    saved = new_model()
    load_model(saved, tmp_path / "model.safetensors")
    assert not same(model, saved)
    assert validate(saved.eval()) == result.best["scores"]


class Watching(nn.Module):
    """Notes the type that products would have. (Not every processor that lists bf16 can multiply in it.)"""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.seen: set[torch.dtype] = set()

    def forward(self, batch: Rows) -> Loss:
        automatic = torch.is_autocast_enabled("cpu")
        self.seen.add(torch.get_autocast_dtype("cpu") if automatic else torch.get_default_dtype())
        return Loss(self.weight.square().sum(), 3)


@pytest.mark.parametrize(
    ("precision", "dtype"), [("auto", torch.float32), ("float32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_precision(tmp_path: Path, precision: str, dtype: torch.dtype) -> None:
    model = Watching()
    fit(model, Words(), settings(precision=precision, max_epochs=1, device="cpu"), tmp_path)
    assert model.seen == {dtype}
    assert model.weight.dtype == torch.float32


# ----------------------------------------------------------------------------------------------------- when it stops
@pytest.mark.parametrize(("losses", "best"), [((3.0, 2.0, 2.5), 12), ((1.0, 2.0, 2.5), 6)])
def test_of_equal_scores_the_lower_loss_is_the_best(tmp_path: Path, losses: tuple[float, ...], best: int) -> None:
    left = iter(losses)
    result = fit(
        new_model(), Words(), settings(max_epochs=3, metric="bleu", mode="max"), tmp_path,
        evaluate=lambda model: {"loss": next(left), "bleu": 0.0},
    )  # fmt: skip
    assert result.best is not None
    assert result.best["step"] == best


class Late(nn.Module):
    """Its first losses are no numbers, so that nothing is learned from them."""

    def __init__(self, bad: int) -> None:
        super().__init__()
        self.weight, self.bad = nn.Parameter(torch.ones(3)), bad

    def forward(self, batch: Rows) -> Loss:
        self.bad -= self.training
        return Loss(self.weight.square().sum() * (math.nan if self.bad >= 0 else 1.0), 3)


def test_weights_that_have_learned_nothing_are_never_the_best(tmp_path: Path) -> None:
    left = iter((1.0, 2.0, 3.0))
    chosen = settings(max_steps=3, validate_every=1, average=0)
    result = fit(Late(2), Words(), chosen, tmp_path, evaluate=lambda model: {"loss": next(left)})
    assert result.best is not None
    assert (result.best["step"], result.best["value"]) == (3, 3.0)


def test_early_stopping_keeps_the_best(tmp_path: Path) -> None:
    losses = iter([3.0, 2.0, 2.5, math.nan, 2.2, 1.0])
    seen: list[list[torch.Tensor]] = []

    def scripted(model: nn.Module) -> dict[str, float]:
        assert not model.training
        seen.append([weight.clone() for weight in weights(model)])
        return {"loss": next(losses)}

    chosen = settings(patience=3, average=0, max_epochs=99, validate_every=3)
    result = fit(new_model(), Words(), chosen, tmp_path, evaluate=scripted)
    assert (result.step, result.stopped_by) == (15, "patience")
    assert result.best == {"step": 6, "value": 2.0, "scores": {"loss": 2.0}}
    best = new_model()
    load_model(best, tmp_path / "model.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(weights(best), seen[1], strict=True))


@pytest.mark.parametrize(
    ("metric", "mode", "best"),
    [
        ("bleu", "auto", 5.0), ("accuracy", "auto", 5.0), ("recall_at_1", "auto", 5.0), ("f1", "max", 5.0),
        ("loss", "auto", 1.0), ("wer", "auto", 1.0), ("image_to_text_median_rank", "auto", 1.0),
        ("beauty", "max", 5.0), ("beauty", "min", 1.0),
    ],
)  # fmt: skip
def test_the_best_weights_are_those_of_the_better_score(tmp_path: Path, metric: str, mode: str, best: float) -> None:
    scores = iter([2.0, 5.0, 1.0, 4.0])
    chosen = settings(metric=metric, mode=mode, max_steps=12, validate_every=3)
    result = fit(new_model(), Words(), chosen, tmp_path, evaluate=lambda model: {metric: next(scores)})
    assert result.best is not None
    assert result.best["value"] == best


def test_a_score_of_unknown_direction_needs_a_mode(tmp_path: Path) -> None:
    with pytest.raises(CallError, match=r"metric='beauty' is not a score that regard knows: give training.mode"):
        fit(new_model(), Words(), settings(metric="beauty"), tmp_path, evaluate=lambda model: {"beauty": 1.0})


@pytest.mark.parametrize(("batches", "accumulate"), [(5, 1), (5, 2), (5, 4), (7, 8), (2, 5)])
def test_validation_follows_every_epoch_also_where_batches_are_added_up(
    tmp_path: Path, batches: int, accumulate: int
) -> None:
    """An epoch that ends in the middle of a step is validated after that step; two in one step, once."""
    chosen = settings(max_epochs=12, accumulate=accumulate, validate_every=0)
    result = fit(new_model(), Words(batches), chosen, tmp_path, evaluate=validate)
    ends = {-(-batches * epoch // accumulate) for epoch in range(1, 13)}
    assert [record["step"] for record in result.history] == sorted(ends)


def test_unknown_metric_names_the_known(tmp_path: Path) -> None:
    with pytest.raises(CallError, match=r"training.metric='bleu': validation gives loss"):
        train(tmp_path, metric="bleu")


def test_time_limit_counts_all_parts_of_a_run(tmp_path: Path) -> None:
    endless = {"max_epochs": None, "time_limit": 0.2}
    _, first, _ = train(tmp_path, **endless)
    assert first.stopped_by == "time_limit"
    assert 0.1 < first.seconds < 3
    _, again, messages = train(tmp_path, **endless)
    assert again.step == first.step
    assert "trained to the end: time_limit" in messages[0]
    _, longer, _ = train(tmp_path, **endless | {"time_limit": first.seconds + 0.1})
    assert longer.step > first.step
    assert longer.seconds < first.seconds + 3


@dataclass
class FakeClock:
    """A step takes a second (or what `step` is set to), a validation seven."""

    now: float = 0.0
    step: float = 1.0

    def __call__(self) -> float:
        return self.now

    def fit(self, folder: Path, model: nn.Module | None = None, data: Words | None = None, **given: Any) -> Result:
        model = new_model() if model is None else model
        model.register_forward_hook(lambda module, *_: self.spend(self.step if module.training else 0))

        def timed(model: nn.Module) -> dict[str, float]:
            self.spend(7)
            return validate(model)

        chosen = settings(**{"max_epochs": None, "learning_rate": 1.0, "log_every": 1} | given)
        return fit(model, data or Words(), chosen, folder, evaluate=timed, clock=self, on_message=lambda text: None)

    def spend(self, seconds: float) -> None:
        self.now += seconds


def rates(folder: Path) -> list[float]:
    return [r["learning_rate"] for r in read_metrics(folder / "metrics.jsonl") if r["kind"] == "train"]


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize(
    "given",
    [
        {"time_limit": 60},
        {"time_limit": 600},
        {"time_limit": 600, "validate_every": 20},
        {"time_limit": 600, "max_steps": 50},  # the steps end first
        {"time_limit": 60, "max_epochs": 100},  # the time does
        {"max_steps": 60},
    ],
    ids=str,
)
def test_the_learning_rate_ends_at_its_low_end(tmp_path: Path, schedule: str, given: dict[str, Any]) -> None:
    clock = FakeClock()
    result = clock.fit(
        tmp_path, None, None, schedule=schedule, warmup=1000, final=0.01, **{"validate_every": 100} | given
    )
    seen = rates(tmp_path)
    assert seen[-1] == pytest.approx(0.01)
    top = seen.index(max(seen))
    assert 0.8 < seen[top] <= 1.0  # the end of warm-up ...
    assert top <= 0.22 * result.step  # ... which takes a fifth (of the plan, which knew of no validation yet)
    assert seen[: top + 1] == sorted(seen[: top + 1])
    assert seen[top:] == sorted(seen[top:], reverse=True)
    limit = given.get("time_limit", 1000)
    assert result.seconds == clock.now <= limit + 7  # a validation that no one knew of before it came may be too much
    if result.stopped_by == "time_limit":
        assert result.seconds > limit - 7


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_the_plan_follows_a_machine_that_changes_its_speed(tmp_path: Path, factor: float) -> None:
    clock = FakeClock()

    class Changing(Words):
        def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[Any]:
            clock.step = factor if number >= 15 else 1.0
            return super().epoch(number, start, rank, world)

    result = clock.fit(tmp_path, data=Changing(), time_limit=200, schedule="linear", final=0.01, validate_every=1000)
    seen = rates(tmp_path)
    assert seen[-1] == pytest.approx(0.01)
    assert seen[5:] == sorted(seen[5:], reverse=True)
    assert max(a - b for a, b in pairwise(seen[5:])) < 0.1
    assert (result.step, result.stopped_by) == (pytest.approx(90 + 110 / factor, abs=3), "time_limit")


def test_validations_that_would_not_fit_are_left_to_the_end(tmp_path: Path) -> None:
    clock = FakeClock()
    result = clock.fit(tmp_path, time_limit=100, schedule="cosine", validate_every=10)
    assert result.seconds == clock.now <= 100
    assert result.history[-1]["step"] == result.step  # 100 = 54 steps, 6 validations and what is left
    assert [record["step"] for record in result.history] == [10, 20, 30, 40, 50, result.step]


def test_a_stopped_run_keeps_its_plan(tmp_path: Path) -> None:
    """With the same clock, the bits of a run with a time limit are those of one that was never stopped, too."""
    given = {"time_limit": 120, "schedule": "cosine", "warmup": 10, "validate_every": 30}

    class Stopping(Words):
        def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[Any]:
            for index, batch in enumerate(super().epoch(number, start, rank, world), start):
                if (number, index) == (6, 2):
                    os.kill(os.getpid(), signal.SIGINT)
                yield batch

    whole, parts = new_model(), new_model()
    FakeClock().fit(tmp_path / "whole", whole, **given)
    with pytest.raises(Stopped):
        FakeClock().fit(tmp_path / "parts", new_model(), Stopping(), **given)
    FakeClock(now=5000).fit(tmp_path / "parts", parts, **given)
    assert same(whole, parts)
    assert rates(tmp_path / "whole") == rates(tmp_path / "parts")
    with pytest.raises(CallError, match=r"time_limit: 120.0 → 240.0 \(training.schedule=cosine falls until then"):
        FakeClock().fit(tmp_path / "parts", None, None, **given | {"time_limit": 240})


def test_finished_run_does_nothing_unless_a_limit_is_raised(tmp_path: Path) -> None:
    train(tmp_path)
    files = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    _, result, messages = train(tmp_path)
    assert "trained to the end: max_epochs is reached at step 24" in messages[0]
    assert result.step == 24
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == files
    _, result, messages = train(tmp_path, max_epochs=5)
    assert "resumes from step 24" in messages[0]
    assert result.step == 30


def test_no_data_is_an_error(tmp_path: Path) -> None:
    empty = Words()
    empty.data = []
    with pytest.raises(CallError, match="nothing to train on"):
        fit(new_model(), empty, settings(), tmp_path)


# --------------------------------------------------------------------------------------------------- bad steps
class Poisoned(nn.Module):
    """The example, with a loss that is not a number at some calls."""

    def __init__(self, bad: set[int], value: float) -> None:
        super().__init__()
        self.inner, self.calls, self.bad, self.value = new_model(dropout=0), 0, bad, value

    def forward(self, batch: Rows) -> Loss:
        self.calls += self.training
        loss = self.inner(batch)
        return Loss(loss.total * self.value, loss.count) if self.training and self.calls in self.bad else loss


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e4])
def test_bad_step_is_skipped_and_reported(tmp_path: Path, value: float) -> None:
    messages: list[str] = []
    chosen = settings(max_steps=14, save_every=12)
    data = Words()
    fit(Poisoned({13}, value), data, chosen, tmp_path, on_message=messages.append)
    assert len(messages) == 1
    assert "step 13 was skipped" in messages[0]
    assert "epoch 3, batch 1" in messages[0]
    assert read_metrics(tmp_path / "metrics.jsonl")[-1]["skipped"] == 1
    before, after = (load_file(tmp_path / "state" / f"step-000000{step}" / "tensors.safetensors") for step in (12, 14))
    name = "optimizer/inner.norm.weight.step"
    assert (before[name], after[name]) == (12, 13)  # two steps, one of them not taken


def test_run_of_bad_steps_ends_with_advice(tmp_path: Path) -> None:
    model = Poisoned(set(range(7, 1000)), math.nan)
    with pytest.raises(DivergenceError, match=r"smaller training\.learning_rate \(now 0\.001\)"):
        fit(model, Words(), settings(average=0), tmp_path, on_message=lambda text: None)
    assert all(weight.isfinite().all() for weight in weights(model))
    assert model.calls <= 6 + BAD_STEPS + 10  # looked at every ten steps


# ---------------------------------------------------------------------------------------------- stopping and the files
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_signal_saves_and_says_how_to_go_on(tmp_path: Path, sent: signal.Signals) -> None:
    class Interrupting(Words):
        def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[Any]:
            for index, batch in enumerate(super().epoch(number, start, rank, world), start):
                if (number, index) == (1, 1):
                    os.kill(os.getpid(), sent)
                yield batch

    before = signal.getsignal(sent)
    messages: list[str] = []
    with pytest.raises(Stopped, match="stopped at step 8"):
        fit(new_model(), Interrupting(), settings(), tmp_path, evaluate=validate, on_message=messages.append)
    assert signal.getsignal(sent) is before
    assert "run the same command again to resume" in messages[-1]
    whole, expected, _ = train(tmp_path / "whole")
    resumed, result, _ = train(tmp_path)
    assert same(whole, resumed)
    assert result.best == expected.best


def test_metrics_have_no_duplicates_after_resume(tmp_path: Path) -> None:
    train(tmp_path / "whole")
    train(tmp_path / "parts", max_steps=10)
    with (tmp_path / "parts" / "metrics.jsonl").open("a") as file:  # as of a run that died later than its checkpoint
        file.write('{"kind": "train", "step": 12, "loss": 1.0}\n{"kind": "tra')
    train(tmp_path / "parts")

    def lines(folder: str) -> list[tuple[str, int]]:
        return [(r["kind"], r["step"]) for r in read_metrics(tmp_path / folder / "metrics.jsonl")]

    extra = [("train", 10), ("validation", 10)]  # the end of the first part
    assert [line for line in lines("parts") if line not in extra] == lines("whole")
    assert len(set(lines("parts"))) == len(lines("parts"))
    for line in (tmp_path / "parts" / "metrics.jsonl").read_text().splitlines():
        json.loads(line)


def test_a_sample_with_strange_ends_of_lines_survives_a_resume(tmp_path: Path) -> None:
    text = "one\u2028two\u0085three\x0bfour\r\nfive"

    def go(steps: int) -> None:
        fit(new_model(), Words(), settings(max_steps=steps), tmp_path, evaluate=validate, sample=lambda model: text)

    go(6)
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"kind": "\xff\x00')  # what a power loss may leave
    go(12)
    records = [record for record in read_metrics(tmp_path / "metrics.jsonl") if record["kind"] == "validation"]
    assert [(record["step"], record["sample"]) for record in records] == [(6, text), (12, text)]


def test_another_recipe_is_refused_with_its_differences(tmp_path: Path) -> None:
    train(tmp_path, max_steps=4)
    with pytest.raises(CallError, match=r"learning_rate: 0.001 → 0.002\n.*weight_decay: 0.01 → 0.0"):
        train(tmp_path, learning_rate=0.002, weight_decay=0.0)


def test_sample_is_shown_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = settings(max_steps=3)
    fit(new_model(), Words(), chosen, tmp_path, evaluate=validate, sample=lambda model: "[b] ein Haus")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "[b] ein Haus" in printed.err
    assert read_metrics(tmp_path / "metrics.jsonl")[-1]["sample"] == "[b] ein Haus"


def test_no_pickle_in_the_folder(tmp_path: Path) -> None:
    train(tmp_path)
    suffixes = {file.suffix or file.name for file in tmp_path.rglob("*") if file.is_file()}
    assert suffixes == {".json", ".jsonl", ".safetensors", "SHA256SUMS"}


def test_tensorboard_has_the_numbers_of_the_metrics(tmp_path: Path) -> None:
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="needs tensorboard: pip install 'regard[tensorboard]'",
    )
    train(tmp_path, tensorboard=True, max_steps=3)
    board = events.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    written = [r for r in read_metrics(tmp_path / "metrics.jsonl") if r["kind"] == "train"]
    shown = [(event.step, event.value) for event in board.Scalars("train/loss")]
    assert shown == [(r["step"], pytest.approx(r["loss"])) for r in written]
    assert shown


def test_tensorboard_that_is_not_installed_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # as Python itself marks what cannot be imported
    with pytest.raises(CallError, match=r"pip install 'regard\[tensorboard\]'"):
        train(tmp_path, tensorboard=True)
