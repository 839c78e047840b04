"""Pictures and texts in one space: batches, and from the user's files to labels, search and looks."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner

import regard
from look_methods import REFUSED
from picture_example import write_pictures
from regard import config
from regard.attention import Trace
from regard.cli import cli
from regard.corpora.shapes import one_shape
from regard.encoders.image import PositionAttention
from regard.errors import CallError, RegardError
from regard.inputs.image.store import PictureColumn, PictureStore, Pixels
from regard.inputs.media import MediaExamples
from regard.inputs.text.pairs import Frame
from regard.job import make_job
from regard.look.case import evaluating
from regard.look.methods import METHODS
from regard.look.methods.attnlrp import attnlrp
from regard.look.methods.inputs import integrated_gradients
from regard.models.embedder import TwoTowers
from regard.tasks.result import LookOptions
from regard.tasks.vector.match import Match
from regard.tasks.vector.vectorizer import MatchBatches


def tree(listed, **model):
    return {
        "job": "match",
        "data": {
            "train": str(listed), "image": "image", "caption": "caption", "split": "split", "height": 12, "width": 20,
            "max_length": 8,
        },
        "model": {
            "width": 16, "temperature": 0.2,
            "image": {"encoder": {"kind": "cnn", "stages": [16, 24]}, "width": 24},
            "text": {"kind": "recurrent", "width": 24, "embedding": 16, "dropout": 0.0}, **model,
        },
        "training": {
            "max_tokens": 300, "max_steps": 60, "max_epochs": None, "learning_rate": 1e-2, "warmup": 5,
            "schedule": "cosine", "validate_every": 60,
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    """One caption is said of two pictures."""
    found = write_pictures(tmp_path_factory.mktemp("pictures"))
    (found.parent / "again.png").write_bytes((found.parent / "0.png").read_bytes())
    found.write_text(found.read_text() + "again.png\ttrain\tred before green\n")
    return found


@pytest.fixture(scope="module")
def run(listed):
    file = listed.parent / "recipe.yaml"
    file.write_text(yaml.safe_dump(tree(listed)))
    return regard.train(file, output=listed.parent / "run")


# ---------------------------------------------------------------------------------------------------------- batches
def test_a_batch_has_a_picture_once_and_equal_captions_are_no_negatives(run):
    store = PictureStore(next((run.folder / "cache").glob("train-*")))
    tokenizer = run.job.output.text.tokenizer
    examples = MediaExamples(store, PictureColumn(store, Pixels(store), 15), tokenizer, max_length=8)
    frame = Frame.of(tokenizer.specials, first=False)
    batches = MatchBatches(examples, frame, 10**4, seed=3)
    assert [len(rows) for rows in batches.plan(0)] == [13]
    texts = []
    for epoch in range(2):
        (batch,) = batches.epoch(epoch)
        (rows,) = batches.plan(epoch)
        assert sorted(rows) == list(range(13))
        said = [tokenizer.decode(ids.tolist()) for ids in batch.text]
        texts.append(dict(zip(rows.tolist(), said, strict=True)))
        for i, j in itertools.product(range(13), repeat=2):
            assert bool(batch.right[i, j]) == (said[j] in store.entries[rows[i]].texts)
        assert batch.right.diagonal().all()
        assert batch.right.sum() > 13  # what is said of 0.png is said of again.png
    assert all(texts[0][row] != texts[1][row] for row in range(12))  # the next caption in the next epoch
    small = MatchBatches(examples, frame, 100, seed=3)
    assert sorted(map(len, small.plan(0))) == [4, 4, 5]
    shares = [list(small.epoch(1, rank=rank, world=2)) for rank in range(2)]
    whole = list(small.epoch(1))
    for row, one in enumerate(whole):
        assert torch.equal(one.source[1::2], shares[1][row].source)
        assert torch.equal(one.right[1::2, 1::2], shares[1][row].right)
    assert small.batch(np.zeros(0, np.int64)).right.sum() == 0


# -------------------------------------------------------------------------------------------------------- the job
def test_pictures_and_captions_find_each_other(run):
    assert isinstance(run.job.output, Match)
    scores = run.evaluate()
    assert scores.values["image_to_text_at_1"] > 80
    assert scores.values["text_to_image_at_1"] > 80
    assert scores.values["text_to_image_median_rank"] == 1
    chance = {(row["way"], row["recall at"]): row["by chance"] for row in scores.details["recall, in percent"]}
    assert chance["text to image", 1] == pytest.approx(100 / 12)
    assert chance["image to text", 1] == pytest.approx(100 * 2 / 24)


def test_labels_that_were_never_trained_on(run, listed):
    path = str(listed.parent / "1.png")  # red and blue
    found = run.predict(path, labels=["red before blue", "green before white"], n_best=2)
    assert found.text == "red before blue"
    assert sum(found.probabilities.values()) == pytest.approx(1, abs=1e-5)
    cosines = run.job.output.similarity(run.model, [path], ["red before blue", "green before white"])[0]
    expected = (run.model.scale.item() * cosines).softmax(0).tolist()
    assert list(found.probabilities.values()) == pytest.approx(expected, abs=1e-5)
    mixed = run.predict(path, labels=["red", "white"], templates=["{} before blue", "{} and then blue"])
    assert mixed.text == "red"
    assert "red" in run.predict(path).text  # of the captions of training
    assert run.score([path], ["red before blue"])[0].score == pytest.approx(float(cosines[0]), abs=1e-5)
    with pytest.raises(CallError, match=r"which lacks \{\}"):
        run.predict(path, labels=["red"], templates=["a picture"])
    with pytest.raises(CallError, match="has no token to match"):
        run.score([path], [" "])


def test_zero_shot_accuracy_of_a_folder_of_classes(run, listed, tmp_path):
    for name, number in (("red before blue", 1), ("green before red", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.png").write_bytes((listed.parent / f"{number}.png").read_bytes())
    values = run.evaluate(zero_shot=str(tmp_path)).values
    assert values["zero_shot_accuracy"] == 100
    assert values["zero_shot_by_chance"] == 50


def test_where_it_looks_in_picture_and_text(run, listed):
    path = str(listed.parent / "3.png")
    record = run.look(path, output="green before red", evidence=True)
    cross = record.matrix("cross")
    assert cross.columns.grid == (3, 5)
    assert cross.columns.image.shape == (12, 20, 3)
    assert cross.weights.sum() == pytest.approx(1, abs=1e-5)
    words = record.matrix("decoder")
    assert words.columns.labels == ["green", "before", "red", "</s>"]
    assert record.score == pytest.approx(run.score([path], ["green before red"])[0].score, abs=1e-5)
    assert run.look(path, output="green before red", without=["cross.0.0"]).score == pytest.approx(0, abs=1e-6)
    assert [figure.name for figure in record.evidence] == ["comprehensiveness", "sufficiency"]
    with pytest.raises(CallError, match="method='norms' is not known"):
        run.look(path, method="norms")
    with pytest.raises(CallError, match="'match' does not support a prefix; remove it"):
        run.look(path, prefix="green")
    assert b"data:image/png" in (run.folder / "report.html").read_bytes()


def test_methods_ask_for_the_cosine_of_both_sides(run, listed):
    """What is lost without a region, or without a word, by the user's own scores; the rest is scaled to one."""
    path, said = str(listed.parent / "3.png"), "green before red"
    without = run.look(path, output=said, method="leave-one-out")
    image, item = run.job.input, run.job.input.read(path)
    whole = run.score([path], [said])[0].score
    covered = [whole - run.score([image.without(item, {region})], [said])[0].score for region in range(15)]
    expected = np.maximum(covered, 0) / np.maximum(covered, 0).sum()
    np.testing.assert_allclose(without.matrix("cross").weights[0], expected, atol=1e-3)
    words = [whole - one.score for one in run.score([path] * 3, ["before red", "green red", "green before"])]
    expected = np.maximum(words, 0) / np.maximum(words, 0).sum()
    np.testing.assert_allclose(without.matrix("decoder").weights[0, :3], expected, atol=1e-3)
    assert without.scores == pytest.approx([whole], abs=1e-5)


