"""Text to pictures: codes, the two stages, and from the user's files to drawings, scores and looks."""

import base64
import io
import json

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner
from PIL import Image
from safetensors.torch import load_file

import regard
from picture_example import COLORS, write_pictures
from regard import config
from regard.attention.positions import LearnedTextAndGrid
from regard.cli import cli
from regard.corpora.shapes import draw_scene, paint, shapes
from regard.corpora.shapes_seen import detect_things, judge_scene, parse_caption
from regard.errors import CallError
from regard.metrics.alignment import Gold
from regard.models.drawer import DECAY, Codebook, DrawBatch, use
from regard.tasks.base import OutputRef
from regard.tasks.picture.drawing import build_drawer
from regard.tasks.picture.output import PictureOutput


def tree(listed, **training):
    return {
        "job": "draw",
        "data": {
            "train": str(listed), "split": "split", "height": 8, "width": 12, "max_length": 6, "workers": 1,
            "tokenizer": {"kind": "word"},
        },
        "model": {
            "tokenizer": {"stages": [16, 24], "codes": 24, "width": 4, "epochs": 40},
            "layers": 2, "width": 32, "heads": 2, "dropout": 0.0,
        },
        "training": {
            "max_tokens": 400, "max_epochs": 170, "learning_rate": 1e-2, "warmup": 5, "schedule": "cosine",
            "validate_every": 40, "save_every": 40, "looks": 0, **training,
        },
        "decoding": {"temperature": 0.0},
    }  # fmt: skip


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def run(listed):
    file = listed.parent / "recipe.yaml"
    file.write_text(yaml.safe_dump(tree(listed)))
    return regard.train(file, output=listed.parent / "run")


# ------------------------------------------------------------------------------------------------- what pixels show
@pytest.mark.parametrize("side", [48, 64])
def test_shapes_are_read_from_pixels(side):
    pictures = list(shapes("test", 40, side=side))
    found = [detect_things(one.image) for one in pictures]
    pairs = zip(pictures, found, strict=True)
    assert all(
        judge_scene(parse_caption(one.texts[n % 4]), things) == (True, True) for n, (one, things) in enumerate(pairs)
    )
    others = [*found[1:], found[0]]
    assert not any(
        judge_scene(parse_caption(one.texts[0]), things).things for one, things in zip(pictures, others, strict=True)
    )


def test_a_wrong_relation_and_a_blot_are_noticed():
    scene = draw_scene(np.random.default_rng(3))
    text = scene.captions()[0][0]
    picture = paint(scene)
    assert judge_scene(parse_caption(text), detect_things(picture)) == (True, True)
    turned = text.replace("above", "BELOW").replace("below", "above").replace("BELOW", "below")
    turned = turned.replace("left", "RIGHT").replace("right", "left").replace("RIGHT", "right")
    assert judge_scene(parse_caption(turned), detect_things(picture)) == (True, False)
    free = np.argwhere((picture[:-4, :-4] == scene.ground).all(2))[0]
    picture[free[0] : free[0] + 4, free[1] : free[1] + 4] = (214, 40, 40)
    assert judge_scene(parse_caption(text), detect_things(picture)) == (False, False)


@pytest.mark.parametrize("text", ["", "a red circle", "a pink circle above a red square", "a red circle above it"])
def test_other_sentences_are_refused(text):
    with pytest.raises(CallError, match="is not a sentence of corpus:shapes"):
        parse_caption(text)


# -------------------------------------------------------------------------------------------------------- the codebook
def test_vectors_get_the_nearest_code_and_gradients_go_straight_through():
    book = Codebook(5, 3).eval()
    z = torch.randn(7, 3, requires_grad=True)
    codes, vectors, distance = book(z)
    assert torch.equal(codes, torch.cdist(z, book.table).argmin(1))
    torch.testing.assert_close(vectors, book.table[codes])
    torch.testing.assert_close(distance, torch.cdist(z, book.table).amin(1) ** 2)
    weights = torch.randn(7, 3)
    (vectors * weights).sum().backward()
    torch.testing.assert_close(z.grad, weights)


