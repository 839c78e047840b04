"""Encoders of pictures against references, and classification of pictures from files to looks."""

import io
import json
import math
import shutil
from hashlib import blake2b

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import yaml
from click.testing import CliRunner
from PIL import Image
from rich.console import Console

import regard
from look_methods import asked_of_the_model
from regard import config, work
from regard.attention import Trace
from regard.cli import cli
from regard.data.check_table import check_table
from regard.data.examples import ExampleBatch
from regard.data.prepare import PrepareCache, Split
from regard.encoders.cnn_pretrained import EfficientNetLite0, weights_file
from regard.encoders.image import Colors, ConvNet, PictureEncoder, PositionAttention, VisionTransformer
from regard.errors import CallError
from regard.inputs.image.features import Features, frozen_features
from regard.inputs.image.input import ImageInput
from regard.inputs.image.settings import VIT_SIZES, PictureAugmentSettings, VisionTransformerSettings
from regard.inputs.image.source import PictureSource
from regard.inputs.image.store import Pixels
from regard.job import make_job
from regard.layers.pooling import Pooling
from regard.look.methods import METHODS
from regard.metrics.captions import caption_bleu, cider
from regard.models.classifier import Classifier, mix_up


def test_efficientnet_is_the_packages():
    """The same features as the package's own network, whose code runs only here."""
    package = pytest.importorskip(
        "efficientnet_lite_pytorch", reason="needs efficientnet_lite_pytorch: pip install efficientnet-lite-pytorch"
    )
    theirs = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(weights_file())).eval()
    images = torch.randn(1, 3, 224, 224)
    ours = EfficientNetLite0((224, 224)).load().eval()
    with torch.no_grad():
        expected = theirs.extract_features(images)
        memory = ours(images)
    assert memory.grid == (7, 7)
    torch.testing.assert_close(memory.vectors, expected.flatten(2).mT, atol=1e-4, rtol=1e-4)
    assert EfficientNetLite0((100, 65))(torch.randn(1, 3, 100, 65)).vectors.shape == (1, 4 * 3, 1280)


def test_position_attention_is_the_papers_with_a_cosine():
    """SAGAN, equations 1 to 3, written with 1×1 convolutions; the score is the cosine by its temperature 1/4."""
    block = PositionAttention(16)
    with torch.no_grad():
        block.gate.fill_(0.7)
    x = torch.randn(2, 16, 3, 5)
    attention = block.attention

    def convolve(linear):
        return F.conv2d(x, linear.weight[:, :, None, None]).flatten(2)

    g, f, h = (convolve(part) for part in (attention.query, attention.key, attention.value))
    f, g = F.normalize(f, dim=1), F.normalize(g, dim=1)
    beta = (f.mT @ g * 4).softmax(1)  # i × j: how much place i is looked at from place j
    o = F.conv2d((h @ beta).view(2, 8, 3, 5), block.out.weight[:, :, None, None])
    torch.testing.assert_close(block(x), x + 0.7 * o)
    assert attention.query.weight.shape == (2, 16)
    fresh = PositionAttention(16)
    assert torch.equal(fresh(x), x)  # it begins with what is near


def test_position_attention_cannot_collapse_onto_one_place():
    """However large its maps have grown: with scores within ±4, no weight of a row is above e^8 times another."""
    block = PositionAttention(64)
    with torch.no_grad():
        block.attention.query.weight.mul_(100)
        block.attention.key.weight.mul_(100)
    with Trace(block) as seen:
        block(torch.randn(2, 64, 8, 8).relu() * 10)
    weights = seen["attention"]
    assert (weights.amax(-1) / weights.amin(-1)).max() <= 1.001 * math.exp(8)
    entropy = -(weights * weights.log2()).sum(-1).mean()
    assert entropy > 3  # of 6 bits; with dot products it is 0.0


def test_a_convolutional_network_has_a_grid():
    net = ConvNet((13, 22), [8, 16], depth=2, attention=[1], channels=1)
    memory = net(torch.randn(3, 1, 13, 22))
    assert memory.grid == (3, 5)
    assert memory.vectors.shape == (3, 15, 16)
    torch.testing.assert_close(memory.summary, memory.vectors.mean(1))