def test_gradients_are_of_the_cosine(run, listed):
    path, said = str(listed.parent / "3.png"), "green before red"
    model, picture = run.model, run.job.input.read(path)
    text = torch.tensor([[*run.job.output.text.tokenizer.encode(said), 3]])
    encoder = model.image.encoder
    pixels = ((picture.pixels[None] / 255 - encoder.mean) / encoder.deviation).requires_grad_()
    memory = encoder.body(pixels)
    x = encoder.positions(encoder.project(memory.vectors), encoder.grid)
    seen = model.image.project(model.image.pooling(replace(memory, vectors=x)))
    cosine = torch.cosine_similarity(seen, model.text(text))[0]
    assert cosine.item() == pytest.approx(run.score([path], [said])[0].score, abs=1e-5)
    (felt,) = torch.autograd.grad(cosine, pixels)
    regions = (pixels * felt).detach().sum((0, 1)).view(3, 4, 5, 4).sum((1, 3)).flatten().abs()
    found = run.look(path, output=said, method="input-gradient")
    np.testing.assert_allclose(found.matrix("cross").weights[0], regions / regions.sum(), atol=1e-3)
    assert found.matrix("decoder").weights[0, 3] == 0  # the end is always there
    assert found.matrix("decoder").weights.sum() == pytest.approx(1, abs=1e-5)


