"""Schedules, optimizer, averaging, spikes, settings and fingerprints, each against numbers worked out by hand."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from regard.errors import CallError
from regard.layers import packed
from regard.settings.training import TrainingSettings
from regard.training.budget import (
    Budget,
    constant,
    cosine,
    inverse_sqrt,
    last_step,
    reached_limit,
    schedule,
    share_done,
)
from regard.training.checkpoint import RunState, differences
from regard.training.optimizer import Average, Optimizer, decaying
from regard.training.parallel import within_memory
from regard.training.update import SpikeDetector
from training_example import Model, new_model

ONE, ZERO = torch.tensor(1.0), torch.tensor(0.0)


# ------------------------------------------------------------------------------------------------------- schedules
def test_inverse_sqrt_is_the_formula_of_the_transformer() -> None:
    width, warmup = 512, 4000
    peak = width**-0.5 * warmup**-0.5
    for step in (1, 1000, 4000, 4001, 100_000):
        paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert inverse_sqrt(step, peak, warmup) == pytest.approx(paper)


def test_schedules_by_hand() -> None:
    assert inverse_sqrt(16, 0.5, 4) == pytest.approx(0.25)
    assert inverse_sqrt(4, 0.5, 0) == pytest.approx(0.25)
    assert [constant(step, 2.0, 4) for step in (1, 2, 4, 9)] == pytest.approx([0.5, 1.0, 2.0, 2.0])
    assert [cosine(step, 2.0, 2, 10) for step in (1, 2, 6, 10, 11)] == pytest.approx([1.0, 2.0, 1.0, 0.0, 0.0])
    assert cosine(10, 2.0, 2, 10, final=0.1) == pytest.approx(0.2)
    assert cosine(4, 2.0, 2, 10) == pytest.approx(1 + math.cos(math.pi / 4))


def test_cosine_ends_where_the_run_does() -> None:
    chosen = TrainingSettings(schedule="cosine", max_epochs=3, accumulate=2, warmup=0)
    rates = [Budget(chosen, lambda epoch: 5, RunState(step=step)).rate() for step in (6, 7)]  # 15 batches: 8 steps
    assert rates[0] > 0
    assert rates[1] == pytest.approx(0.0)
    assert last_step(chosen.model_copy(update={"max_steps": 7}), 5) == 7


def test_warmup_takes_at_most_a_fifth_of_a_run() -> None:
    chosen = TrainingSettings(schedule="cosine", learning_rate=1.0, warmup=200)
    rate = schedule(chosen, 100)
    assert [rate(step) for step in (1, 10, 20)] == pytest.approx([0.05, 0.5, 1.0])
    assert schedule(chosen, 5000)(100) == pytest.approx(0.5)


# ------------------------------------------------------------------------------------------------------- optimizer
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_step_is_seen_by_weights_that_were_packed_before_it(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's fused AdamW changes weights without telling: validation would decode with those of the one before."""
    monkeypatch.setattr(packed, "packed_is_faster", lambda *shape: True)
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), torch.randn(3, 8)
    steps = Optimizer(model, TrainingSettings(optimizer=optimizer, max_steps=1))  # pyright: ignore[reportArgumentType]
    for _ in range(2):
        with torch.no_grad():
            for _ in range(packed.USES + 2):
                seen = [packed.linear(layer, x) for layer in model]
            expected = [layer(x) for layer in model]
        torch.testing.assert_close(seen, expected)
        sum((layer(x).square().sum() for layer in model), torch.tensor(0.0)).backward()
        steps.step(0.1, ONE, ZERO)


def test_decay_spares_norms_biases_and_tied_embeddings() -> None:
    model = Model()
    names = {name for name, weight in model.named_parameters() if weight in decaying(model)}
    assert names == {"gru.weight_ih_l0", "gru.weight_hh_l0", "layers.0.weight", "layers.1.weight"}


@pytest.mark.parametrize("decay_all", [False, True])
def test_divided_step_equals_plain_adamw(decay_all: bool) -> None:
    """Dividing inside the kernel is dividing the gradient before it."""
    ours, plain = new_model(), new_model()
    chosen = TrainingSettings(weight_decay=0.1, decay_all=decay_all)
    optimizer = Optimizer(ours, chosen)
    decays = set(plain.parameters()) if decay_all else decaying(plain)
    reference = torch.optim.AdamW(
        [
            {"params": [w for w in plain.parameters() if w in decays], "weight_decay": 0.1},
            {"params": [w for w in plain.parameters() if w not in decays], "weight_decay": 0.0},
        ][: 1 if decay_all else 2],
        betas=chosen.betas,
        foreach=False,
    )
    for step in (1, 2, 3):
        for mine, theirs in zip(ours.parameters(), plain.parameters(), strict=True):
            theirs.grad = torch.randn_like(theirs)
            mine.grad = theirs.grad * 7
        for group in reference.param_groups:
            group["lr"] = 0.01 * step
        optimizer.step(0.01 * step, torch.tensor(7.0), ZERO)
        reference.step()
    for mine, theirs in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_skipped_step_leaves_everything_as_it_was() -> None:
    model = new_model()
    optimizer = Optimizer(model, TrainingSettings())

    def take(value: float, skip: torch.Tensor) -> list[torch.Tensor]:
        for weight in model.parameters():
            weight.grad = torch.full_like(weight, value)
        optimizer.step(0.1, ONE, skip)
        return [tensor.clone() for tensor in (*model.parameters(), *optimizer.tensors().values())]

    before = take(1.0, ZERO)
    after = take(math.nan, ONE)
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    moved = take(1.0, ZERO)
    assert not any(torch.equal(old, new) for old, new in zip(before, moved, strict=True))


