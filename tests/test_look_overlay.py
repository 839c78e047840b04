"""Attention over images, sound and series: what the axis carries, and what the overlay draws of it."""

import re
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from regard import look
from regard.errors import CallError
from regard.look.card import entropy
from regard.look.figure_layout import HEAT, OPACITY, draw_overlay, heat
from regard.look.views import ShownView, strength, top_weight
from regard.metrics.alignment import Gold

WORDS = ["a", "dog", "runs", "</s>"]
GRID = (3, 5)


def picture(rows=60, columns=110):
    chance = np.random.default_rng(1)
    return chance.integers(0, 256, (rows, columns, 3), dtype=np.uint8)


def over_image(heads=2, **more):
    weights = np.random.default_rng(2).random((heads, len(WORDS), 15)).astype(np.float32)
    weights /= weights.sum(-1, keepdims=True)
    return look.record(weights, WORDS, look.axis(grid=GRID, image=picture(), **more), input="dog.png"), weights


def over_time(signal, frames=7):
    weights = np.random.default_rng(3).random((1, len(WORDS), frames)).astype(np.float32)
    weights /= weights.sum(-1, keepdims=True)
    columns = look.axis(times=np.arange(frames) * 0.5, signal=signal)
    return look.record(weights, WORDS, columns, input="dog.wav"), weights[0]


def colors(shares):
    return HEAT(shares, alpha=OPACITY)


@pytest.mark.parametrize("ground", [0, 255])
def test_what_is_looked_at_is_seen_on_black_and_on_white(tmp_path, ground):
    """In the file: it differs from what is not by more than 0.4 of the range from black to white."""
    weights = np.eye(1, 15, dtype=np.float32)  # the first region alone
    seen = look.record(weights, ["dog"], look.axis(grid=GRID, image=np.full((60, 100, 3), ground, np.uint8)))
    canvas = draw_overlay(ShownView(seen, "overlay"))
    canvas.savefig(tmp_path / "dog.png", dpi=canvas.dpi)
    pixels = np.asarray(Image.open(tmp_path / "dog.png").convert("RGB"))[::-1] / 255
    (panel,) = (one for one in canvas.subfigs[0].axes if len(one.images) == 2)
    box = panel.get_window_extent()

    def lightness(row, column):
        x, y = box.x0 + box.width * (column + 0.5) / 5, box.y1 - box.height * (row + 0.5) / 3
        return pixels[int(y), int(x)].mean()

    assert lightness(0, 0) - lightness(2, 4) > 0.4


def in_terminal(record, **how):
    out = StringIO()
    look.show(record, console=Console(file=out, width=100, no_color=True), **how)
    return out.getvalue()


# ------------------------------------------------------------------------------------------------- what an axis carries
@pytest.mark.parametrize(
    "given",
    [
        picture(),
        Image.fromarray(picture()),
        torch.tensor(picture()).permute(2, 0, 1).float() / 255,
        np.concatenate([picture(), picture()[..., :1]], axis=2),
    ],
    ids=["numpy", "Pillow", "torch, channels first, fractions", "with transparency"],
)
def test_images_of_any_library_are_the_same_image(given):
    np.testing.assert_array_equal(look.axis(grid=GRID, image=given).image, picture())


def test_gray_images_and_large_ones():
    np.testing.assert_array_equal(look.axis(grid=GRID, image=picture()[..., 0]).image, picture()[..., [0, 0, 0]])
    assert look.axis(grid=GRID, image=picture(300, 1200)).image.shape == (128, 512, 3)
    long = look.axis(times=range(4), signal=np.arange(9001.0))
    assert long.signal.shape == (2000,)
    bands = look.axis(times=range(4), signal=np.arange(2 * 6000.0).reshape(2, 6000)).signal
    np.testing.assert_allclose(bands[1, :2], [6001, 6004])  # the mean of three steps