def untrained(run, listed, change):
    """A job with other towers, which knows the words of the run."""
    job = make_job(config.build(config.override(tree(listed), change), ""))
    job.output.text.restore(run.folder)
    return job.bound(job.build().eval())


@pytest.mark.parametrize("pooling", ["summary", "mean", "attention"])
def test_what_a_pooled_vector_looks_with(run, listed, pooling):
    """The class token of a Vision Transformer, all regions alike, or a learned query."""
    job = untrained(run, listed, {"model.image": {"encoder": VIT, "width": None, "pooling": pooling}})
    path = str(listed.parent / "1.png")
    with torch.no_grad(), Trace(job.model) as seen:
        job.model.image(job.input.collate([job.input.read(path)]))
    own = seen["image.encoder.body.layers.0.attention"][0].numpy()  # the class token comes first
    expected = {
        "summary": lambda: own[:, :1, 1:],
        "mean": lambda: own[:, 1:, 1:].mean(axis=1, keepdims=True),
        "attention": lambda: seen["image.pooling.attention"][0, None].numpy(),
    }
    record = job.look(path, LookOptions(output="red before blue"))
    np.testing.assert_allclose(record.of_kind("cross")[0].weights, expected[pooling](), atol=1e-6)
    np.testing.assert_allclose(record.of_kind("encoder")[0].weights, own[:, 1:, 1:], atol=1e-6)
    rolled = (own.mean(axis=0) + np.eye(16)) / 2
    through = {
        "summary": lambda: rolled[:1, 1:],
        "mean": lambda: rolled[1:, 1:].mean(axis=0, keepdims=True),
        "attention": lambda: expected["attention"]()[0] @ rolled[1:, 1:],
    }
    record = job.look(path, LookOptions(output="red before blue", method="rollout"))
    np.testing.assert_allclose(record.matrix("cross").weights, through[pooling](), atol=1e-6)


# ------------------------------------------------------------------------------------------------ the command line
def test_labels_from_the_command_line(run, listed):
    path = str(listed.parent / "1.png")
    said = CliRunner().invoke(
        cli, ["predict", str(run.folder), path, "--labels", "white, red", "--template", "{} before blue"]
    )
    assert said.exit_code == 0, said.output
    lines = [line.split("\t") for line in said.output.splitlines()]
    assert [name for _, name in lines] == ["red", "white"]
    assert sum(float(chance) for chance, _ in lines) == pytest.approx(1, abs=1e-3)