def test_codes_follow_their_vectors_and_dead_ones_are_put_elsewhere():
    book = Codebook(3, 2).train()
    book.table.copy_(torch.tensor([[0.0, 0.0], [10.0, 10.0], [-50.0, 0.0]]))
    book.chosen.copy_(torch.tensor([4.0, 4.0, 4.0]))
    book.sums.copy_(book.table * 4)
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [9.0, 9.0], [10.0, 8.0]])
    book(z)
    chosen = DECAY * 4 + (1 - DECAY) * 2
    expected = (DECAY * 4 * torch.tensor([10.0, 10.0]) + (1 - DECAY) * torch.tensor([19.0, 17.0])) / chosen
    torch.testing.assert_close(book.table[1], expected)
    for _ in range(200):  # nobody chooses the third, until it stands where a vector is
        book(z)
    assert (book.table[2] - z).norm(dim=1).min() < 2
    before = book.table.clone()
    book.eval()(z)
    assert torch.equal(before, book.table)


def test_use_is_the_perplexity_of_codes():
    assert use(torch.tensor([0, 1, 2, 3]), 9) == pytest.approx(4)
    assert use(torch.tensor([5, 5, 5]), 9) == pytest.approx(1)


# --------------------------------------------------------------------------------------------------------- the model
def model_and_batch(listed, tokenizing):
    torch.manual_seed(1)
    drawer = build_drawer(config.build(tree(listed), ""), words=11)
    pixels = torch.randint(0, 256, (3, 3, 8, 12), dtype=torch.uint8)
    text = torch.tensor([[4, 5, 3], [6, 3, 0], [7, 8, 3]])
    return drawer, DrawBatch(pixels, text, tokenizing)


@pytest.mark.parametrize("tokenizing", [True, False])
def test_each_stage_trains_its_own_part(listed, tokenizing):
    drawer, batch = model_and_batch(listed, tokenizing)
    loss = drawer(batch)
    loss.total.backward()
    assert loss.count == 3 * 6
    got, none = (drawer.tokenizer, drawer.writer) if tokenizing else (drawer.writer, drawer.tokenizer)
    assert all(weight.grad is not None for weight in got.parameters())
    assert all(weight.grad is None for weight in none.parameters())


def test_the_tokenizer_has_a_rate_of_its_own(listed):
    settings = config.build(config.override(tree(listed), {"model.tokenizer.rate": 0.3}), "")
    drawer = build_drawer(settings, words=11)
    slower = {name for name, weight in drawer.named_parameters() if drawer.rates().get(weight, 1.0) == 0.3}
    assert slower == {name for name, _ in drawer.named_parameters() if name.startswith("tokenizer.")}


@pytest.mark.parametrize("tokenizing", [True, False])
def test_a_row_without_text_counts_nothing(listed, tokenizing):
    drawer, batch = model_and_batch(listed, tokenizing)
    drawer.eval()
    whole = [drawer(DrawBatch(batch.pixels[n : n + 1], batch.text[n : n + 1], tokenizing)) for n in (0, 2)]
    batch.text[1] = 0
    some = drawer(batch)
    assert some.count == sum(one.count for one in whole)
    torch.testing.assert_close(some.total, sum(one.total for one in whole))


def test_scores_are_the_loss_and_know_the_text_and_the_past_alone(listed):
    drawer, batch = model_and_batch(listed, tokenizing=False)
    drawer.eval()
    drawer.text_weight = 0.0
    codes = drawer.tokenizer.codes(batch.pixels)
    scores = drawer.scores(batch.text, codes)
    torch.testing.assert_close(-scores.sum(), drawer(batch).total)
    padded = torch.nn.functional.pad(batch.text, (0, 2))
    torch.testing.assert_close(drawer.scores(padded, codes), scores)
    codes[:, 4] = (codes[:, 4] + 1) % 24
    torch.testing.assert_close(drawer.scores(batch.text, codes)[:, :4], scores[:, :4])
    assert not torch.equal(drawer.scores(batch.text.flip(0), codes)[:, 0], scores[:, 0])


