"""Sound to text, from the user's recordings to predictions: on the command line and in Python, on real files."""

import pytest
import yaml

import regard
from regard.corpora.tones import call, write
from regard.data.audio import Sound
from regard.tasks.transcribe import Transcribe

CALLS = 10


def recipe(folder, **changes):
    write(folder / "calls", "train", CALLS)
    tree = {
        "task": "transcribe",
        "data": {
            "train": str(folder / "calls"), "valid": str(folder / "calls"), "test": str(folder / "calls"),
            "sound": {"rate": 8000, "bands": 24, "window": 0.04, "hop": 0.02}, "tokenizer": {"kind": "character"},
        },
        "model": {
            "kind": "recurrent", "width": 64, "embedding": 16, "pyramid": 1, "dropout": 0.0, "ctc": 0.3,
        },
        "training": {
            "max_tokens": 1500, "max_steps": 100, "max_epochs": None, "learning_rate": 0.01, "warmup": 20,
            "schedule": "cosine", "validate_every": 100,
        },
        "decoding": {"beam": 2, "max_length": 12},
    }  # fmt: skip
    for key, value in changes.items():
        tree[key] = tree[key] | value
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(tree))
    return file


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Ten calls learned by heart."""
    folder = tmp_path_factory.mktemp("transcribe")
    return regard.train(recipe(folder), output=folder / "run"), folder


def texts(count=CALLS):
    return [call("train", number).text for number in range(count)]


def test_what_was_learned_is_evaluated(trained):
    run, _ = trained
    assert isinstance(run.task, Transcribe)
    scores = run.evaluate().values
    assert scores["exact_match"] >= 90
    assert scores["wer"] <= 10
    assert scores["recordings"] == CALLS
    assert 0 < scores["real_time_factor"] < 5


def test_files_folders_and_samples_give_the_same_text(trained):
    run, folder = trained
    files = sorted((folder / "calls").glob("*.wav"))
    assert run.task.inputs([str(folder / "calls")]) == files
    by_file = [found.text for found in run.predict([str(file) for file in files])]
    assert sum(said == text for said, text in zip(by_file, texts(), strict=True)) >= 9
    made = call("train", 0)
    assert run.predict([Sound(made.samples, made.rate)])[0].text == by_file[0]
    assert run.predict(str(files[0])).text == by_file[0]