def test_an_index_of_ones_own_folder(run, listed, tmp_path):
    photos, file = tmp_path / "photos", tmp_path / "photos.index"
    (photos / "below").mkdir(parents=True)
    for number in range(12):
        (photos / "below" / f"{number}.png").write_bytes((listed.parent / f"{number}.png").read_bytes())
    (photos / "cut.jpg").write_bytes(b"\xff\xd8\xff nothing")
    (photos / "notes.txt").write_text("no picture")
    made = CliRunner().invoke(cli, ["index", str(run.folder), str(photos), "-o", str(file), "--json"])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["pictures"] == 12
    assert "1 picture could not be read (skipped): cut.jpg" in made.stderr
    found = CliRunner().invoke(cli, ["search", str(file), "red before blue", "-k", "3", "--json"])
    assert found.exit_code == 0, found.output
    best = json.loads(found.stdout)
    assert best[0]["picture"] == "below/1.png"
    assert [one["score"] for one in best] == sorted((one["score"] for one in best), reverse=True)
    expected = run.job.output.similarity(run.model, [photos / "below" / "1.png"], ["red before blue"])
    assert best[0]["score"] == pytest.approx(float(expected), abs=1e-4)
    index = regard.open_index(file)
    assert index.like(photos / "below" / "7.png", k=1)[0].name == "below/7.png"
    assert index.like(photos / "below" / "7.png", k=99)[0].score == pytest.approx(1, abs=1e-4)


def test_an_index_is_renewed_and_refused_where_it_does_not_fit(run, listed, tmp_path):
    photos, file = tmp_path / "photos", tmp_path / "photos.index"
    photos.mkdir()
    for number in range(3):
        (photos / f"{number}.png").write_bytes((listed.parent / f"{number}.png").read_bytes())
    run.index(photos).save(file)
    (photos / "0.png").unlink()
    (photos / "2.png").write_bytes((listed.parent / "5.png").read_bytes())
    again = CliRunner().invoke(cli, ["index", str(run.folder), str(photos), "-o", str(file)])
    assert "1 unchanged pictures are reused; 1 are read" in again.output
    renewed = regard.open_index(file)
    assert list(renewed.stamps) == ["1.png", "2.png"]
    torch.testing.assert_close(renewed.vectors, run.index(photos).vectors)
    with pytest.raises(CallError, match="no pictures found"):
        run.index(run.folder / "state")
    with pytest.raises(CallError, match="no such index"):
        regard.open_index(tmp_path / "none.index")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(RegardError, match="not a usable index"):
        regard.open_index(file)
    wrong = CliRunner().invoke(cli, ["search", str(file)])
    assert isinstance(wrong.exception, CallError)


def test_the_service_takes_a_picture_and_labels(run, listed):
    pytest.importorskip("fastapi", reason="the service needs the web extra")
    pytest.importorskip("httpx", reason="tests of the service need httpx")
    from fastapi.testclient import TestClient

    from regard.serve.app import create_app

    with TestClient(create_app({"match": run}), base_url="http://127.0.0.1") as client:
        name = client.post("/api/upload", content=(listed.parent / "1.png").read_bytes()).json()["name"]
        asked = {"inputs": [name], "labels": ["white before red", "red before blue"]}
        (found,) = client.post("/api/predict", json=asked).json()["predictions"]
        assert found["labels"] == ["red before blue"]
        assert found["probabilities"]["red before blue"] > 0.5
        plain = client.post("/api/predict", json={"inputs": [name]})
        assert plain.status_code == 200  # the nearest caption of training
        looked = client.post("/api/look", json={"text": name, "output": "red before blue"})
        assert looked.status_code == 200
        wrong = client.post("/api/predict", json={"inputs": [name], "labels": ["red"], "templates": ["no place"]})
        assert wrong.status_code == 422
        assert "which lacks {}" in wrong.json()["error"]


VIT = {"kind": "vit", "patch": 4, "width": 24, "heads": 2, "layers": 1}
CNN = {"kind": "cnn", "stages": [16, 24]}
SIGNED = {"integrated-gradients": integrated_gradients, "attnlrp": attnlrp}
BERT = {"kind": "transformer", "width": 24, "heads": 2, "layers": 1, "feed_forward": 32, "max_positions": 12}


