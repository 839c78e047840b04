"""Pictures to text, from the user's files to predictions and pictures of attention."""

import json

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner
from PIL import Image

import regard
from picture_example import write_pictures
from regard import config
from regard.cli import cli
from regard.corpora.shapes import SHAPES, paint, shapes, stream
from regard.data.examples import ExampleBatches
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError, RegardError
from regard.inputs.image.store import PictureColumn, PictureStore, Pixels
from regard.inputs.media import MediaExamples
from regard.job import make_job
from regard.tasks.text.captions import Captions
from test_draw import tree as draw_tree
from test_match import tree as match_tree


def tree(listed, **model):
    return {
        "job": "caption",
        "data": {
            "train": str(listed), "image": "image", "caption": "caption", "split": "split", "height": 12, "width": 20,
            "max_length": 8,
        },
        "model": {
            "kind": "recurrent", "width": 32, "embedding": 16, "dropout": 0.0,
            "encoder": {"kind": "cnn", "stages": [16, 24]}, **model,
        },
        "training": {
            "max_tokens": 480, "max_steps": 200, "max_epochs": None, "learning_rate": 8e-3, "warmup": 10,
            "schedule": "cosine", "validate_every": 200,
        },
        "decoding": {"beam": 2, "max_length": 8},
    }  # fmt: skip


def build_captioner(recipe):
    """For a vocabulary of eleven words."""
    job = make_job(recipe)
    job.output._tokenizer = Tokenizer.train(["a b c d e f g"], "word")
    assert job.output.tokenizer.size == 11
    return job.build()


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def run(listed):
    file = listed.parent / "recipe.yaml"
    file.write_text(yaml.safe_dump(tree(listed, gate=True, query="current")))
    return regard.train(file, output=listed.parent / "run")


def test_a_captioner_learns_its_tiny_data(run):
    assert isinstance(run.job.output, Captions)
    scores = run.evaluate().values
    assert scores["exact_match"] > 80
    assert scores["bleu1"] >= scores["bleu2"] > 60  # there are two ways to say it, one of them in three words
    assert scores["cider"] > 3
    assert "pointing" not in scores  # nobody knows where things are in these pictures


def test_a_picture_is_the_same_by_path_bytes_array_and_pillow(run, listed):
    path = listed.parent / "1.png"
    with Image.open(path) as image:
        ways = [str(path), path, path.read_bytes(), np.asarray(image), image.copy()]
    texts = {prediction.text for prediction in run.predict(ways)}
    assert len(texts) == 1
    assert run.predict(str(path)).input == str(path)
    assert run.predict([]) == []
    assert run.predict(str(path), prefix="white").text.startswith("white")
    with pytest.raises(CallError, match=r"nothing\.png: there is no such picture"):
        run.predict("nothing.png")


BEGINNING = "12 of 12 are longer than data.max_length=4 tokens: only their beginning is read"


@pytest.mark.parametrize("made", [tree, match_tree, draw_tree], ids=["caption", "match", "draw"])
def test_long_captions_are_left_out_of_training_and_of_no_score(listed, tmp_path, made):
    """Half of the captions have 5 tokens with their end: "red and then green"."""
    recipe = made(listed)
    recipe["data"] |= {"max_length": 4}
    job = make_job(config.build(recipe))
    job.prepare(tmp_path)
    train, valid = (job.splits[role] for role in ("train", "valid"))
    assert (len(train), len(valid)) == (12, 24)
    assert {len(valid.target(row)) for row in range(24)} == {4}
    assert valid.lengths()[1].tolist() == [4] * 24
    bound = job.bound(job.build())
    assert np.isfinite(bound.validate()["loss"])
    assert bound.evaluate().notes.get("longer inputs", "") == ("" if made is tree else BEGINNING)
    report = job.check(tmp_path, estimates=False)
    told = {one.split: one.advice for one in report.findings if "longer than" in one.what}
    assert "left out of training" in told["train"]
    assert "scored as well" in told["valid"]


def test_outputs_are_scored_as_decoding_scores_them(run, listed):
    found = run.predict(str(listed.parent / "2.png"), n_best=2)
    scored = run.score([str(listed.parent / "2.png")], [found.text])
    assert scored[0].score == pytest.approx(found.score, abs=1e-4)
    assert scored[0].log_probability == pytest.approx(found.log_probability, abs=1e-4)


