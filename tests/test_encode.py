"""Texts into vectors, from scratch: who is held against whom, and what is looked at. Trained ones: test_import_bert."""

import json

import numpy as np
import pytest

import regard
from regard.data.examples import ExampleBatches
from regard.data.files import PairSource
from regard.data.pairs import Pair
from regard.data.prepare import Split
from regard.data.store import Store
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.inputs.text.pairs import Frame, PairExamples, write_pairs
from regard.tasks.vector.vectorizer import ContrastBatches


def test_no_pair_is_left_alone_in_a_batch(tmp_path):
    """A lone pair has nothing to be held against: its loss is zero, whatever the model."""
    pairs = [("a " * (1 + number % 7), "b " * (1 + number % 5)) for number in range(40)]
    tokenizer = Tokenizer.train(["a b"], "space")
    items = [Pair(a.strip(), b.strip(), "x.tsv", line) for line, (a, b) in enumerate(pairs, start=1)]
    write_pairs(tmp_path, items, tokenizer, tokenizer, name="x", max_length=20, overlong="skip")
    split = Split(PairSource("x.tsv", "train"))
    examples = PairExamples(Store(tmp_path), split, Frame.of(tokenizer.specials, first=True))
    collate = len  # nothing is made of a plan
    alone = [len(rows) for epoch in range(9) for rows in ExampleBatches(examples, collate, 24, seed=3).plan(epoch)]
    assert 1 in alone, "or this test would show nothing"
    for epoch in range(9):
        plan = ContrastBatches(examples, collate, 24, seed=3).plan(epoch)
        assert min(map(len, plan)) > 1
        assert sorted(np.concatenate(plan)) == list(range(40))


def test_an_encoder_without_segments_compares_two_texts(tmp_path):
    """It has never read two texts as one: the second is what looks, and attention through training is kept of both."""
    pairs = [("one red cat", "un gato rojo"), ("two dogs", "dos perros"), ("a bird", "un pájaro"), ("a cat", "un gato")]
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    tree = {
        "job": "encode",
        "data": {
            "train": f"{tmp_path}/pairs.tsv", "valid": f"{tmp_path}/pairs.tsv", "max_length": 9,
            "tokenizer": {"kind": "word", "joint": True},
        },
        "model": {"kind": "transformer", "width": 8, "heads": 2, "layers": 2, "feed_forward": 16, "max_positions": 12},
        "training": {
            "max_tokens": 100, "max_steps": 4, "max_epochs": None, "validate_every": 2, "warmup": 1,
            "looks": 2,
        },
        "vectors": {"pooling": "cls"},
    }  # fmt: skip
    (tmp_path / "encode.yaml").write_text(json.dumps(tree))
    run = regard.train(tmp_path / "encode.yaml", output=tmp_path / "run")
    record = run.look("one red cat", output="un gato rojo")
    assert record.matrix("cross").rows.labels == ["un gato rojo"]
    assert record.matrix("cross").columns.labels == ["<s>", "one", "red", "cat", "</s>"]
    for over, own in zip(record.of_kind("cross"), record.of_kind("encoder"), strict=True):
        assert np.array_equal(over.weights, own.weights[:, :1]), "the class token is what is compared"
    assert run.history_of_looks(1).steps == (2, 4)
    with pytest.raises(CallError, match="has 9 tokens, more than the model's limit of 8"):
        run.predict("a a a a a a a a a")
