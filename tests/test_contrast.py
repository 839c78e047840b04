"""Pairs told apart: the loss, and how well partners find each other."""

import numpy as np
import pytest
import torch

from regard.layers.loss import contrastive_loss
from regard.metrics.retrieval import blind_recall, ranks, recall, retrieval, retrieval_both_ways


def test_the_loss_is_clips_where_each_has_one_partner():
    scores = torch.randn(5, 5)
    right = torch.arange(5)
    plain = torch.nn.functional.cross_entropy
    expected = (plain(scores, right, reduction="sum") + plain(scores.T, right, reduction="sum")) / 2
    loss = contrastive_loss(scores, torch.eye(5, dtype=torch.bool))
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == 5
    assert loss.correct == (scores.argmax(1) == right).sum()


def test_two_that_are_right_share_and_nothing_is_gained_by_telling_them_apart():
    right = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=torch.bool)
    best = contrastive_loss(torch.where(right, 50.0, -50.0), right)
    assert best.total.item() == pytest.approx(2 * np.log(2), abs=1e-4)  # one bit for each of the two, either way
    apart = contrastive_loss(torch.eye(3) * 100 - 50, right)
    assert apart.total > best.total + 10
    nothing = contrastive_loss(torch.ones(1, 1, requires_grad=True), torch.zeros(1, 1, dtype=torch.bool))
    assert nothing.count == 0
    assert nothing.total == 0


def test_ranks_with_several_right_answers_by_hand():
    queries, answers = np.eye(2), np.array([[0.9, 0.1], [0.8, 0.9], [0.7, 0.2], [0.1, 0.3]])
    found = ranks(queries, answers, [[2], [3, 0]])
    assert found.tolist() == [3.0, 2.0]  # 0.9, 0.8 are above 0.7; only 0.9 is above the better of 0.3 and 0.1
    assert (recall(found, 1), recall(found, 2), recall(found, 3)) == (0.0, 50.0, 100.0)
    assert ranks(queries, np.array([[1, 0], [1, 0.5]])).tolist() == [1.5, 1.0]  # 1 and 1: one is before the other


def test_vectors_that_tell_nothing_apart_find_their_partners_by_chance_only():
    """Constant vectors are at chance, vectors that are no numbers find nothing; equal texts are all right."""
    pairs = [(f"s{n}", f"t{n}") for n in range(99)]
    constant, nan = np.full((99, 4), 0.5), np.full((99, 4), np.nan)
    assert retrieval(constant, constant, pairs) == {"recall_at_1": 0.0, "mrr": pytest.approx(1 / 50)}
    assert retrieval(nan, nan, pairs) == {"recall_at_1": 0.0, "mrr": pytest.approx(1 / 100)}
    both = retrieval_both_ways(constant, constant, [[target] for _, target in pairs]).values
    assert (both["image_to_text_at_1"], both["text_to_image_at_10"], both["text_to_image_median_rank"]) == (0, 0, 50)
    same = np.array([[1, 0], [1, 0], [0, 1.0]])
    assert retrieval(same, same, [("a", "b"), ("a", "b"), ("c", "d")])["recall_at_1"] == 1.0
    assert retrieval(same, same, [("a", "b"), ("x", "y"), ("c", "d")])["recall_at_1"] == pytest.approx(1 / 3)
    broken = np.eye(3)
    broken[1] = np.nan
    assert ranks(broken, np.eye(3)).tolist() == [1, 4, 1]
    assert ranks(np.eye(3), broken).tolist() == [2, 4, 2]


def test_blind_recall_is_what_random_orders_give():
    chance = np.random.default_rng(0)
    right = [[0], [1, 2, 3]]
    hits = [
        [min(order.tolist().index(one) for one in some) < 4 for some in right]
        for order in (chance.permutation(11) for _ in range(4000))
    ]
    assert blind_recall(right, 11, 4) == pytest.approx(100 * np.mean(hits), abs=2)
    assert blind_recall([[0]], 3, 10) == 100