def test_positions_of_a_text_and_then_of_rows_and_columns():
    positions = LearnedTextAndGrid(6, 4, (2, 3))
    table = positions.table
    assert table.shape == (10, 6)
    assert torch.equal(table[4 + 1, :3], table[4 + 2, :3])  # one row
    assert torch.equal(table[4 + 1, 3:], table[4 + 4, 3:])  # one column
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(positions(x, 5), x + table[5:8])
    with pytest.raises(ValueError, match="reaches position 11"):
        positions(x, 8)


# ------------------------------------------------------------------------------------------------------------ the job
def test_it_draws_what_was_said(run):
    assert isinstance(run.job.output, PictureOutput)
    errors = []
    for left in ("red", "green", "blue"):
        for right in COLORS.keys() - {left}:
            drawn = run.predict(f"{left} before {right}")
            assert drawn.picture.shape == (8, 12, 3)
            assert drawn.picture.dtype == np.uint8
            sides = drawn.picture[:, :4].mean((0, 1)), drawn.picture[:, -4:].mean((0, 1))
            wanted = np.array(COLORS[left]), np.array(COLORS[right])
            errors += [np.abs(side - color).mean() for side, color in zip(sides, wanted, strict=True)]
    assert np.median(errors) < 15
    assert max(errors) < 60
    assert run.predict("red before blue").image.size == (12, 8)


def test_scores_of_the_users_own_pictures(run):
    values = run.evaluate().values
    assert values["region_loss"] < 0.5 < np.log(24)
    assert values["bits_per_region"] == pytest.approx(values["region_loss"] / np.log(2))
    assert values["reconstruction"] < 0.1
    assert 4 < values["codes_used"] <= 24
    assert "right" not in values
    assert values["pictures"] == 12


def test_candidates_are_drawn_by_seed_and_ranked(run):
    how = {"temperature": 8.0, "candidates": 4, "n_best": 3}
    one = run.predict("red before blue", **how)
    assert len(one.pictures) == len(one.n_best) == 3
    assert [output.score for output in one.n_best] == sorted((output.score for output in one.n_best), reverse=True)
    again = run.predict(["blue before red", "red before blue"], **how)[1]
    assert [output.text for output in again.n_best] == [output.text for output in one.n_best]
    other = run.predict("red before blue", **how, seed=9)
    assert [output.text for output in other.n_best] != [output.text for output in one.n_best]


def test_a_picture_is_scored_and_looked_at(run, listed):
    file = listed.parent / "0.png"  # red and then green
    right, wrong = run.score(["red before green", "green before red"], [file, file])
    assert right.score > wrong.score
    record = run.look("red before green", output=file)
    words, regions = record.axes["source"], record.axes["target"]
    assert words.labels == ["<s>", "red", "before", "green", "</s>"]
    assert regions.grid == (2, 3)
    cross, before = record.matrix("cross", 0).weights, record.matrix("decoder", 0).weights
    assert cross.shape == (5, 6)
    assert before.shape == (6, 6)
    assert np.triu(before).max() == 0  # no region looks at itself or at what comes later
    filled = cross.sum(0) + before.sum(1)
    assert (filled <= 1 + 1e-5).all()  # the rest goes to the padding of the text
    assert record.score == pytest.approx(right.score, abs=1e-3)


def test_a_drawing_appears_region_by_region(run):
    record = run.look("red before green")
    assert record.said.regions == tuple(range(1, 7))
    frames = [np.asarray(Image.open(io.BytesIO(base64.b64decode(one)))) for one in record.said.frames]
    for count, frame in enumerate(frames, start=1):
        there = np.zeros(6, bool)
        there[:count] = True
        np.testing.assert_array_equal(frame[..., 3] > 0, there.reshape(2, 3).repeat(4, 0).repeat(4, 1))
    np.testing.assert_array_equal(frames[-1][..., :3], record.axes["target"].image)
    first = run.look("red before green", output=record.axes["target"].image).said.frames[0]
    assert first == record.said.frames[0]  # the same codes: a film is made of them alone