def test_what_was_looked_at_is_saved_with_the_record(tmp_path):
    seen, _ = over_image()
    axis = look.load(seen.save(tmp_path / "x.npz")).axes["source"]
    assert axis == seen.axes["source"]
    np.testing.assert_array_equal(axis.image, picture())
    wave = np.sin(np.arange(33.0)).astype(np.float32)
    for signal in (wave, np.outer([1, 2, 3], wave).astype(np.float32)):
        seen, _ = over_time(signal)
        axis = look.load(seen.save(tmp_path / "x.npz")).axes["source"]
        np.testing.assert_array_equal(axis.signal, signal)
        np.testing.assert_allclose(axis.edges, np.arange(8) * 0.5)


def test_labels_of_regions_and_frames():
    assert look.axis(grid=(2, 2)).labels[2] == "row 2, column 1"
    assert look.axis(times=[0, 0.04], unit="s").labels == ["0 s", "0.04 s"]
    assert look.axis(times=[2, 5, 6], until=10, unit="h").edges.tolist() == [2, 5, 6, 10]


def test_special_tokens_stand_beside_the_grid():
    axis = look.axis(["[CLS]", *map(str, range(15))], grid=GRID, image=picture())
    table = np.random.default_rng(0).random((16, 16)) ** 30
    table /= table.sum(1, keepdims=True)
    seen = look.record(table, axis)
    assert seen.without_specials().axes["source"].grid == GRID
    shown = ShownView(seen, "overlay")
    painted = heat(seen.matrix().weights[4], axis, log=False)
    np.testing.assert_allclose(painted, colors(table[4, 1:] / table[4, 1:].max()).reshape(*GRID, 4), atol=1e-6)
    assert shown.strip[0] == 0  # the class token comes first
    assert len(shown.strip) <= 12
    assert ShownView(seen, "overlay", row=-1).strip == [15]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: look.axis(), "needs labels, a grid or times"),
        (lambda: look.axis("ab", image=picture()), "an image needs the grid"),
        (lambda: look.axis("ab", signal=[1.0]), "a signal needs the times"),
        (lambda: look.axis(times=[0, 2, 1]), "times decrease"),
        (lambda: look.axis(grid=(2, 2), image=np.zeros((4, 4, 7))), "not of shape (4, 4, 7)"),
        (lambda: look.axis(grid=(2, 2), image=np.full((4, 4), 3.0)), "undo the normalization"),
        (lambda: look.axis(times=[0], signal=[np.nan]), "must be finite"),
        (lambda: look.axis(["[CLS]", "a"], grid=(1, 2)), "a grid of 1 × 2 does not fit 1 tokens"),
        (lambda: ShownView(look.record(np.eye(2), ["a", "b"]), "overlay"), "an image or a time axis"),
        (lambda: ShownView(over_image()[0], "overlay", row=4), "row=4 is not one of 0 to 3"),
    ],
)
def test_what_does_not_fit_is_said(call, told):
    with pytest.raises(CallError, match=re.escape(told)):
        call()


# ------------------------------------------------------------------------------------------------------------- pictures
def test_the_heat_of_each_word_is_light_where_it_looked():
    seen, weights = over_image()
    canvas = draw_overlay(ShownView(seen, "overlay", head=1))
    pictures, beneath = canvas.subfigs
    panels = pictures.axes[1 : 1 + len(WORDS)]
    for panel, word, row in zip(panels, WORDS, weights[1], strict=True):
        assert panel.get_title() == f"{word}\nlargest {row.max():.2g}, even {1 / row.size:.2g}"
        image, painted = (one.get_array() for one in panel.images)
        np.testing.assert_array_equal(image, picture())
        np.testing.assert_allclose(painted.reshape(-1, 4), colors(row / max(row.max(), 5 / row.size)), atol=1e-6)
    card = [text.get_text() for text in beneath.axes[0].texts]
    assert {"Reliability", "entropy (bits)", f"{entropy(weights[1]):.2f}"} <= set(card)