def test_a_region_of_the_grid_is_where_it_is_drawn():
    """Turned by half a circle, a network with turned kernels sees the same: no stage moves the map to a side."""
    net = ConvNet((16, 24), [8, 8, 8]).eval()
    images = torch.randn(1, 3, 16, 24)
    expected = net(images).vectors.flip(1)
    with torch.no_grad():
        for part in net.modules():
            if isinstance(part, torch.nn.Conv2d):
                part.weight.copy_(part.weight.flip(2, 3))
    torch.testing.assert_close(net(images.flip(2, 3)).vectors, expected)


@pytest.mark.parametrize(("size", "millions"), [("Ti/16", 5.7), ("S/16", 22.1), ("B/16", 86.6)])
def test_vision_transformers_have_the_papers_sizes(size, millions):
    """With 1,000 classes, at 224 pixels: Touvron et al. 2020, Table 1; Dosovitskiy et al. 2020, Table 1."""
    s = VisionTransformerSettings.model_validate({"size": size})
    assert s.width == VIT_SIZES[size]["width"]
    with torch.device("meta"):
        encoder = VisionTransformer((224, 224), s.patch, s.width, s.heads, s.layers, feed_forward=s.feed_forward)
        model = Classifier(encoder, Pooling("last"), s.width, 1000)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.1)


def test_a_hybrid_has_the_same_grid_and_another_stem():
    plain = VisionTransformer((16, 24), 8, 24, 2, 1)
    hybrid = VisionTransformer((16, 24), 8, 24, 2, 1, stem=[8, 16])
    images = torch.randn(2, 3, 16, 24)
    assert plain(images).grid == hybrid(images).grid == (2, 3)
    assert hybrid(images).vectors.shape == (2, 6, 24)
    with pytest.raises(CallError, match="halve a patch of 8 pixels too often"):
        VisionTransformer((16, 24), 8, 24, 2, 1, stem=[8, 8, 8, 8])


def test_a_frozen_encoder_gives_the_same_by_pixels_and_by_features():
    body = ConvNet((12, 20), [8, 16])
    encoder = PictureEncoder(
        body, colors=Colors([0.4] * 3, [0.3] * 3), frozen=True, width=10, positions=True, dropout=0.0
    ).train()
    assert not any(part.training for part in body.modules())
    pixels = torch.randint(0, 256, (2, 3, 12, 20), dtype=torch.uint8)
    features = encoder.features(pixels).vectors
    torch.testing.assert_close(encoder(pixels).vectors, encoder(features).vectors)
    encoder(pixels).vectors.sum().backward()
    assert all(p.grad is None for p in body.parameters())
    assert encoder.project[0].weight.grad is not None
    seen = (pixels / 255 - 0.4) / 0.3
    torch.testing.assert_close(features, body(seen).vectors)


def test_frozen_features_have_views_that_epochs_draw_from(folder, tmp_path):
    recipe = config.build(tree(folder, CNN), "recipe")
    input = ImageInput(recipe)
    store = input.open_store(
        PrepareCache(recipe.data, tmp_path), "train", Split(PictureSource.by_role(recipe.data)["train"])
    )
    encoder = PictureEncoder(ConvNet((8, 12), [8], channels=1), colors=Colors([0.4], [0.3]), frozen=True)
    mirrored = Pixels(store, PictureAugmentSettings(flip=True, shift=1), seed=3)
    kept = frozen_features(store, encoder, "a net", tmp_path, [mirrored, mirrored])
    rows = np.arange(len(store))
    table = np.stack([kept[np.full(len(store), view), rows] for view in range(3)])
    assert table.shape == (3, len(store), 24, 8)
    plain = torch.from_numpy(np.array(store.pixels))
    drawn_by = np.array([int.from_bytes(blake2b(one.tobytes(), digest_size=16).digest()[:6]) for one in store.pixels])
    for view, pixels in enumerate([plain, mirrored(rows, drawn_by, 1), mirrored(rows, drawn_by, 2)]):
        np.testing.assert_allclose(table[view], encoder.features(pixels).vectors.detach().numpy(), atol=2e-2)
    sight = Features(kept, seed=5)
    drawn = []
    for epoch in range(6):
        seen = sight(rows, rows, epoch).numpy()
        np.testing.assert_array_equal(seen, sight(rows, rows, epoch).numpy())
        alike = (seen[None] == table).all((2, 3))
        assert alike.any(0).all()  # each is one of the views of its own picture
        drawn.append(alike.argmax(0))
    assert set(np.unique(drawn)) == {0, 1, 2}


