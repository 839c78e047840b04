"""Methods by hand-worked numbers and by what must hold."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard import look
from regard.look.attribution import attentions, method_shown
from regard.look.axis import axis
from regard.look.card import wrong_order
from regard.look.case import ExplainTarget
from regard.look.methods.inputs import (
    decoder_rollout,
    faithfulness,
    gradient_times_attention,
    input_times_gradient,
    leave_one_out,
    norm_weighted,
    rollout,
)
from regard.look.records import Attention


def random_weights(*shape, seed=0):
    table = np.random.default_rng(seed).random(shape)
    return table / table.sum(-1, keepdims=True)


def test_rollout_by_hand():
    """Two positions; layer 1 looks only at the other one, layer 2 only at itself."""
    swap, stay = np.array([[[0.0, 1.0], [1.0, 0.0]]]), np.eye(2)[None]
    np.testing.assert_allclose(rollout([swap, stay]), [[0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(rollout([stay, stay]), np.eye(2))
    first = np.array([[[1.0, 0.0], [1.0, 0.0]]])
    np.testing.assert_allclose(rollout([first, swap]), [[0.75, 0.25], [0.75, 0.25]])


def test_rollout_rows_sum_to_one_also_through_a_decoder():
    S, T = 7, 5
    encoder = rollout([random_weights(3, S, S, seed=n) for n in range(4)])
    np.testing.assert_allclose(encoder.sum(-1), 1)
    own = [np.tril(random_weights(2, T, T, seed=n)) for n in range(3)]
    own = [table / table.sum(-1, keepdims=True) for table in own]
    written, source = decoder_rollout(own, [random_weights(2, T, S, seed=9 + n) for n in range(3)], encoder)
    assert (written.shape, source.shape) == ((T, T), (T, S))
    np.testing.assert_allclose(written.sum(-1) + source.sum(-1), 1)
    assert np.triu(written, 1).max() == 0  # nothing comes from the future


def test_a_vector_of_no_length_brings_nothing():
    weights = np.array([[[0.9, 0.1]]])
    values = np.array([[[0.0, 0.0], [3.0, 4.0]]])
    np.testing.assert_allclose(norm_weighted(weights, values), [[[0.0, 1.0]]])
    equal = np.array([[[0.0, 5.0], [3.0, 4.0]]])
    np.testing.assert_allclose(norm_weighted(weights, equal), weights)
    # The output matrix of the head decides what of a value goes on: here the first number only.
    output = np.array([[[1.0], [0.0]]])
    np.testing.assert_allclose(norm_weighted(np.array([[[0.5, 0.5]]]), equal, output), [[[0.0, 1.0]]])


def test_gradient_times_attention_keeps_what_speaks_for_the_output():
    weights, gradient = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]), np.array([[2.0, -8.0, 4.0], [-1.0, 3.0, 5.0]])
    np.testing.assert_allclose(gradient_times_attention(weights, gradient), [[0.5, 0.0, 0.5], [0, 0, 0]])


def test_input_times_gradient_by_hand():
    """A model that is linear: 1 + 2 = 3 of the first vector, −1 of the second, and 4 of one that is always there."""
    table = nn.Embedding.from_pretrained(torch.tensor([[1.0, 2.0], [0.0, 1.0], [4.0, 0.0]]))
    felt = torch.tensor([[1.0, 1.0], [5.0, -1.0], [1.0, 1.0]])
    case = ExplainTarget(
        table, lambda without: (table(torch.arange(3).expand(len(without), -1)) * felt).sum((1, 2))[:, None],
        {"target": look.axis(["y"]), "source": look.axis(["a", "b", "<s>"])}, parts=(0, 1), vectors=table,
        gather=lambda products: products[0].sum(-1)[:, :2],
    )  # fmt: skip
    found = input_times_gradient(case)
    np.testing.assert_allclose(found.parts, [[3.0, -1.0]])
    np.testing.assert_allclose(found.rest, [4.0])
    np.testing.assert_allclose(attentions(case, "input-gradient")[0].weights, [[[0.75, 0.25, 0.0]]])
    np.testing.assert_allclose(attentions(case, "integrated-gradients")[0].weights, [[[1.0, 0.0, 0.0]]])


def bag(parts_needed):
    """A model whose step t loses one nat for each part of `parts_needed[t]` that is missing."""

    def ask(without):
        return np.array([[-float(len(set(needed) & missing)) for needed in parts_needed] for missing in without])

    return ask


def test_leave_one_out_finds_what_is_needed():
    found = leave_one_out(3, bag([[0], [1, 2], []]))
    np.testing.assert_allclose(found, [[1, 0, 0], [0, 0.5, 0.5], [0, 0, 0]])


def test_of_a_number_any_change_counts():
    def ask(without):
        return np.array([[2.0 if 1 in missing else 1.0] for missing in without])

    np.testing.assert_allclose(leave_one_out(2, ask), [[0, 0]])  # it only became more
    np.testing.assert_allclose(leave_one_out(2, ask, both_ways=True), [[0, 1]])


def test_faithful_weights_beat_both_baselines():
    source = list(range(10))
    order = wrong_order(len(source))
    weights = np.eye(len(source)) * 0.9 + 0.01
    ask = bag([[part] for part in source])
    needed, enough = faithfulness(
        weights, ask([frozenset()])[0], lambda without, steps: ask(without)[np.arange(len(steps)), steps], "mean"
    )
    assert (needed.value, enough.value) == (1.0, 0.0)  # always missed when taken away, and enough alone
    assert needed.shuffled < 0.4 < needed.value
    assert enough.shuffled > 0.6 > enough.value
    assert needed.uniform < needed.value
    assert needed.about == "mean"
    assert sorted(order) == list(range(len(source)))
    assert all(order[i] != i for i in range(len(source)))


@pytest.mark.parametrize(("steps", "parts", "most"), [(30, 20, 120), (60, 50, 60), (200, 200, 30), (10, 200, 30)])
def test_evidence_asks_less_often_where_asking_costs_more(steps, parts, most):
    asked = []

    def ask_at(without, at):
        asked.extend(without)
        return np.zeros(len(at))

    weights = np.random.default_rng(1).random((steps, parts))
    faithfulness(weights, np.zeros(steps), ask_at)
    assert most - 1 <= len(set(asked)) <= most  # equal sets are asked about once


@pytest.mark.parametrize("size", [2, 3, 11])
def test_the_wrong_order_leaves_no_row_in_place(size):
    order = wrong_order(size)
    assert sorted(order) == list(range(size))
    assert all(order != np.arange(size))


def test_a_row_that_nothing_speaks_for_is_named():
    case: Any = SimpleNamespace(
        model=nn.Linear(1, 1), rows="target", columns="source", beside=(),
        axes={"target": axis(["uno", "dos"]), "source": axis(["one", "two"])},
    )  # fmt: skip
    table = Attention("cross", "cross", 0, np.array([[[0.5, 0.2], [0.0, 0.0]]]), "target", "source")
    assert method_shown(case, "gradient", [table]) == "gradient (no positive contribution to 'dos')"
    assert method_shown(case, "raw", [table]) == "raw"  # which is no matter of for and against