def test_looking_shows_the_winner_over_the_picture_and_the_gate(run, listed):
    path = str(listed.parent / "3.png")
    plain = run.predict(path)
    record = run.look(path)
    assert record.output == plain.text
    cross = record.matrix("cross")
    assert cross.columns.grid == (3, 5)
    assert cross.columns.image.shape == (12, 20, 3)
    assert cross.rows.labels == [*plain.text.split(), "</s>"]
    sums = cross.weights.sum(1)  # the gate takes its part of every word's attention
    assert (sums > 0).all()
    assert (sums < 1).all()
    assert "gate" in record.method
    looked = run.predict(path, attention=True)
    assert looked.text == plain.text
    np.testing.assert_allclose(looked.alignment.mean, cross.weights, atol=1e-6)
    for method in ("norm", "gradient", "input-gradient", "leave-one-out"):
        seen = run.look(path, method=method, evidence=True)
        assert seen.output == plain.text
        sums = seen.matrix("cross").weights.sum(1)
        assert (np.isclose(sums, 1, atol=1e-5) | (sums == 0)).all()
        assert {figure.name for figure in seen.evidence} == {"comprehensiveness", "sufficiency"}
    with pytest.raises(CallError, match="needs a Transformer"):
        run.look(path, method="rollout")


def test_a_caption_is_told_while_it_is_written(run, listed):
    path, pieces = str(listed.parent / "1.png"), []
    told = run.stream(path, lambda piece, so_far: pieces.append((piece, so_far)))
    assert told.text == run.predict(path, beam=1).text == pieces[-1][1]
    assert [piece for piece, _ in pieces] == told.text.split()


def test_from_the_command_line(run, listed, tmp_path):
    path, folder = str(listed.parent / "3.png"), str(run.folder)
    said = CliRunner().invoke(cli, ["predict", folder, path])
    assert said.output.strip() == run.predict(path).text
    drawn = CliRunner().invoke(cli, ["look", folder, path, "--view", "overlay", "-o", str(tmp_path / "strip.png")])
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "strip.png").stat().st_size > 1000
    assert b"data:image/png" in (run.folder / "report.html").read_bytes()


def test_bad_lines_and_pictures_are_named_and_refused(listed, tmp_path):
    broken = tmp_path / "list.tsv"
    (tmp_path / "cut.png").write_bytes((listed.parent / "1.png").read_bytes()[:60])
    rows = [*listed.read_text().splitlines(), "cut.png\ttrain\tx", "gone.png\ttrain\ty", "odd line"]
    broken.write_text("\n".join(rows) + "\n")
    for number in range(12):
        (tmp_path / f"{number}.png").write_bytes((listed.parent / f"{number}.png").read_bytes())
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(tree(broken)))
    report = regard.check(file)
    found = " ".join(finding.what for finding in report.errors)
    assert "cut.png: damaged or cut short" in found
    assert "there is no picture 'gone.png'" in found
    assert "1 column where the first line has 3" in found
    assert {75} <= {line for finding in report.errors for line in finding.lines}
    with pytest.raises(RegardError, match="the data cannot be trained on"):
        regard.train(file, output=tmp_path / "run")
    assert not (tmp_path / "run" / "state").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model.tied": "all"}, "word vectors of the input"),
        ({"model.gate": True, "model.context": "initial"}, "needs context=attention"),
        ({"data.augment": {"mixup": 0.2}}, "two captions have no mean"),
        ({"model.encoder": {"kind": "vit", "patch": 7}}, r"model\.encoder\.patch=7 must divide data\.height=12"),
        ({"model.encoder": {"kind": "efficientnet"}, "data.augment": {"flip": True}}, "views=1 must be 2 or more"),
        ({"model.encoder": {"kind": "efficientnet", "views": 2}}, "for frozen features of pictures that data.augment"),
    ],
)
def test_impossible_settings_are_named(listed, change, message):
    with pytest.raises(CallError, match=message):
        config.build(config.override(tree(listed), change), "recipe")


@pytest.mark.parametrize(
    "model",
    [
        {"context": "initial"},
        {"context": "constant"},
        {"query": "current", "score": "bilinear", "input_feeding": True},
        {"encoder": {"kind": "vit", "patch": 4, "width": 24, "heads": 2, "layers": 1}},
        {"encoder": {"kind": "vit", "patch": 4, "width": 24, "heads": 2, "layers": 1, "stem": [8, 16]}},
        {"encoder": {"kind": "cnn", "stages": [16, 24], "attention": [0, 1]}},
    ],
    ids=lambda model: " ".join(map(str, model.values()))[:40],
)
def test_every_encoder_meets_every_decoder(listed, model):
    recipe = config.build(config.override(tree(listed), {f"model.{key}": value for key, value in model.items()}), "")
    captioner = build_captioner(recipe)
    pixels = torch.randint(0, 256, (2, 3, 12, 20), dtype=torch.uint8)
    memory = captioner.encode(pixels)
    assert memory.grid == (3, 5)
    assert memory.vectors.shape == (2, 15, 32)
    features = captioner.features(memory, torch.tensor([[4, 5, 3], [6, 3, 0]]))
    assert captioner.logits(features).shape == (2, 3, 11)


