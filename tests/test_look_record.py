"""The record: what it keeps, what it refuses, how it is merged, saved and loaded."""

import json
import re
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard import look
from regard.errors import CallError, RegardError
from regard.look.axis import Axis, Token
from regard.look.files import as_dict
from regard.look.records import Attention, AttentionRecord
from regard.metrics.alignment import Gold

ROWS, COLUMNS = ["un", "gato", "</s>"], ["a", "small", "cat", "purrs", "</s>"]


def weights(heads=2, rows=3, columns=5, seed=0):
    table = np.random.default_rng(seed).random((heads, rows, columns)).astype(np.float32)
    return table / table.sum(-1, keepdims=True)


def text_record(**more):
    """Source "unbelievable cat" as un-believ-able cat </s>; target "gato increíble" as gato increíble </s>."""
    source = (Token("un", (0, 2), 0), Token("believ", (2, 8), 0), Token("able", (8, 12), 0), Token("cat", (13, 16), 1))
    target = (Token("gato", (0, 4), 0), Token("incre", (5, 10), 1), Token("íble", (10, 14), 1))
    end = (Token("</s>", special=True),)
    axes = {"source": Axis(source + end, "unbelievable cat"), "target": Axis(target + end, "gato increíble")}
    attention = Attention("decoder.layers.0.cross", "cross", 0, weights(3, 4, 5), "target", "source")
    return AttentionRecord((attention,), axes, **more)


# --------------------------------------------------------------------------------------------- from any array at all
@pytest.mark.parametrize(
    "given",
    [weights()[0], weights(), weights()[None], torch.tensor(weights()).requires_grad_(), weights()[0].tolist()],
    ids=["T S", "H T S", "1 H T S", "torch with gradient", "lists"],
)
def test_any_array_makes_a_record(given):
    seen = look.record(given, ROWS, COLUMNS)
    assert seen.kinds == ["cross"]
    np.testing.assert_allclose(seen.matrix(head=0).weights, weights()[0], rtol=1e-6)
    assert seen.matrix().rows.labels == ROWS
    assert seen.matrix().columns.labels == COLUMNS


def test_half_precision_layers_and_names():
    layers = [torch.tensor(weights(seed=n)).bfloat16() for n in range(3)]
    assert [one.layer for one in look.record(layers, ROWS, COLUMNS).attentions] == [0, 1, 2]
    named = look.record({"first": weights(), "second": weights(7)}, ROWS, COLUMNS)
    assert [(one.name, len(one.weights)) for one in named.attentions] == [("first", 2), ("second", 7)]
    itself = look.record(weights(2, 3, 3), ROWS)
    assert itself.kinds == ["encoder"]
    assert itself.matrix().columns.labels == ROWS


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: look.record(weights(), ROWS, COLUMNS[:4]), "shape (2, 3, 5) do not fit 3 rows and 4 columns"),
        (lambda: look.record(weights().swapaxes(1, 2), ROWS, COLUMNS), "must be heads × 3 × 5"),
        (lambda: look.record(np.stack([weights()] * 2), ROWS, COLUMNS), "of 2 sentences: give those of one"),
        (lambda: look.record((None,), ROWS, COLUMNS), "layer 0 has no weights"),
        (lambda: look.record({"x": None}, ROWS, COLUMNS), "x has no weights"),
        (lambda: look.record({}, ROWS, COLUMNS), "no weights were given"),
        (lambda: look.record(np.zeros((2, 0, 5)), [], COLUMNS), "nothing to show"),
        (lambda: look.record(weights() - 1, ROWS, COLUMNS), "below zero"),
        (lambda: look.record(weights() * [[[1], [np.nan], [1]]], ROWS, COLUMNS), "head 0, row 1, column 0 is nan"),
        (lambda: look.record(weights(), "un gato </s>", COLUMNS), "not one text"),
        (lambda: look.record(weights(), [1, 2, 3], COLUMNS), "labels must be strings"),
        (lambda: look.record(weights(), ROWS, COLUMNS, kind="corss"), "must be one of cross, encoder, decoder"),
        (lambda: look.record(weights(), ROWS, COLUMNS, scores=[0.1]), "1 scores do not fit 3 rows"),
        (lambda: look.record(weights(), ROWS, COLUMNS).words(), "the words of these tokens are unknown"),
        (lambda: look.record(weights(), ROWS, COLUMNS).matrix(layer=4), "layer=4 is not one of 0"),
        (lambda: look.record(weights(), ROWS, COLUMNS).matrix(head=2), "head=2 is not one of 0 to 1, mean or max"),
        (lambda: look.record([weights()] * 2, ROWS, COLUMNS).matrix(head=1), "head=1 needs a layer"),
        (lambda: look.record(weights(), ROWS, COLUMNS).matrix("decoder"), "not in this record; it has: cross"),
        (lambda: look.axis("ab", grid=(2, 2)), "a grid of 2 × 2 does not fit 2 tokens"),
        (lambda: look.axis("ab", times=[0.5]), "1 times do not fit 2 tokens"),
    ],
)
def test_what_is_missing_or_wrong_is_said(call, told):
    with pytest.raises(CallError, match=re.escape(told)):
        call()


