"""Readers: joining, masking, spans and attention in both directions, against the plain equations."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.attention import Trace
from regard.attention.scores import Trilinear
from regard.data.examples import ExampleBatch
from regard.generation.spans import span_scores
from regard.layers.embedding import Embedding
from regard.models.build import build_encoder
from regard.models.reader import DocumentToQuestion, MostAlike, PairReader, RecurrentReader, TextPair, join
from regard.settings.model import EncoderSettings

CLS, SEP, PAD = 2, 3, 0
QUESTION = torch.tensor([[5, 6, 7], [8, 0, 0]])
DOCUMENT = torch.tensor([[11, 12, 0, 0, 0], [13, 14, 15, 16, 17]])


def test_a_document_follows_its_question_at_once():
    joined = join(QUESTION, DOCUMENT, CLS, SEP, PAD)
    assert joined.tokens.tolist() == [[2, 5, 6, 7, 3, 11, 12, 3, 0], [2, 8, 3, 13, 14, 15, 16, 17, 3]]
    assert joined.types.tolist() == [[0, 0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1, 1, 1]]
    assert joined.places[1].tolist() == [3, 4, 5, 6, 7]
    assert joined.places[0, :2].tolist() == [5, 6]


def test_spans_are_valid_and_within_the_longest():
    start, end = np.array([[1.0, 2.0, 4.0]]), np.array([[10.0, 20.0, np.finfo(np.float32).min]])
    table = span_scores(start, end, 2)
    inf = float("inf")
    assert table[0].tolist() == [[11.0, 21.0], [22.0, -inf], [-inf, -inf]]
    assert span_scores(start, end, 30).shape == (1, 3, 3)  # never longer than the window


def pair_reader():
    torch.manual_seed(0)
    sizes = EncoderSettings(
        width=12, heads=3, feed_forward=20, layers=2, token_types=2, positions="rotary", dropout=0.0
    )
    return PairReader(build_encoder(sizes, 23), 12, cls=CLS, sep=SEP, pad=PAD, types=True).eval()


def recurrent_reader(**how):
    torch.manual_seed(0)
    return RecurrentReader(Embedding(23, 9), 14, score=lambda: Trilinear(14), reading_depth=1, **how).eval()


READERS = [
    pair_reader, recurrent_reader, lambda: recurrent_reader(to_document="each", cell="gru"),
    lambda: recurrent_reader(match=False),
]  # fmt: skip


@pytest.mark.parametrize("make", READERS)
def test_padding_changes_nothing_and_is_never_chosen(make):
    model = make()
    both = model.point(QUESTION, DOCUMENT)
    alone = model.point(QUESTION[:1], DOCUMENT[:1, :2])
    other = model.point(QUESTION[1:, :1], DOCUMENT[1:])
    for together, one, two in zip(both, alone, other, strict=True):
        assert together.shape == (2, 6)  # no answer, and five tokens
        torch.testing.assert_close(together[:1, :3], one, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(together[1:], two, atol=1e-5, rtol=1e-4)
        assert (together[0, 3:] == torch.finfo(torch.float32).min).all()


@pytest.mark.parametrize("make", READERS)
def test_the_loss_is_the_sum_of_both_pointers(make):
    model = make()
    start, end = torch.tensor([2, 0]), torch.tensor([2, 0])
    source, target = TextPair(QUESTION, DOCUMENT), torch.stack([start, end], dim=1)
    loss = model(ExampleBatch(source, target))
    pointers = model.point(QUESTION, DOCUMENT)
    plain = sum(F.cross_entropy(s, t, reduction="sum") for s, t in zip(pointers, (start, end), strict=True)) / 2
    torch.testing.assert_close(loss.total, plain)
    assert loss.count == 2
    loss.total.backward()
    unused = {name for name, weight in model.named_parameters() if weight.grad is None}
    assert not unused - {name for name in unused if "pooler" in name}
    nothing = model(ExampleBatch(source, torch.full((2, 2), -1)))  # the share of a process that has none
    assert (nothing.total.item(), nothing.count, int(nothing.correct)) == (0, 0, 0)


@pytest.mark.parametrize("make", READERS)
def test_a_text_of_which_nothing_is_left_can_be_read(make):
    """Of a question all words may be left out, and of a document that has no answer."""
    model, empty = make(), torch.full((1, 1), PAD)
    for question, document in ((empty, DOCUMENT[:1]), (QUESTION[:1], empty)):
        pointers = model.point(question, document)
        assert all(scores.isfinite().all() for scores in pointers)
        assert pointers.start.softmax(1)[0, 1 + (document != PAD).sum() :].sum() == 0


def test_most_alike_is_its_equation_and_says_who_earned_it():
    torch.manual_seed(0)
    score, h, u = Trilinear(6), torch.randn(1, 5, 6), torch.randn(1, 3, 6)
    real, asked = torch.tensor([[True] * 4 + [False]]), torch.tensor([[True, True, False]])
    module = MostAlike(score)
    S = score(h, u)[0, :4, :2]
    b = S.max(1).values.softmax(0)
    torch.testing.assert_close(module(h, u, real, asked)[0, 0], b @ h[0, :4])
    with Trace(module) as seen:
        looked = module(h, u, real, asked)
    torch.testing.assert_close(looked[0, 0], b @ h[0, :4])
    weights = seen[seen.names[0]][0, 0]
    assert weights.shape == (3, 5)
    torch.testing.assert_close(weights.sum(0)[:4], b)
    assert weights[2].sum() == 0
    assert (weights[:2, :4].argmax(0) == S.argmax(1)).all()


def test_looking_is_attention_with_values_apart():
    torch.manual_seed(0)
    score, q, k, v = Trilinear(6), torch.randn(2, 3, 6), torch.randn(2, 5, 6), torch.randn(2, 5, 4)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    weights = score(q, k).masked_fill(~mask[:, None], -torch.inf).softmax(-1)
    torch.testing.assert_close(DocumentToQuestion(score)(q, k, v, mask), weights @ v)