def test_a_transformer_over_regions(listed):
    settings = tree(listed)
    settings["model"] = {
        "kind": "transformer", "width": 32, "heads": 4, "feed_forward": 48, "encoder_layers": 1, "decoder_layers": 2,
        "encoder": {"kind": "cnn", "stages": [16, 24]},
    }  # fmt: skip
    captioner = build_captioner(config.build(settings, "")).eval()
    pixels = torch.randint(0, 256, (2, 3, 12, 20), dtype=torch.uint8)
    assert captioner.score(pixels, torch.tensor([[4, 3], [5, 3]])).shape == (2, 2)


def test_doubly_stochastic_attention_is_the_papers_penalty(listed):
    settings = config.build(tree(listed, doubly_stochastic=0.7), "")
    captioner = build_captioner(settings)
    batch = type("Batch", (), {})()
    batch.source = torch.randint(0, 256, (2, 3, 12, 20), dtype=torch.uint8)
    batch.target = torch.tensor([[4, 5, 3], [6, 3, 0]])
    with_penalty = captioner.train()(batch)
    captioner.doubly_stochastic = 0.0
    plain = captioner(batch)
    assert plain.count == with_penalty.count == 5
    # The weights by the trace, and equation 14 by hand, over the words that are there.
    from regard.attention import Trace

    with Trace(captioner) as seen:
        captioner(batch)
    weights = seen["decoder.attention"][:, 0]
    penalty = sum(((1 - weights[row, :words].sum(0)) ** 2).sum() for row, words in enumerate((3, 2)))
    assert with_penalty.total.item() == pytest.approx(plain.total.item() + 0.7 * penalty.item(), rel=1e-5)
    with_penalty.total.backward()
    assert captioner.decoder.attention.query.weight.grad.abs().sum() > 0


def test_batches_follow_from_seed_and_epoch_alone(run, listed):
    settings = config.build(config.override(tree(listed), {"data.augment": {"flip": True, "shift": 2}}), "")
    store = PictureStore(next((run.folder / "cache").glob("train-*")))

    def batches(augment=settings.data.augment):
        sight = Pixels(store, augment, seed=3)
        examples = MediaExamples(store, PictureColumn(store, sight, 15), run.job.output.tokenizer, max_length=8)
        return ExampleBatches(examples, run.job.output.collate, 200, seed=3, ahead=True)

    whole = list(batches().epoch(2))
    for one, other in zip(whole[1:], batches().epoch(2, start=1), strict=True):
        assert torch.equal(one.source, other.source)
        assert torch.equal(one.target, other.target)
    shares = [list(batches().epoch(2, rank=rank, world=2)) for rank in range(2)]
    for row, one in enumerate(whole):
        assert torch.equal(one.source[0::2], shares[0][row].source)
        assert len(one.source) < 2 or torch.equal(one.source[1::2], shares[1][row].source)
    plain = next(batches(None).epoch(2)).source
    assert not torch.equal(plain, whole[0].source)
    assert sum(len(one.target) for one in whole) == 24


# ------------------------------------------------------------------------------------------------------- the corpus
def test_shapes_are_where_their_captions_say():
    for one in shapes("test", 30):
        assert len(one.texts) == len(set(one.texts)) == 4
        for text, nouns in zip(one.texts, one.nouns, strict=True):
            words = text.split()
            assert [words[noun.word] for noun in nouns] == [word for word in words if word in SHAPES]
            first, second = (np.array(noun.box).reshape(2, 2).mean(0) for noun in nouns[:2])
            relation = words[3:][words[3] == "is"]
            axis, sign = {"above": (0, 1), "below": (0, -1), "left": (1, 1), "right": (1, -1)}[relation]
            assert sign * (second - first)[axis] > 8
            for noun in nouns:  # what is in the middle of a box is not the background
                row, column = (int(sum(edge) / 2) for edge in (noun.box[::2], noun.box[1::2]))
                assert np.abs(one.image[row, column].astype(int) - one.image[0, 0]).max() > 40


def test_no_sentence_of_shapes_is_in_two_splits():
    said = {split: {text for one in shapes(split, 300) for text in one.texts} for split in ("train", "valid", "test")}
    assert not said["train"] & said["test"]
    assert not said["train"] & said["valid"]
    assert not said["valid"] & said["test"]
    again = next(stream("train", seed=0))
    assert np.array_equal(paint(again), next(shapes("train", 1)).image)


def test_a_summary_says_what_share_of_the_time_was_waiting(run):
    assert 0 <= run.summary()["waiting"] < 0.5
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert all(0 <= line["waiting"] <= 1 for line in lines if line["kind"] == "train")


def test_attention_is_kept_as_training_goes_on(run):
    history, best = run.history_of_looks(), run.summary()["best"]["step"]
    record = history.records[history.steps.index(best)]
    (image,) = (axis.image for axis in record.axes.values() if axis.image is not None)
    now = run.look(image, output=record.output)
    for mine, its in zip(record.attentions, now.attentions, strict=True):
        np.testing.assert_allclose(mine.weights, its.weights, atol=1e-5)