# ------------------------------------------------------------------------------------------------ choosing and merging
def test_means_and_maxima_over_heads_and_layers():
    one, two = weights(2), weights(3, seed=1)
    seen = look.record([one, two], ROWS, COLUMNS)
    every = np.concatenate([one, two])
    np.testing.assert_allclose(seen.matrix().weights, every.mean(0), rtol=1e-6)
    np.testing.assert_allclose(seen.matrix(head="max").weights, every.max(0))
    np.testing.assert_allclose(seen.matrix(layer=-1, head=2).weights, two[2])
    assert seen.matrix().title == "Attention over the source, mean of 5 heads in 2 layers"
    assert seen.matrix(layer=1, head=-1).title == "Attention over the source, layer 1, head 2"


def test_subwords_become_words_and_rows_still_sum_to_one():
    seen = text_record(scores=(-0.5, -0.25, -1.0, -0.125))
    merged = seen.words()
    assert merged.axes["source"].labels == ["unbelievable", "cat", "</s>"]
    assert merged.axes["target"].labels == ["gato", "increíble", "</s>"]
    before, after = seen.attentions[0].weights, merged.attentions[0].weights
    np.testing.assert_allclose(after[:, 0, 0], before[:, 0, :3].sum(-1), rtol=1e-6)
    np.testing.assert_allclose(after[:, 1, 1], before[:, 1:3, 3].mean(-1), rtol=1e-6)
    np.testing.assert_allclose(after.sum(-1), 1, rtol=1e-6)
    assert merged.scores == (-0.5, -1.25, -0.125)


def test_bytes_become_characters():
    # "é!" is three bytes; where text was decoded, all but a character's last byte have empty spans.
    bytes_of = (Token("·", (0, 0), 0), Token("é", (0, 1), 0), Token("!", (1, 2), 1))
    axes = {"source": Axis(bytes_of, "é!")}
    seen = AttentionRecord((Attention("a", "encoder", 0, weights(2, 3, 3), "source", "source"),), axes)
    merged = seen.characters()
    assert merged.axes["source"].labels == ["é", "!"]
    assert merged.attentions[0].weights.shape == (2, 2, 2)


def test_hiding_specials_leaves_the_other_weights_alone():
    empty = look.record(weights(1, 1, 5), ["</s>"], COLUMNS)  # a hypothesis that ends at once
    seen = replace(text_record(scores=(-1.0, -2.0, -3.0, -4.0)), beams=(text_record(), empty)).without_specials()
    assert [len(beam.axes["target"]) for beam in seen.beams] == [3]
    assert seen.axes["target"].labels == ["gato", "incre", "íble"]
    assert seen.scores == (-1.0, -2.0, -3.0)
    np.testing.assert_array_equal(seen.attentions[0].weights, weights(3, 4, 5)[:, :3, :4])
    with pytest.raises(CallError, match="so nothing is left without them"):
        look.record(weights(1, 1, 5), ["</s>"], COLUMNS).without_specials()