def test_a_card_has_no_empty_column():
    """With one row there is no other to be shuffled with."""
    record, _ = over_image()
    (drawn,) = (axes for axes in draw_overlay(ShownView(record)).axes if axes.get_xlim() == (0.0, 1.0) and axes.texts)
    shown = {text.get_text() for text in drawn.texts}
    assert {"here", "uniform"} <= shown
    assert "shuffled" not in shown
    assert "shuffled" not in in_terminal(record)
    gold = Gold(frozenset({(0, 0)}))
    sides = (look.axis(words, words=[0, 1]) for words in (["ein", "Hund"], ["a", "dog"]))
    words = replace(look.record(np.eye(2)[None], *sides, input="a dog"), gold=gold)
    assert "shuffled" in in_terminal(words)


@pytest.mark.parametrize("method", ["raw", "leave-one-out", "input-gradient"])
def test_what_is_no_attention_is_not_headed_attention(method):
    record = replace(over_image()[0], method=method)
    assert ("Attention" in ShownView(record).caption) == (method == "raw")


@pytest.mark.parametrize(("keys", "even"), [(64, 1 / 5), (6, 1 / 5), (2, 1 / 2), (1, 1.0)])
def test_nearly_even_attention_is_not_stretched_to_full_color(keys, even):
    weights = np.full((3, keys), 1 / keys) * np.random.default_rng(0).uniform(0.999, 1.001, (3, keys))
    np.testing.assert_allclose(strength(weights, top_weight(weights), log=False), even, rtol=2e-3)
    axis = look.axis(grid=(1, keys), image=picture())
    np.testing.assert_allclose(heat(weights[0], axis, log=False)[0], colors([even] * keys), atol=2e-2)
    turned = np.full((keys, 100), 1 / keys)  # a document over a question: its columns sum to one
    np.testing.assert_allclose(strength(turned, top_weight(turned), log=False), even)
    sharp = np.eye(keys)
    assert top_weight(sharp) == 1.0
    assert top_weight(sharp, keys=1) == 1.0


def test_one_saturated_row_does_not_make_the_others_pale():
    weights = np.array([[0.25, 0.2, 0.2, 0.15, 0.1, 0.1]] * 7 + [[1.0, 0, 0, 0, 0, 0]])
    assert top_weight(weights, keys=20) == 0.25


def test_a_region_that_looks_has_a_frame():
    axis = look.axis(grid=GRID, image=picture(60, 100))
    canvas = draw_overlay(ShownView(look.record(np.eye(15), axis), "overlay", row=7))  # second row, third column
    (frame,) = canvas.subfigs[0].axes[1].patches
    assert (frame.get_xy(), frame.get_width(), frame.get_height()) == ((39.5, 19.5), 20, 20)


@pytest.mark.parametrize("signal", [np.sin(np.arange(50.0)), np.random.default_rng(0).random((9, 50)), None])
def test_sound_and_series_have_their_rows_beneath_them(signal):
    seen, weights = over_time(signal)
    canvas = draw_overlay(ShownView(seen, "overlay"))
    drawn = canvas.subfigs[0].axes
    below = drawn[-1]
    assert len(drawn) == 1 + (signal is not None)
    np.testing.assert_allclose(
        below.collections[0].get_array().reshape(4, 7),
        np.minimum(1, weights / max(np.sort(weights.max(1))[2], 5 / 7)),
        atol=1e-6,
    )
    assert below.get_xlim() == (0, 3.5)


def test_in_the_terminal():
    seen, weights = over_image(heads=1)
    text = in_terminal(seen, view="overlay")
    assert f"dog: largest {weights[0, 1].max():.2g}, even 0.067" in text
    seen, weights = over_time(None)
    best = weights[1].argmax()
    assert f"most at {best * 0.5:g} s: {weights[1, best]:.2f}" in in_terminal(seen, view="overlay")


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_files(suffix, tmp_path):
    for seen in (over_image()[0], over_time(np.arange(20.0))[0]):
        assert look.save(seen, tmp_path / f"x.{suffix}", view="overlay").stat().st_size > 1000
