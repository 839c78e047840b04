"""Batches: everything once an epoch, within the budget, nearly full, and named by two integers."""

import numpy as np
import pytest
import torch

from regard.data.batches import pad_sentences
from regard.data.pairs import Pair
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.inputs.text.pair_batches import PairBatch, TokenBatches
from regard.inputs.text.pair_store import PairStore, write_store

BUDGET = 600


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> PairStore:
    """1,009 pairs with lengths like those of captions: source about 13 tokens, target within a few of it."""
    folder = tmp_path_factory.mktemp("store")
    chance = np.random.default_rng(5)
    words = [f"w{number}" for number in range(50)]
    tokenizer = Tokenizer.train([" ".join(words)], "space")
    source = np.clip(chance.normal(13, 4, 1009), 1, 40).astype(int)
    target = np.clip(source + chance.normal(0, 2, 1009), 1, 40).astype(int)
    pairs = [
        Pair(" ".join(chance.choice(words, one)), " ".join(chance.choice(words, other)), "made", line)
        for line, (one, other) in enumerate(zip(source, target, strict=True), start=1)
    ]
    write_store(folder, pairs, tokenizer, tokenizer, name="made", max_length=99, overlong="skip")
    return PairStore(folder)


def rows_of(batches):
    return [batch.rows.tolist() for batch in batches]


def test_an_epoch_holds_every_pair_once_and_padded_right(store):
    seen = []
    for batch in TokenBatches(store, BUDGET).epoch(0):
        assert batch.source.numel() + batch.target.numel() <= BUDGET
        assert batch.source.dtype == batch.target.dtype == torch.int64
        for row, source, target in zip(batch.rows.tolist(), batch.source, batch.target, strict=True):
            seen.append(row)
            for ids, padded in zip(store[row], (source, target), strict=True):
                assert padded.tolist() == ids.tolist() + [0] * (len(padded) - len(ids))
                assert padded[len(ids) - 1] == 3
    assert sorted(seen) == list(range(1009))


def test_little_is_padding(store):
    batches = TokenBatches(store, BUDGET)
    assert batches.fill() > 0.9
    padded = sum(batch.source.numel() + batch.target.numel() for batch in batches.epoch(0))
    assert batches.fill() == pytest.approx(sum(lengths.sum() for lengths in store.lengths()) / padded)


def test_order_follows_seed_and_epoch_and_nothing_else(store):
    def plan(seed, epoch):
        return rows_of(TokenBatches(store, BUDGET, seed=seed).epoch(epoch))

    assert plan(1, 2) == plan(1, 2)
    assert plan(1, 2) != plan(1, 3)
    assert plan(1, 2) != plan(2, 2)
    assert plan(1, 2) != plan(2, 1)
    # not only other batches first: other companions too
    one, other = ({frozenset(rows) for rows in plan(1, epoch)} for epoch in (2, 3))
    assert len(one & other) < 0.1 * len(one)


def test_lengths_come_in_no_order(store):
    first = [batch.target.shape[1] for batch in TokenBatches(store, BUDGET).epoch(0)]
    half = len(first) // 2
    assert abs(np.mean(first[:half]) - np.mean(first[half:])) < 4


@pytest.mark.parametrize("start", [0, 1, 7])
def test_a_run_goes_on_where_it_stopped(store, start):
    batches = TokenBatches(store, BUDGET, seed=3)
    assert rows_of(batches.epoch(4, start=start)) == rows_of(batches.epoch(4))[start:]
    assert rows_of(batches.epoch(4, start=len(batches.plan(4)))) == []


@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_every_batch_evenly(store, world):
    whole = rows_of(TokenBatches(store, BUDGET).epoch(1))
    shares = [rows_of(TokenBatches(store, BUDGET).epoch(1, rank=rank, world=world)) for rank in range(world)]
    for batch, *parts in zip(whole, *shares, strict=True):
        assert sorted(batch) == sorted(row for part in parts for row in part)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_process_without_a_share_gets_a_batch_that_counts_nothing(store):
    batches = TokenBatches(store, BUDGET, max_sentences=2)
    batch = next(batches.epoch(0, rank=2, world=3))
    assert (batch.source.tolist(), batch.target.tolist(), batch.rows.tolist()) == ([[3]], [[0]], [])


def test_no_more_sentences_than_asked_for(store):
    sizes = [len(rows) for rows in TokenBatches(store, 10_000, max_sentences=7).plan(0)]
    assert max(sizes) == 7
    assert sum(sizes) == 1009


def test_a_budget_below_the_longest_pair_is_refused(store):
    longest = int(np.add(*store.lengths()).max())
    assert len(TokenBatches(store, longest).plan(0)) > 300
    with pytest.raises(CallError, match=f"batch of {longest - 1} tokens is too small for the longest pair"):
        TokenBatches(store, longest - 1)
    with pytest.raises(ValueError, match="rank=2 must be at least 0 and less than world=2"):
        next(TokenBatches(store, BUDGET).epoch(0, rank=2, world=2))


def test_sentences_for_prediction_look_like_those_of_training():
    assert pad_sentences([[5, 6, 7], [], [8]]).tolist() == [[5, 6, 7, 3], [3, 0, 0, 0], [8, 3, 0, 0]]
    assert pad_sentences([]).shape == (0, 0)


def test_batches_move_to_a_device():
    batch = PairBatch(torch.tensor([[4, 3]]), torch.tensor([[3]]), torch.tensor([0]))
    moved = batch.to("meta")
    assert {tensor.device.type for tensor in (moved.source, moved.target, moved.rows)} == {"meta"}