# --------------------------------------------------------------------------------------------------- saved and loaded
def test_a_saved_record_comes_back_as_it_was(tmp_path):
    seen = text_record(
        method="norm", model="m", input="unbelievable cat", output="gato increíble", score=-0.5,
        scores=(-0.5, -0.25, -1.0, -0.125), gold=Gold(frozenset({(1, 0)}), frozenset({(0, 1)})),
        evidence=(look.Figure("sufficiency", 0.5, 1.5, 2.5, "low", "that"),), beams=(text_record(output="otro"),),
    )  # fmt: skip
    back = look.load(seen.save(tmp_path / "seen.npz"))
    assert as_dict(back) == as_dict(seen)
    assert back.attentions[0].weights.dtype == np.float32
    assert back.gold == seen.gold
    with zipfile.ZipFile(tmp_path / "seen.npz") as archive:
        assert not any(b"pickle" in archive.read(name) for name in archive.namelist())


def test_grids_and_times_travel_along(tmp_path):
    places = look.axis([f"{r},{c}" for r in range(2) for c in range(3)], grid=(2, 3))
    frames = look.axis(["a", "b", "c", "d"], times=[0.0, 0.1, 0.2, 0.3])
    for columns in (places, frames):
        seen = look.record(weights(1, 3, len(columns)), ROWS, columns)
        assert look.load(seen.save(tmp_path / "x.npz")).axes["source"] == columns


def test_files_that_are_no_records_are_told_apart(tmp_path):
    with pytest.raises(CallError, match="no such file"):
        look.load(tmp_path / "nowhere.npz")
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.eye(2))
    np.savez(tmp_path / "object.npz", record=np.array([{"a": 1}], dtype=object))  # needs pickle: refused
    for name in ("text", "other", "object"):
        with pytest.raises(RegardError, match="holds no attention record"):
            look.load(tmp_path / f"{name}.npz")
    newer = np.frombuffer(json.dumps({"version": 99}).encode(), np.uint8)
    np.savez(tmp_path / "newer.npz", record=newer)
    with pytest.raises(RegardError, match="another version"):
        look.load(tmp_path / "newer.npz")


# ------------------------------------------------------------------------------------------------------------ the card
def test_card_by_hand():
    table = np.array([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.0, 0.5, 0.0, 0.5]])
    columns = look.axis(["red", "cat", "purrs", "</s>"], words=[0, 1, 2, None])
    rows = look.axis(["rojo", "gato", "ronronea"], words=[0, 1, 2])
    seen = look.record(table, rows, columns)
    entropy, special = look.card(seen.matrix(), seen)
    assert entropy.value == pytest.approx((0 + 2 + 1) / 3)
    assert entropy.uniform == pytest.approx(2)
    assert special.value == pytest.approx((0 + 0.25 + 0.5) / 3)
    assert special.uniform == pytest.approx(0.25)


def test_alignment_error_of_right_and_of_shuffled_weights():
    size = 5
    axes = [look.axis([f"{side}{i}" for i in range(size)], words=list(range(size))) for side in "ts"]
    turned = np.eye(size)[::-1] * 0.9 + 0.02
    seen = look.record(turned, axes[0], axes[1])
    seen = AttentionRecord(seen.attentions, seen.axes, gold=Gold(frozenset((size - 1 - i, i) for i in range(size))))
    error = look.card(seen.matrix(), seen)[-1]
    assert (error.name, error.value, error.shuffled) == ("alignment error", 0.0, 1.0)
    assert error.uniform == pytest.approx(1 - 1 / size)
