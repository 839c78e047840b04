"""Classification of recordings and of series: files, predictions, scores, looks, a stopped run, the service."""

import tarfile

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner

import regard
from look_methods import REFUSED, asked_of_the_model
from regard import config
from regard.cli import cli
from regard.corpora import tones
from regard.errors import CallError
from regard.inputs.sound.recording import Sound
from regard.look.methods import METHODS

soundfile = pytest.importorskip("soundfile", reason="recordings need the audio extra")

RATE, COUNT = 8000, 16
SMALL = {"width": 16, "dropout": 0.0, "head_dropout": 0.0}
HEADS = {"heads": 2, "feed_forward": 32, "encoder_layers": 1}
MODELS = {
    "sound_recurrent": SMALL | {"pyramid": 1},
    "sound_transformer": SMALL | HEADS | {"channels": 4},
    "series_recurrent": SMALL,
    "series_transformer": SMALL | HEADS,
}


def write_sounds(folder):
    """A low or a high tone, in the second half of a little noise."""
    chance, time = np.random.default_rng(0), np.arange(RATE // 5) / RATE
    for number in range(COUNT):
        label, frequency = (("low", 400), ("high", 1800))[number % 2]
        samples = 0.01 * chance.standard_normal(2 * len(time))
        samples[len(time) :] += 0.3 * np.sin(2 * np.pi * frequency * time)
        (folder / label).mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / label / f"{number}.wav", samples, RATE)
    return folder


def write_series(file):
    """A step up or down, in the second half of a little noise."""
    chance, lines = np.random.default_rng(0), ["id,label,value"]
    for number in range(COUNT):
        label, size = (("low", -1), ("high", 1))[number % 2]
        for step in range(12 + number % 3):
            lines.append(f"s{number},{label},{size * (step >= 6) + 0.1 * chance.standard_normal():.3f}")
    file.write_text("\n".join(lines) + "\n")
    return file


def recipe(folder, kind, data=None, **training):
    sound = kind.startswith("sound")
    where = str(write_sounds(folder / "sounds") if sound else write_series(folder / "series.csv"))
    how = {"sound": {"rate": RATE, "bands": 16, "window": 0.04, "hop": 0.02}} if sound else {}
    tree = {
        "job": "classify",
        "data": {"kind": kind.split("_")[0], "train": where, "valid": where, "test": where, **how, **(data or {})},
        "model": {"kind": kind, **MODELS[kind]},
        "training": {
            "max_tokens": 120, "max_steps": 40, "max_epochs": None, "learning_rate": 1e-2, "warmup": 5,
            "validate_every": 40, **training,
        },
    }  # fmt: skip
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(tree))
    return file


@pytest.fixture(scope="module", params=list(MODELS))
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return regard.train(recipe(folder, request.param), output=folder / "run")


@pytest.fixture
def one(run, tmp_path):
    """An input whose label is high, as a person would give it."""
    if run.recipe.data.kind == "sound":
        return write_sounds(tmp_path) / "high" / "1.wav"
    lines = write_series(tmp_path / "all.csv").read_text().splitlines()
    (tmp_path / "one.csv").write_text("\n".join(["value", *(x.split(",")[2] for x in lines if x.startswith("s1,"))]))
    return tmp_path / "one.csv"


def test_it_learns_is_loaded_predicts_and_is_scored(run, one):
    again = regard.load(run.folder)
    assert again.evaluate().values["accuracy"] == 100
    found = again.predict([one, one], n_best=2)[1]
    assert (found.text, found.labels, found.input) == ("high", ["high"], str(one))
    assert sum(found.probabilities.values()) == pytest.approx(1, abs=1e-6)
    (given,) = again.score([one], ["low"])[0].n_best
    assert given.log_probability == pytest.approx(np.log(found.probabilities["low"]), abs=1e-4)
    printed = CliRunner().invoke(cli, ["predict", str(run.folder), str(one)])
    assert printed.output.strip() == "high"