@pytest.mark.parametrize("method", ["raw", "rollout", "norm", "gradient", "input-gradient", "leave-one-out"])
def test_every_method_says_which_words_a_region_was_drawn_from(run, method):
    record = run.look("red before blue", method=method, evidence=True)
    table = record.matrix("cross")
    assert table.rows.labels == ["<s>", "red", "before", "blue", "</s>"]
    assert table.columns.grid == (2, 3)
    assert table.weights.shape == (5, 6)
    np.testing.assert_array_equal(table.columns.image, run.predict("red before blue").picture)
    if method in ("input-gradient", "leave-one-out"):  # a region's weights sum to one, over words that can be left out
        assert record.kinds == ["cross"]
        assert table.weights[[0, 4]].max() == 0
        sums = table.weights.sum(0)
        assert (np.isclose(sums, 1, atol=1e-5) | (sums == 0)).all()
        left, right = table.weights[:, [0, 3]].mean(1), table.weights[:, [2, 5]].mean(1)
        assert left[1] > right[1]  # the first word is more of the left side's than of the right side's
        assert right[3] > left[3]
    else:
        assert np.triu(record.matrix("decoder").weights).max() < 1e-6
    assert {figure.name for figure in record.evidence} == {"comprehensiveness", "sufficiency"}
    assert len(run.look("red before blue", temperature=4.0, n_best=3).beams) == 2


@torch.no_grad()
def test_words_that_are_left_out_are_not_there(run):
    codes = torch.tensor([int(code) for code in run.predict("red before blue").text.split()])
    case = run.job.output.case(run.model, "red before blue", OutputRef(codes.numpy(), ""))
    asked = case.ask([frozenset(), frozenset([0]), frozenset([1, 2])])
    for scores, text in zip(asked, ("red before blue", "before blue", "red"), strict=True):
        ids = torch.tensor([[*run.job.input.tokenizer.encode(text), 3]])
        torch.testing.assert_close(scores, run.model.scores(ids, codes[None])[0])


def test_a_head_is_silenced_and_attention_is_kept_through_training(run, listed, tmp_path):
    assert run.look("red before blue", without=["cross.0.1"]).scores != run.look("red before blue").scores
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(tree(listed, max_steps=4, validate_every=2, save_every=2, looks=1)))
    history = regard.train(file, output=tmp_path / "run").history_of_looks(0)
    assert history.steps == (2, 4)
    assert all(record.axes["target"].grid == (2, 3) and not record.evidence for record in history.records)


def test_from_the_command_line(run, tmp_path):
    def call(*words):
        return CliRunner().invoke(cli, [words[0], str(run.folder), *words[1:]])

    file = tmp_path / "drawing.png"
    told = call("predict", "red before dog", "-o", str(file))
    assert told.exit_code == 0, told.output
    assert "1 unknown to the model, which drew without: 'dog'" in told.stderr
    np.testing.assert_array_equal(np.array(Image.open(file)), run.predict("red before dog").picture)
    call("predict", "red before blue", "blue before red", "-o", str(tmp_path / "sheet.png"))
    assert Image.open(tmp_path / "sheet.png").size[1] > 2 * 100
    call("predict", "red before blue", "blue before red", "-o", str(tmp_path / "folder"))
    assert sorted(one.name for one in (tmp_path / "folder").iterdir()) == ["0001.png", "0002.png"]
    full = call("predict", "red before blue", "blue before red", "-o", str(tmp_path / "folder"))
    assert isinstance(full.exception, CallError)
    assert "not empty" in str(full.exception)
    assert "written as FILE.png" in str(call("predict", "red before blue", "-o", str(tmp_path / "a.svg")).exception)
    (document,) = json.loads(call("predict", "red before blue", "--json").stdout)
    assert len(document["png"]) == 1
    for target in ((), ("--target", str(file))):
        strip = call("look", "red before blue", "--view", "overlay", *target, "-o", str(tmp_path / "strip.png"))
        assert strip.exit_code == 0, strip.output
    (tmp_path / "names.txt").write_text(f"{file}\n")
    scored = call("predict", "red before dog", "--targets", str(tmp_path / "names.txt"))
    assert float(scored.output.split("\t")[0]) < 0
    assert b"data:image/png" in (run.folder / "report.html").read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_over_http(run, listed):
    client = pytest.importorskip("fastapi.testclient", reason="tests of the service need fastapi and httpx").TestClient
    from regard.serve.app import create_app
    from regard.serve.errors import Limits

    asked = {"inputs": ["red before blue"], "n_best": 2, "temperature": 4.0}
    with client(create_app({"drawer": run}, Limits()), base_url="http://127.0.0.1") as service:
        (told,) = service.post("/api/predict", json=asked).json()["predictions"]
        first = Image.open(io.BytesIO(base64.b64decode(told["png"][0])))
        drawn = run.predict("red before blue", n_best=2, temperature=4.0)
        np.testing.assert_array_equal(np.array(first), drawn.picture)
        assert len(told["png"]) == 2
        assert service.post("/api/look", json={"text": "red before blue"}).status_code == 200
        wrong = service.post("/api/look", json={"text": "red before blue", "output": str(listed.parent / "0.png")})
        assert "a text is not a picture" in wrong.json()["error"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" ", "the sentence is empty"),
        ("red before blue before red before blue", "7 tokens; this model reads at most 5"),
        ("dogs bark", "no word of 'dogs bark' is in the model's vocabulary"),
    ],
)
def test_sentences_that_cannot_be_drawn(run, text, message):
    with pytest.raises(CallError, match=message):
        run.predict(text)


