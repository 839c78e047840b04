"""Scores: hand-worked numbers, the same equation in both of its forms, and how the scores relate to each other."""

import math

import pytest
import torch
from attention_parts import SCORES, random_parts
from torch.testing import assert_close

from regard.attention import Additive, Bilinear, Concat, Cosine, Dot, ScaledDot, TanhForm, Trilinear
from regard.errors import CallError

Q = torch.tensor([[1.0, 2.0], [0.0, -1.0]])
K = torch.tensor([[3.0, 1.0], [0.0, 2.0], [-1.0, 0.0]])


def test_dot_by_hand():
    assert_close(Dot()(Q, K), torch.tensor([[5.0, 4.0, -1.0], [-1.0, -2.0, 0.0]]))


def test_scaled_dot_by_hand():
    assert_close(ScaledDot()(Q, K), torch.tensor([[5.0, 4.0, -1.0], [-1.0, -2.0, 0.0]]) / math.sqrt(2))


def test_bilinear_by_hand_with_two_widths():
    score = Bilinear(2, 3)
    score.weight.data = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]])
    key = torch.tensor([[1.0, 1.0, 1.0], [0.0, 2.0, 0.0]])
    # (1, 2) W = (1, 2, 0) and (0, −1) W = (0, −1, 1)
    assert_close(score(Q, key), torch.tensor([[3.0, 4.0], [0.0, -2.0]]))


def test_additive_by_hand():
    score = Additive(2, 2, 2)
    score.query.weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    score.key.weight.data = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    score.weight.data = torch.tensor([2.0, -1.0])
    # q = (1, 2), k = (3, 1): W_k k = (1, 3), so the hidden layer is tanh(2, 5)
    assert_close(score(Q, K)[0, 0], torch.tensor(2 * math.tanh(2) - math.tanh(5)))
    assert_close(score(Q, K)[1, 2], torch.tensor(2 * math.tanh(0) - math.tanh(-2)))


def test_cosine_by_hand():
    score = Cosine(temperature=0.5)
    assert_close(score(Q, K)[0, 0], torch.tensor(5 / math.sqrt(5 * 10) / 0.5))
    assert_close(score(Q, torch.zeros(1, 2)), torch.zeros(2, 1))  # no direction, no preference


def test_trilinear_is_its_equation():
    torch.manual_seed(0)
    score, query, key = Trilinear(7), torch.randn(2, 3, 7), torch.randn(2, 5, 7)
    plain = torch.empty(2, 3, 5)
    for b in range(2):
        for i in range(3):
            for j in range(5):
                q, k = query[b, i], key[b, j]
                plain[b, i, j] = torch.cat([q, k, q * k]) @ torch.cat([score.query, score.key, score.both])
    assert_close(score(query, key), plain)


def test_concat_is_additive_with_its_matrix_split():
    torch.manual_seed(0)
    concat, additive = Concat(3, 5, 7), Additive(3, 5, 7)
    additive.query.weight.data, additive.key.weight.data = concat.hidden.weight.data.split([3, 5], dim=1)
    additive.weight.data = concat.weight.data
    query, key = torch.randn(2, 4, 3), torch.randn(2, 6, 5)
    assert_close(concat(query, key), additive(query, key))


def test_bilinear_is_the_dot_product_of_two_projections():
    torch.manual_seed(0)
    left, right = torch.randn(3, 7), torch.randn(5, 7)
    score = Bilinear(3, 5)
    score.weight.data = left @ right.T
    query, key = torch.randn(4, 3), torch.randn(6, 5)
    assert_close(score(query, key), Dot()(query @ left, key @ right), rtol=1e-4, atol=1e-4)


def test_scaling_keeps_the_variance_at_one():
    torch.manual_seed(0)
    query, key = torch.randn(300, 512), torch.randn(300, 512)
    assert 400 < Dot()(query, key).var() < 600
    assert 0.8 < ScaledDot()(query, key).var() < 1.2


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_normal_form_says_the_same_as_the_equation(name, lead):
    score = SCORES[name](5)
    query, key, _ = random_parts(0, lead, 7, 11, 5, 3)
    plain = score(query, key)
    assert plain.shape == (*lead, 7, 11)
    assert_close(score.normal_form(query, key).table(), plain)
    assert_close(score.normal_form(query, score.prepare(key), prepared=True).table(), plain)
    with torch.no_grad():  # where tables are made a few queries at a time
        long = torch.cat([query] * 5, dim=-2)
        assert_close(score.normal_form(long, key).table(), torch.cat([plain] * 5, dim=-2))


@pytest.mark.parametrize("name", SCORES)
def test_leading_dimensions_broadcast(name):
    score = SCORES[name](5)
    query, key = torch.randn(2, 1, 7, 5), torch.randn(3, 11, 5)
    expected = score(query.expand(2, 3, 7, 5), key.expand(2, 3, 11, 5))
    assert_close(score(query, key), expected)
    assert_close(score.normal_form(query, key).table(), expected)


def test_size_of_a_tanh_form():
    form = Additive(3, 3, 7).normal_form(torch.randn(2, 1, 5, 3), torch.randn(3, 11, 3))
    assert isinstance(form, TanhForm)
    assert form.peak_elements() == 2 * 3 * 5 * 11 * 7


@pytest.mark.parametrize("score", [Bilinear(3, 5), Additive(3, 5, 7), Concat(3, 5, 7)])
def test_wrong_widths_are_named(score):
    with pytest.raises(ValueError, match=r"query has width 4, but this \w+ was built for 3"):
        score.normal_form(torch.randn(2, 4), torch.randn(2, 5))
    with pytest.raises(ValueError, match=r"key has width 4, but this \w+ was built for 5"):
        score.normal_form(torch.randn(2, 3), torch.randn(2, 4))


@pytest.mark.parametrize("score", [Dot(), ScaledDot(), Cosine()])
def test_unequal_widths_are_named(score):
    with pytest.raises(ValueError, match=r"query has width 3 and key has width 4.*Bilinear"):
        score.normal_form(torch.randn(2, 3), torch.randn(2, 4))


def test_a_wrong_width_of_trilinear_is_named():
    for query, key in ((3, 4), (4, 3)):
        with pytest.raises(ValueError, match="has width 4, but this Trilinear was built for 3"):
            Trilinear(3).normal_form(torch.randn(2, query), torch.randn(2, key))
    with pytest.raises(ValueError, match="prepared key has width 3, but this Trilinear was built for 5"):
        Trilinear(3).normal_form(torch.randn(2, 3), torch.randn(2, 3), prepared=True)


@pytest.mark.parametrize("kind", [Bilinear, Additive, Concat])
def test_scores_that_bring_two_widths_together(kind):
    score = kind.for_widths(3, 5, 7)
    assert score(torch.randn(2, 3), torch.randn(4, 5)).shape == (2, 4)
    assert {7} & {n for weight in score.parameters() for n in weight.shape} == ({7} if kind is not Bilinear else set())


@pytest.mark.parametrize("kind", [Dot, ScaledDot, Cosine, Trilinear])
def test_scores_that_cannot_say_so_before_they_are_built(kind):
    with pytest.raises(CallError, match=rf"the score {kind.__name__} needs .* queries have 3 and keys 5; bilinear"):
        kind.for_widths(3, 5, 7)


def test_temperature_must_be_positive():
    with pytest.raises(ValueError, match=r"temperature=0\.0 must be positive"):
        Cosine(temperature=0.0)
