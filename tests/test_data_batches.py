"""Batches: everything once an epoch, within the budget, nearly full, and named by two integers."""

import numpy as np
import pytest
import torch

from regard.data.batches import pad_rows, pad_sentences
from regard.data.examples import ExampleBatch, ExampleBatches
from regard.data.files import PairSource
from regard.data.pairs import Pair
from regard.data.prepare import Split
from regard.data.store import Store
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.inputs.text.pairs import Frame, PairExamples, write_pairs

BUDGET = 600


@pytest.fixture(scope="module")
def examples(tmp_path_factory) -> PairExamples:
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
    write_pairs(folder, pairs, tokenizer, tokenizer, name="made", max_length=99, overlong="skip")
    return PairExamples(Store(folder), Split(PairSource("made.tsv")), Frame.of(tokenizer.specials, first=False))


def batches_of(examples, budget=BUDGET, seed=0) -> ExampleBatches:
    return ExampleBatches(examples, lambda targets: pad_rows(targets or [np.zeros(1)]), budget, seed=seed)


def pairs_of(batches):
    """The ids of each batch, source and target, without padding."""
    return [
        [
            (one[one > 0].tolist(), other[other > 0].tolist())
            for one, other in zip(batch.source, batch.target, strict=True)
        ]
        for batch in batches
    ]


def test_an_epoch_holds_every_pair_once_and_padded_right(examples):
    seen = []
    for rows, batch in batches_of(examples).in_order():
        assert batch.source.numel() + batch.target.numel() <= BUDGET
        assert batch.source.dtype == batch.target.dtype == torch.int64
        for row, source, target in zip(rows.tolist(), batch.source, batch.target, strict=True):
            seen.append(row)
            for side, padded_ids in (("source", source), ("target", target)):
                ids = examples.store.row(side, row).tolist()
                assert padded_ids.tolist() == ids + [0] * (len(padded_ids) - len(ids))
                assert padded_ids[len(ids) - 1] == 3
    assert sorted(seen) == list(range(1009))


def test_little_is_padding(examples):
    taken = sum(batch.source.numel() + batch.target.numel() for batch in batches_of(examples).epoch(0))
    assert sum(lengths.sum() for lengths in examples.lengths()) > 0.9 * taken


def test_order_follows_seed_and_epoch_and_nothing_else(examples):
    def plan(seed, epoch):
        return [rows.tolist() for rows in batches_of(examples, seed=seed).plan(epoch)]

    assert plan(1, 2) == plan(1, 2)
    assert plan(1, 2) != plan(1, 3)
    assert plan(1, 2) != plan(2, 2)
    assert plan(1, 2) != plan(2, 1)
    # not only other batches first: other companions too
    one, other = ({frozenset(rows) for rows in plan(1, epoch)} for epoch in (2, 3))
    assert len(one & other) < 0.1 * len(one)


def test_lengths_come_in_no_order(examples):
    first = [batch.target.shape[1] for batch in batches_of(examples).epoch(0)]
    half = len(first) // 2
    assert abs(np.mean(first[:half]) - np.mean(first[half:])) < 4


@pytest.mark.parametrize("start", [0, 1, 7])
def test_a_run_goes_on_where_it_stopped(examples, start):
    batches = batches_of(examples, seed=3)
    assert pairs_of(batches.epoch(4, start=start)) == pairs_of(batches.epoch(4))[start:]
    assert list(batches.epoch(4, start=len(batches.plan(4)))) == []


@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_every_batch_evenly(examples, world):
    whole = pairs_of(batches_of(examples).epoch(1))
    shares = [pairs_of(batches_of(examples).epoch(1, rank=rank, world=world)) for rank in range(world)]
    for batch, *parts in zip(whole, *shares, strict=True):
        assert sorted(batch) == sorted(pair for part in parts for pair in part)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_process_without_a_share_gets_a_batch_that_counts_nothing(examples):
    batches = batches_of(examples, 100)
    (first,) = [number for number, rows in enumerate(batches.plan(0)) if len(rows) < 3][:1]
    batch = next(batches.epoch(0, start=first, rank=2, world=3))
    assert (len(batch.source), batch.target.tolist()) == (1, [[0]])


def test_a_budget_below_the_longest_pair_is_refused(examples):
    longest = int(np.add(*examples.lengths()).max())
    assert len(batches_of(examples, longest).plan(0)) > 300
    with pytest.raises(CallError, match=f"batch of {longest - 1} tokens is too small for the longest pair"):
        batches_of(examples, longest - 1)
    with pytest.raises(ValueError, match="rank=2 must be at least 0 and less than world=2"):
        batches_of(examples).epoch(0, rank=2, world=2)


def test_sentences_for_prediction_look_like_those_of_training():
    assert pad_sentences([[5, 6, 7], [], [8]]).tolist() == [[5, 6, 7, 3], [3, 0, 0, 0], [8, 3, 0, 0]]
    assert pad_sentences([]).shape == (0, 0)


def test_batches_move_to_a_device():
    moved = ExampleBatch(torch.tensor([[4, 3]]), torch.tensor([[3]])).to("meta")
    assert {tensor.device.type for tensor in (moved.source, moved.target)} == {"meta"}
