"""Muon against its definition, and as part of exact resume."""

import pytest
import torch
from torch import nn

from regard.errors import CallError
from regard.settings.training import TrainingSettings
from regard.training.budget import linear, schedule
from regard.training.optimizer import SIZE, Muon, Optimizer, hidden_matrices, orthogonal
from test_training_resume import assert_same_run
from training_example import new_model, train

ONE, ZERO = torch.tensor(1.0), torch.tensor(0.0)


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 5, 17), (2, 17, 5)])
def test_all_singular_values_come_near_one_and_the_directions_stay(shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = orthogonal(x)
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.5
    assert values.max() < 1.3
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    agreement = (found * (u @ v)).sum((-2, -1)) / (found.norm(dim=(-2, -1)) * (u @ v).norm(dim=(-2, -1)))
    assert agreement.min() > 0.97


def test_a_step_by_hand():
    """Two matrices of one shape and one of another, step by step as the equations say."""
    generator = torch.Generator().manual_seed(2)
    weights = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in [(4, 3), (4, 3), (2, 5)]]
    expected, memory = [w.detach().clone() for w in weights], [torch.zeros_like(w) for w in weights]
    muon = Muon(weights, momentum=0.9, weight_decay=0.1)
    for _ in range(3):
        for number, weight in enumerate(weights):
            gradient = torch.randn(weight.shape, generator=generator)
            weight.grad = gradient * 7
            memory[number] = 0.9 * memory[number] + 0.1 * gradient
            step = orthogonal((0.1 * gradient + 0.9 * memory[number])[None])[0]
            size = SIZE * max(weight.shape) ** 0.5
            expected[number] -= 0.01 * (size * step + 0.1 * expected[number])
        muon.step(0.01, torch.tensor(7.0), ZERO)
    for weight, right in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight.detach(), right)


def test_a_skipped_step_changes_nothing_even_if_the_gradient_is_nan():
    model = new_model()
    optimizer = Optimizer(model, TrainingSettings(optimizer="muon"))
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step(0.1, ONE, ZERO)
    before = [w.detach().clone() for w in model.parameters()]
    state = {name: value.clone() for name, value in optimizer.tensors().items()}
    for weight in model.parameters():
        weight.grad = torch.full_like(weight, torch.nan)
    optimizer.step(0.1, ONE, ONE)
    assert all(torch.equal(w, b) for w, b in zip(model.parameters(), before, strict=True))
    assert all(torch.equal(value, state[name]) for name, value in optimizer.tensors().items())


def test_what_took_no_part_stays_as_it_is_and_does_not_decay():
    idle, busy = nn.Parameter(torch.ones(4, 3)), nn.Parameter(torch.ones(2, 5))
    busy.grad = torch.ones_like(busy)
    Muon([idle, busy], momentum=0.9, weight_decay=0.1).step(0.01, ONE, ZERO)
    assert torch.equal(idle, torch.ones(4, 3))
    assert not torch.equal(busy, torch.ones(2, 5))


def test_hidden_matrices_are_those_of_repeated_layers():
    model = new_model()
    names = {name for name, weight in model.named_parameters() if any(weight is w for w in hidden_matrices(model))}
    assert names == {"layers.0.weight", "layers.1.weight"}
    optimizer = Optimizer(model, TrainingSettings(optimizer="muon"))
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step(0.1, ONE, ZERO)
    with_momentum = {name for name in optimizer.tensors() if name.endswith(".momentum")}
    assert with_momentum == {"layers.0.weight.momentum", "layers.1.weight.momentum"}
    assert "gru.weight_ih_l0.exp_avg" in optimizer.tensors()


def test_muon_resumes_exactly(tmp_path):
    """At step 6 there is a validation anyway, so ending there leaves no trace in the history."""
    train(tmp_path / "whole", optimizer="muon", max_epochs=2)
    train(tmp_path / "parts", optimizer="muon", max_epochs=2, max_steps=6)
    train(tmp_path / "parts", optimizer="muon", max_epochs=2)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_linear_may_not_end_elsewhere_than_it_was_to(tmp_path):
    train(tmp_path, schedule="linear", max_steps=6)
    with pytest.raises(CallError, match="linear falls until then"):
        train(tmp_path, schedule="linear", max_steps=7)


def test_muon_and_shards_are_refused():
    [(field, why)] = TrainingSettings(optimizer="muon", shard=True).problems()
    assert field == "optimizer"
    assert "whole matrices" in why


def test_linear_by_hand():
    assert [linear(step, 2.0, 2, 10) for step in (1, 2, 6, 10, 11)] == pytest.approx([1.0, 2.0, 1.0, 0.0, 0.0])
    assert linear(6, 2.0, 2, 10, final=0.5) == pytest.approx(1.5)
    chosen = TrainingSettings(schedule="linear", max_steps=8, warmup=0, learning_rate=0.4)
    assert schedule(chosen, 8)(6) == pytest.approx(0.1)