def test_what_a_drawing_has_not(run, listed):
    for options in ({"prefix": "red"}, {"attention": True}, {"rerank": str(listed.parent / "nowhere")}):
        with pytest.raises(CallError, match=r"prefix|look|decoding\.rerank=.* is not a run of the job match"):
            run.predict("red before blue", **options)
    with pytest.raises(CallError, match="a text is not a picture"):  # over HTTP it would read files of ours
        run.look("red before blue", output=str(listed.parent / "0.png"))
    with pytest.raises(CallError, match="gold links"):
        run.look("red before blue", gold=Gold(frozenset(), frozenset()))


def test_a_run_of_match_says_which_candidate_fits_best(run, listed):
    recipe = {
        "job": "match",
        "data": {"train": str(listed), "split": "split", "height": 8, "width": 12, "max_length": 6, "workers": 1},
        "model": {
            "width": 8, "image": {"encoder": {"kind": "cnn", "stages": [16]}, "width": 8},
            "text": {"kind": "recurrent", "width": 8, "embedding": 8},
        },
        "training": {"max_tokens": 600, "max_steps": 2, "warmup": 1, "looks": 0},
    }  # fmt: skip
    file = listed.parent / "match.yaml"
    file.write_text(yaml.safe_dump(recipe))
    judge = regard.train(file, output=listed.parent / "match")
    how = {"temperature": 2.0, "n_best": 4, "rerank": str(judge.folder)}
    drawn = run.predict("red before blue", **how)
    cosines = judge.job.output.similarity(judge.model, list(drawn.pictures), ["red before blue"])[:, 0].tolist()
    assert [one.score for one in drawn.n_best] == pytest.approx(cosines, abs=1e-5)
    assert cosines == sorted(cosines, reverse=True)
    values = run.evaluate(["decoding.rerank=" + str(judge.folder)]).values
    assert -1 <= values["similarity_shuffled"] <= 1
    assert values["similarity"] == pytest.approx(values["similarity_true"], abs=0.3)


def test_a_stopped_run_goes_on_exactly_in_both_stages(listed, tmp_path):
    settings = tree(listed, max_epochs=4, schedule="constant", validate_every=100, save_every=100)
    settings["model"]["tokenizer"]["epochs"] = 2
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(settings))
    whole = regard.train(file, output=tmp_path / "whole")
    steps = whole.summary()["step"]
    for limit in (steps // 4, steps // 2 + 2, None):
        regard.train(file, output=tmp_path / "parts", training={"max_steps": limit})
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data.height": 10}, r"model\.tokenizer\.stages.* regions of 4×4 pixels, which must divide data\.height=10"),
        ({"training.max_epochs": 40}, r"training\.max_epochs=40 must be more than model\.tokenizer\.epochs=40"),
        ({"model.heads": 5}, r"model\.heads=5 must divide width=32"),
        ({"model.tokenizer.stages": [12, 0]}, r"model\.tokenizer\.stages"),
        ({"training.shard": True}, "cannot be split across processes"),
    ],
)
def test_impossible_settings_are_named(listed, change, message):
    with pytest.raises(CallError, match=message):
        config.build(config.override(tree(listed), change), "recipe")