@pytest.mark.parametrize("method", METHODS)
def test_looks_are_along_time(run, one, method):
    if method in REFUSED and run.recipe.model.kind.endswith("recurrent"):
        with pytest.raises(CallError, match=REFUSED[method]):
            run.look(one, method=method)
        return
    if method == "gradient":  # the label is chosen so that some head speaks for it
        records = []
        for label in ("high", "low"):
            try:
                records.append(run.look(one, method=method, output=label, evidence=True))
            except CallError as problem:
                assert "only positive contributions to an output, and here are none" in str(problem)  # noqa: PT017
        record = records[0]
    else:
        record = run.look(one, method=method, evidence=True)
        assert record.output == "high"
        assert record.matrix().weights.sum() == pytest.approx(1, abs=1e-5)
    matrix = record.matrix()
    length = len(run.job.input.axis(run.job.input.read(one)))
    assert matrix.weights.shape == (1, length)
    assert matrix.columns.signal is not None
    if method == "leave-one-out" and run.recipe.model.kind.endswith("recurrent"):  # a tiny Transformer mixes all steps
        assert matrix.weights[0, length // 2 - 1 :].sum() > 0.8
    assert asked_of_the_model(record, method) == {"comprehensiveness", "sufficiency"}


@pytest.mark.parametrize("kind", ["sound_recurrent", "series_recurrent"])
def test_a_stopped_run_goes_on_exactly(tmp_path, kind):
    file = recipe(tmp_path, kind, save_every=3)
    how = {"model": {"dropout": 0.3}}
    whole = regard.train(file, output=tmp_path / "whole", training={"max_steps": 6, "validate_every": 3}, **how)
    regard.train(file, output=tmp_path / "parts", training={"max_steps": 3, "validate_every": 3}, **how)
    parts = regard.train(file, output=tmp_path / "parts", training={"max_steps": 6, "validate_every": 3}, **how)
    for (name, weights), other in zip(whole.model.state_dict().items(), parts.model.state_dict().values(), strict=True):
        assert torch.equal(weights, other), name


@pytest.mark.parametrize("kind", ["sound_recurrent", "series_recurrent"])
def test_check_counts_classes_and_what_the_model_costs(tmp_path, kind):
    printed = CliRunner().invoke(cli, ["check", str(recipe(tmp_path, kind))]).output
    assert f"{'recordings' if kind.startswith('sound') else 'series'} of each class" in printed
    assert "2 classes with fewer than 10" in printed
    assert "parameters" in printed


def test_the_service_knows_what_it_takes(run, one):
    from regard.serve.errors import Limits
    from test_serve import serving

    sound = run.recipe.data.kind == "sound"
    with serving({"mine": run}, Limits()) as client:
        assert client.get("/api/models").json()["models"][0]["takes"] == ["sound" if sound else "table"]
        text = client.post("/api/upload", content=one.read_bytes()).json()["name"] if sound else one.read_text()
        (found,) = client.post("/api/predict", json={"inputs": [text]}).json()["predictions"]
        assert found["text"] == "high"
        assert client.post("/api/look", json={"text": text}).json()["output"] == "high"
        example = client.post("/api/look", json={"text": "example:0"}).json()
        assert example["input"] == "example 1"  # and not the path of a file here


# ------------------------------------------------------------------------------------------------------- files of sound
def labels_of(file, tmp_path):
    from regard.job import make_job

    job = make_job(config.read(file))
    job.prepare(tmp_path / "cache")
    return sorted(example.texts[0] for example in job.splits["train"].examples(99))


def test_lists_tars_and_names_of_files_say_the_label_too(tmp_path):
    recipe(tmp_path, "sound_recurrent")
    sounds = tmp_path / "sounds"
    with tarfile.open(tmp_path / "sounds.tar", "w") as packed:
        for path in sorted(sounds.rglob("*.wav")):
            packed.add(path, path.relative_to(sounds))
    lines = [f"{path}\t{'01'[path.parent.name == 'high']}\n" for path in sorted(sounds.rglob("*.wav"))]
    (tmp_path / "list.tsv").write_text("".join(lines))
    wanted = ["high"] * (COUNT // 2) + ["low"] * (COUNT // 2)
    for where, how in (
        ("sounds", {}),
        ("sounds.tar", {}),
        ("list.tsv", {"names": {"0": "low", "1": "high"}}),
        ("sounds", {"name_text": "(?P<text>high|low)/"}),
    ):
        place = str(tmp_path / where)
        file = recipe(tmp_path, "sound_recurrent", {"train": place, "valid": place, **how})
        assert labels_of(file, tmp_path) == wanted, where
    flat = str(sounds / "low")
    with pytest.raises(CallError, match="a sub-folder for each class"):
        labels_of(recipe(tmp_path, "sound_recurrent", {"train": flat, "valid": flat}), tmp_path)


def test_long_recordings_are_heard_in_windows_and_part_of_every_score(tmp_path):
    """20 seconds, of which one batch of training holds 2: each epoch hears another window of them."""
    file = recipe(tmp_path, "sound_recurrent", {"max_seconds": 0.5}, max_steps=80, validate_every=80)
    for label, frequency in (("low", 400), ("high", 1800)):
        tone = 0.3 * np.sin(2 * np.pi * frequency * np.arange(20 * RATE) / RATE)
        soundfile.write(tmp_path / "sounds" / label / "long.wav", tone, RATE)
    run = regard.train(file, output=tmp_path / "run")
    scores = run.evaluate()
    assert (scores.values["examples"], scores.values["accuracy"]) == (COUNT + 2, 100)
    assert scores.notes["longer inputs"].startswith("2 of 18 are longer than 0.5 seconds: they are read in windows")
    assert run.predict(tmp_path / "sounds" / "high" / "long.wav").text == "high"
    job = run.job
    job.prepare(tmp_path / "run" / "cache")
    assert len(job.splits["train"]) == len(job.splits["valid"]) == COUNT + 2
    (row, *_), inputs = zip(*job.splits["valid"].overlong(), strict=True)
    assert len(inputs) == 2
    first, later = (job.splits["train"].source(np.array([row]), epoch).values for epoch in (0, 1))
    assert first.shape == later.shape
    assert not torch.equal(first, later)
    assert job.bound(run.model).validate()["accuracy"] == 100
    found = [one for one in job.check(tmp_path / "cache", estimates=False).findings if "windows" in one.advice]
    assert [(one.split, one.count) for one in found] == [("train", 2), ("valid", 2), ("test", 2)]


@pytest.mark.parametrize("run", [name for name in MODELS if name.startswith("sound")], indirect=True)
def test_silence_is_answered_but_not_looked_at(run):
    silence = Sound(np.zeros(RATE, np.float32), RATE, "silence")
    assert len(run.predict([silence])[0].probabilities) == 2
    with pytest.raises(CallError, match="nothing to look at"):
        run.look(silence)


def test_a_model_of_another_kind_is_refused_with_those_that_fit():
    with pytest.raises(CallError, match=r"data\.kind=sound; sound_recurrent, sound_transformer would"):
        config.read("tones-classify", ["model.kind=transformer"])
    with pytest.raises(CallError, match=r"data\.kind=series; series_recurrent, series_transformer would"):
        config.read("series-classify", ["model.kind=sound_recurrent"])


def test_the_corpus_of_keys_has_them_where_it_says(tmp_path):
    for made in list(tones.one_key("test"))[:24]:
        (segment,) = made.segments
        assert made.text == segment.text
        assert 0.05 <= segment.end - segment.start <= 0.25
        inside = slice(round(segment.start * made.rate), round(segment.end * made.rate))
        rest = np.delete(made.samples, np.r_[inside])
        assert np.square(made.samples[inside]).mean() > np.square(rest).mean()
    files = tones.write_one_key(tmp_path, most=12)
    assert {file.parent.name for file in files} == {*"0123456789", "star", "hash"}
    with pytest.raises(CallError, match="no split 'tets'; did you mean 'test'"):
        tones.one_key("tets")