# ------------------------------------------------------------------------------------------------------ average, spikes
def test_average_by_hand_and_back() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 4.0)
    average = Average(model, 0.5)
    nn.init.constant_(model.weight, 8.0)
    average.update(1)  # d = min(0.5, 2/11): 4 + (1 − 2/11) (8 − 4)
    expected = 4 + (1 - 2 / 11) * 4
    average.update(100)  # d = 0.5
    expected += 0.5 * (8 - expected)
    with average.use_average():
        assert model.weight.item() == pytest.approx(expected)
    assert model.weight.item() == 8.0


def test_spike_detector_knows_bad_from_hard() -> None:
    detector = SpikeDetector(torch.device("cpu"))

    def bad(step: int, loss: float, length: float) -> bool:
        return bool(detector.bad(step, torch.tensor([loss, length])))

    assert bad(1, math.nan, 1.0)  # even as the first step
    assert not any(bad(step, 2.0, 1.0) for step in range(2, 70))
    assert bad(70, 2.0, math.inf)
    assert bad(71, 2.0, 100.5)  # more than a hundred times the median
    assert bad(72, 20.5, 1.0)  # more than ten times the median
    assert not bad(73, 19.5, 99.5)
    assert not any(bad(step, 1e-4, 1e-3) for step in range(74, 150))  # the run converges ...
    assert not bad(150, 0.5, 3.9)  # ... and a hard batch is far above the median, but not above the start


# ------------------------------------------------------------------------------------------------ settings, limits
@pytest.mark.parametrize(
    ("text", "value"), [("90", 90), ("45s", 45), ("10m", 600), ("1h30m", 5400), ("1.5h", 5400), ("1m30", 90), (7, 7)]
)
def test_time_limit_in_words(text: str, value: float) -> None:
    assert TrainingSettings.model_validate({"time_limit": text}).time_limit == value


def test_a_model_is_counted_before_its_memory_is_taken() -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(10, 20), nn.GRU(20, 30), nn.Embedding(7, 5))

    size = sum(weight.nbytes for weight in build().parameters())
    assert isinstance(within_memory(build, size), nn.Sequential)
    with pytest.raises(CallError, match="too large for this machine: its weights alone take more than"):
        within_memory(build, size - 1)
    with pytest.raises(CallError, match="more than 16,777,216 rows or columns"):
        within_memory(lambda: nn.Embedding(2**24 + 1, 1))


class Numbered(nn.Module):
    def __init__(self, *numbers: float) -> None:
        super().__init__()
        self.register_buffer("place", torch.arange(*numbers))


def test_numbered_places_are_counted_without_a_tensor_of_no_memory():
    assert within_memory(lambda: Numbered(3, 1003), 8_000).place.shape == (1000,)
    within_memory(lambda: Numbered(0.0, 1000.0, 2.0), 8 * 500)
    with pytest.raises(CallError, match="too large for this machine"):
        within_memory(lambda: Numbered(0, 1000, 2), 8 * 500 - 1)
    with pytest.raises(CallError, match="more than 16,777,216 rows"):
        within_memory(lambda: Numbered(10**12))


@pytest.mark.parametrize("text", ["soon", "", "10 minutes", "m", "1d", "-5", "0"])
def test_time_limit_that_is_none(text: str) -> None:
    with pytest.raises(ValidationError):
        TrainingSettings.model_validate({"time_limit": text})


def test_settings_without_an_end() -> None:
    endless = {"max_epochs": None}
    assert [name for name, _ in TrainingSettings.model_validate(endless).problems()] == ["max_steps"]
    assert [name for name, _ in TrainingSettings.model_validate({**endless, "schedule": "cosine"}).problems()] == [
        "schedule"
    ]
    for end in ({"max_steps": 3}, {"time_limit": "1m"}, {"patience": 2}):
        assert not list(TrainingSettings.model_validate({**endless, **end}).problems())


def test_limits() -> None:
    chosen = TrainingSettings(max_steps=10, max_epochs=4, patience=2, time_limit=100)
    assert reached_limit(RunState(step=9, epoch=3, worse_in_a_row=1), chosen, False) == ""
    assert reached_limit(RunState(step=10), chosen, False) == "max_steps"
    assert reached_limit(RunState(epoch=4), chosen, False) == "max_epochs"
    assert reached_limit(RunState(worse_in_a_row=2), chosen, False) == "patience"
    assert reached_limit(RunState(), chosen, True) == "time_limit"
    assert share_done(RunState(step=1, seconds=50.0), chosen, 1.0) == 0.5
    assert share_done(RunState(step=8, seconds=50.0), chosen, 1.0) == 0.8
    assert share_done(RunState(step=8), TrainingSettings(max_epochs=None, patience=1), 1.0) is None


def test_differences_name_what_may_not_change() -> None:
    old = {"job": "x", "about": "a", "model": {"width": 4}, "training": {"learning_rate": 1, "max_steps": 5}}
    same = {"job": "x", "about": "b", "model": {"width": 4}, "training": {"learning_rate": 1, "max_steps": 9}}
    assert differences(old, same) == []
    new = {"job": "x", "model": {"width": 8, "heads": 2}, "training": {"learning_rate": 2}}
    assert differences(old, new) == [
        "model.heads: None → 2",
        "model.width: 4 → 8",
        "training.learning_rate: 1 → 2",
    ]


def test_the_end_may_not_move_under_cosine() -> None:
    old = {"training": {"schedule": "cosine", "max_steps": 5, "betas": (0.9, 0.98)}}
    new = {"training": {"schedule": "cosine", "max_steps": 9, "betas": [0.9, 0.98]}}
    assert [line.split(":")[0] for line in differences(old, new)] == ["training.max_steps"]