def test_frozen_features_are_found_again_by_what_pictures_show(folder, tmp_path, monkeypatch, capsys):
    """In another run, another place, another order, beside new ones; what is damaged is computed again."""
    seen = []
    encoder = PictureEncoder(ConvNet((8, 12), [8], channels=1), colors=Colors([0.4], [0.3]), frozen=True).eval()
    plain = encoder.features
    monkeypatch.setattr(encoder, "features", lambda pixels: seen.append(len(pixels)) or plain(pixels))

    def features(place, run):
        recipe = config.build(tree(place, CNN), "recipe")
        input = ImageInput(recipe)
        store = input.open_store(
            PrepareCache(recipe.data, tmp_path / run), "train", Split(PictureSource.by_role(recipe.data)["train"])
        )
        changed = Pixels(store, PictureAugmentSettings(flip=True, shift=1), seed=3)
        rows = np.arange(len(store))
        table = frozen_features(store, encoder, "a net", tmp_path / "cache", [changed])
        order = np.argsort([one.tobytes() for one in store.pixels])
        return np.stack([table[np.full(len(rows), view), rows][order] for view in range(2)])

    monkeypatch.setattr(work, "PATIENCE", -1.0)
    first = features(folder, "one")
    count = first.shape[1]
    assert sum(seen) == 2 * count
    assert f"{2 * count} pictures by a net, once for all runs: {2 * count} in" in capsys.readouterr().err  # in a log
    moved = shutil.copytree(folder, tmp_path / "moved")
    for number, file in enumerate(sorted(moved.rglob("*.png"), reverse=True)):
        file.rename(file.with_name(f"{number}-{file.name}"))
    seen.clear()
    np.testing.assert_array_equal(features(moved, "two"), first)
    assert seen == []
    some = next(file for file in sorted(moved.rglob("*.png")) if Image.open(file).size == (12, 16))
    Image.fromarray(np.asarray(Image.open(some)) // 2).save(some.with_name("new.png"))
    assert features(moved, "three").shape[1] == count + 1
    assert sum(seen) == 2
    (largest,) = [file for file in (tmp_path / "cache").rglob("features") if file.stat().st_size > 10_000]
    largest.write_bytes(largest.read_bytes()[:-1] + b"x")
    seen.clear()
    np.testing.assert_array_equal(features(folder, "four"), first)
    assert sum(seen) == 2 * count
    assert "is damaged" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------- classification
def write_folder(root):
    """Bright above, or bright below; one picture is no picture."""
    chance = np.random.default_rng(0)
    for label in ("above", "below"):
        (root / label).mkdir(parents=True)
        for number in range(14):
            pixels = chance.integers(0, 90, (16, 12), dtype=np.uint8)
            half = slice(0, 8) if label == "above" else slice(8, 16)
            pixels[half] += 120
            Image.fromarray(pixels).save(root / label / f"{number}.png")
    return root


def tree(root, model, **data):
    return {
        "job": "classify",
        "data": {
            "kind": "image", "train": str(root), "valid": str(root), "test": str(root), "height": 8, "width": 12,
            "channels": 1, **data,
        },
        "model": model,
        "training": {
            "max_tokens": 60, "max_steps": 40, "max_epochs": None, "learning_rate": 5e-3, "warmup": 5,
            "schedule": "cosine", "validate_every": 40,
        },
    }  # fmt: skip


VIT = {"kind": "vit", "patch": 4, "width": 16, "heads": 2, "layers": 2, "feed_forward": 24}
CNN = {"kind": "cnn", "stages": [8, 16], "attention": [0], "head_dropout": 0.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("pictures") / "data")


@pytest.fixture(scope="module", params=[VIT, CNN], ids=["vit", "cnn"])
def run(request, folder, tmp_path_factory):
    recipe = config.build(tree(folder, request.param, augment={"shift": 1}), "recipe")
    return regard.train(recipe, output=tmp_path_factory.mktemp("runs") / "run")


def test_a_classifier_learns_its_folder(run, folder):
    assert isinstance(run.job.input, ImageInput)
    assert run.job.input.kind == "image"  # the service offers an upload
    assert run.evaluate().values["accuracy"] > 90
    found = run.predict([str(folder / "above" / "3.png"), str(folder / "below" / "3.png")])
    assert [one.text for one in found] == ["above", "below"]
    assert regard.load(run.folder).predict(str(folder / "above" / "3.png")).score == pytest.approx(found[0].score)


def test_pictures_of_any_usual_kind_are_one_input(run, folder):
    image = Image.open(folder / "below" / "3.png")
    pixels = np.asarray(image)
    expected = run.predict(str(folder / "below" / "3.png"))
    tensor = torch.from_numpy(pixels[None] / 255).float()
    for one in (image, pixels, pixels[..., None], np.stack([pixels] * 3, 2), tensor, (folder / "below" / "3.png")):
        found = run.predict(one)
        assert found.text == "below"
        assert found.score == pytest.approx(expected.score, abs=1e-5)
    assert [one.text for one in run.predict(np.stack([pixels, pixels])[..., None])] == ["below", "below"]
    with pytest.raises(CallError, match=r"shape \(7,\): a picture is uint8"):
        run.predict(np.zeros(7, np.uint8))


def test_a_folder_is_predicted_and_a_bad_file_of_it_named(run, folder, tmp_path):
    for name in ("above/1.png", "below/2.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    done = CliRunner().invoke(cli, ["predict", str(run.folder), str(tmp_path)])
    lines = [f"{tmp_path}/above/1.png\tabove", f"{tmp_path}/below/2.png\tbelow"]
    assert (done.exit_code, done.stdout.splitlines()) == (0, lines)
    (tmp_path / "above" / "broken.jpg").write_bytes(b"no picture")
    done = CliRunner().invoke(cli, ["predict", str(run.folder), str(tmp_path)])
    assert done.stdout.splitlines() == lines
    assert f"{tmp_path}/above/broken.jpg: not a picture of any known format" in done.stderr
    assert "1 of 3 files could not be read" in str(done.exception)
    found = CliRunner().invoke(cli, ["predict", str(run.folder), str(tmp_path), "--json"]).stdout
    assert [one["input"] for one in json.loads(found)] == [line.partition("\t")[0] for line in lines]


def test_check_says_what_a_recipe_makes_of_pictures(folder, tmp_path):
    def found(**data):
        job = make_job(config.build(tree(folder, CNN, **data), "recipe"))
        return [one.what for one in job.check(tmp_path).findings]

    assert "pictures are 12×16 gray, the recipe makes them 12×8 gray" in found()
    assert not any("pictures are" in what for what in found(height=16))
    parts = tmp_path / "parts"
    for part in ("train", "test"):
        write_folder(parts / part)
    with pytest.raises(CallError, match=f"are called test and train: give data.train={parts}/train data.test={parts}/"):
        found(train=str(parts))


def test_where_a_classifier_looks(run, folder):
    record = run.look(str(folder / "above" / "3.png"))
    cross, own = record.matrix("cross"), record.matrix("encoder")
    vit = run.recipe.model.kind == "vit"
    assert cross.columns.grid == ((2, 3) if vit else (4, 6))  # the CNN looks after its first stage
    assert cross.columns.image.shape == (8, 12, 3)
    assert own.weights.shape == ((7, 7) if vit else (24, 24))
    np.testing.assert_allclose(cross.weights.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(own.weights.sum(1), 1, atol=1e-5)
    if vit:
        assert record.axes["source"].labels[0] == "[CLS]"
        rolled = run.look(str(folder / "above" / "3.png"), method="rollout").matrix("cross")
        np.testing.assert_allclose(rolled.weights.sum(), 1, atol=1e-5)
    else:
        with pytest.raises(CallError, match="needs a Vision Transformer"):
            run.look(str(folder / "above" / "3.png"), method="rollout")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_and_its_evidence(run, folder, method):
    picture = str(folder / "above" / "3.png")
    if run.recipe.model.kind == "cnn" and method == "rollout":
        return  # see above
    record = run.look(picture, method=method, evidence=True)
    weights = record.matrix("cross").weights
    special = 1 if run.recipe.model.kind == "vit" else 0  # the class token
    assert weights.shape == (1, 6 + special if special else 24)
    assert asked_of_the_model(record, method) == {"comprehensiveness", "sufficiency"}
    if method in ("input-gradient", "leave-one-out"):
        assert weights.sum() == pytest.approx(1, abs=1e-5)
        rows = weights[0, special:].reshape(2 if special else 4, -1).sum(1)
        assert np.argmax(rows) < len(rows) / 2 or method == "input-gradient"  # it is bright above


def test_attention_is_kept_as_training_goes_on(run):
    record = run.history_of_looks().records[-1]
    assert record.output in ("above", "below")
    assert record.evidence == ()


def test_mixed_inputs_and_labels():
    """Each input is at least one half of its row; its label has the same part; what has no label stays out of it."""
    torch.manual_seed(0)
    source, labels = torch.eye(5) * 200, torch.tensor([0, 1, 2, -1, 1])
    both, shares = mix_up(source.to(torch.uint8), labels, 3, 0.5)
    part = both.diagonal() / 200
    assert (part >= 0.5).all()
    assert ((part > 0.5) & (part < 1)).any()
    assert torch.equal(shares[3], torch.full((3,), -1.0))
    assert torch.equal(both[3], source[3])
    kept = torch.tensor([0, 1, 2, 4])
    torch.testing.assert_close(shares[kept].sum(1), torch.ones(4))
    for row in kept.tolist():
        expected = sum(both[row, other] / 200 * F.one_hot(labels[other], 3) for other in kept.tolist())
        torch.testing.assert_close(shares[row], expected)


def test_the_loss_of_a_mixture_by_hand(run):
    model = Classifier(run.model.encoder, Pooling("last"), run.model.encoder.summary_width, 2, mixup=0.5)
    images, labels = torch.randint(0, 256, (6, 1, 8, 12), dtype=torch.uint8), torch.tensor([0, 1, 1, 0, 1, -1])
    torch.manual_seed(7)
    loss = model.train()(ExampleBatch(images, labels))
    torch.manual_seed(7)
    seen, shares = mix_up(images, labels, 2, 0.5)
    expected = -(shares * model.logits(seen).log_softmax(-1))[:5].sum()
    torch.testing.assert_close(loss.total, expected)
    assert int(loss.count) == 5


def test_class_folders_with_a_bad_file_are_checked(folder, tmp_path):
    root = tmp_path / "data"
    shutil.copytree(folder, root)
    (root / "above" / "broken.png").write_bytes(b"not a picture")
    file = io.StringIO()
    recipe = tree(root, VIT)
    del recipe["data"]["valid"]
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(recipe))
    report = regard.check(tmp_path / "r.yaml")
    Console(file=file, width=200).print(check_table(report))
    assert "above/broken.png: not a picture of any known format" in file.getvalue()
    assert report.errors  # 1 of 29 is more than the 1% of data.max_bad
    assert not regard.check(tmp_path / "r.yaml", ["data.max_bad=0.1"]).errors


def test_wrong_models_for_pictures_are_named(folder):
    with pytest.raises(CallError, match=r"model\.patch=5 must divide data\.height=8 and data\.width=12"):
        config.build(tree(folder, {**VIT, "patch": 5}), "")
    with pytest.raises(CallError, match=r"model\.kind.*does not read data\.kind=image; cnn, vit, efficientnet would"):
        config.build(tree(folder, {"kind": "recurrent"}), "")
    with pytest.raises(CallError, match="reads colors"):
        config.build(tree(folder, {"kind": "efficientnet"}), "")


# -------------------------------------------------------------------------------------------------------------- metrics
SAID = ["a red circle above a blue square", "two dogs run on the green grass", "a man in a hat"]
REFERENCES = [
    ["a red circle above a blue square", "a blue square below a red circle"],
    ["two dogs are running on grass", "a pair of dogs runs across a green field", "dogs running"],
    ["a woman with a dog", "the man wears a hat", "a man in a big hat is smiling"],
]


def test_caption_scores_are_those_of_the_coco_code():
    """Numbers of pycocoevalcap 1.2 on the same texts."""
    assert cider(SAID, REFERENCES) == pytest.approx(3.52629767253797)
    bleu = caption_bleu(SAID, REFERENCES)
    expected = {"bleu1": 89.47368, "bleu2": 78.43032, "bleu3": 69.18961, "bleu4": 63.79302}
    assert bleu == pytest.approx(expected, abs=1e-4)


def test_case_and_punctuation_do_not_count():
    loud = [text.upper() + "." for text in SAID]
    assert cider(loud, REFERENCES) == pytest.approx(cider(SAID, REFERENCES))
    assert caption_bleu(loud, REFERENCES) == pytest.approx(caption_bleu(SAID, REFERENCES))
    with pytest.raises(CallError, match="picture 1"):
        cider(["a", "b"], [["a"], []])