@pytest.mark.parametrize(
    ("change", "layers"),
    [
        ({"model.image": {"encoder": VIT, "width": None, "pooling": "summary"}}, "cross"),
        ({"model.image": {"encoder": {**CNN, "attention": [1]}, "pooling": "mean"}}, "cross"),
        ({"model.image": {"encoder": CNN, "width": 24, "layers": 1, "score": "additive"}}, "cross"),
        ({"model.text": BERT}, "decoder"),
    ],
    ids=["vit", "cnn", "blocks", "transformer"],
)
def test_every_tower_by_every_method(run, listed, change, layers):
    """`layers`: the side that has layers of self-attention, which is all that rollout can show."""
    job = untrained(run, listed, change | {"decoding.labels": ["red before blue"]})
    for module in job.model.modules():
        if isinstance(module, PositionAttention):  # it begins closed
            torch.nn.init.ones_(module.gate)
    path = str(listed.parent / "1.png")
    assert job.output.similarity(job.model, [path, path], ["red", "blue", "green"]).shape == (2, 3)
    for method in METHODS:
        if method == "rollout" and change.get("model.image", {}).get("encoder", {}).get("attention"):
            with pytest.raises(CallError, match="in a CNN, convolutions mix neighbors"):
                job.look(path, LookOptions(method=method))
            continue
        if method == "attnlrp" and "model.text" not in change:  # that of `run` is recurrent
            with pytest.raises(CallError, match=REFUSED[method]):
                job.look(path, LookOptions(method=method))
            continue
        record = job.look(path, LookOptions(method=method))
        shown = [kind for kind in record.kinds if kind != "encoder"]
        wanted = [layers] if method == "rollout" else ["cross", "decoder"]
        for kind in set(wanted) - set(shown):  # all of an untrained side may speak against it: then it is said
            told = job.output.tell(job.model, path, LookOptions())[0]
            case = job.output.case(job.model, path, told)
            side = case if kind == "cross" else case.beside[0]
            assert f"none by the {side.columns}" in record.method
            if method in SIGNED:
                with evaluating(job.model):
                    assert (SIGNED[method](side).parts < 0).all()
        assert set(shown) <= set(wanted)
        assert record.output == "red before blue"
        assert record.scores == pytest.approx([record.score], abs=1e-5)
        for kind in shown:
            matrix = record.matrix(kind)
            assert matrix.rows.labels == ["red before blue"]
            assert matrix.columns.grid == (3, 5) if kind == "cross" else "before" in matrix.columns.labels
            assert matrix.weights.max() > 0


def test_rollout_needs_layers(run, listed):
    with pytest.raises(CallError, match="multiplies attention over layers"):
        run.look(str(listed.parent / "1.png"), method="rollout")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model.image.layers": 1, "model.image.width": None}, r"model\.image\.layers=1 needs a width"),
        ({"decoding.templates": ["x"]}, r"which lacks \{\}"),
        ({"decoding.labels": ["a", "a"]}, "the same label twice"),
        ({"model.image.encoder": {"kind": "vit", "patch": 7}}, r"encoder\.patch=7 must divide data\.height=12"),
    ],
)
def test_impossible_settings_are_named(listed, change, message):
    with pytest.raises(CallError, match=message):
        config.build(config.override(tree(listed), change), "recipe")


def test_one_shape_is_what_its_label_says():
    found = list(one_shape("valid"))
    assert len({one.texts[0] for one in found}) == 30
    assert len(found) == 150
    reds = [one.image for one in found if one.texts[0] == "red square"]
    for image in reds:
        far = np.abs(image.astype(int) - image[0, 0]).sum(-1) > 200
        assert np.median(image[far], axis=0).tolist() == [214, 40, 40]


def test_the_scale_is_learned_and_has_a_limit(run):
    assert isinstance(run.model, TwoTowers)
    assert run.model.scale.item() != pytest.approx(1 / 0.2)
    with torch.no_grad():
        before = run.model.log_scale.clone()
        run.model.log_scale.fill_(9.0)
        assert run.model.scale.item() == pytest.approx(100)
        run.model.log_scale.copy_(before)
