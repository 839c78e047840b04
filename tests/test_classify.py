"""Classification of texts, from the user's file to labels: on the command line and in Python, on real files."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner, Result
from rich.console import Console
from safetensors.torch import load_file

import regard
from look_methods import REFUSED, asked_of_the_model
from regard.cli import cli
from regard.errors import CallError
from regard.inputs.text.input import TextInput
from regard.look.methods import METHODS
from regard.tasks.labels.output import LabelsOutput
from regard.tasks.result import LabeledPrediction
from regard.training.metrics import read_metrics

GOOD, BAD = ["fine", "great", "lovely"], ["dull", "awful", "weak"]
PLAIN = ["the", "film", "is", "a", "story", "of", "men"]
MODELS = {
    "recurrent": {"kind": "recurrent", "width": 24, "embedding": 16, "dropout": 0.0, "head_dropout": 0.0},
    "transformer": {
        "kind": "transformer", "width": 24, "heads": 2, "feed_forward": 48, "layers": 2,
        "positions": "learned", "embedding_norm": True,
        "dropout": 0.0, "head_dropout": 0.0,
    },
}  # fmt: skip


def write_texts(file, count=90):
    """One word of each text decides; the others say nothing."""
    chance = np.random.default_rng(0)
    lines = []
    for number in range(count):
        words = chance.choice(PLAIN, size=chance.integers(1, 6)).tolist()
        words.insert(chance.integers(0, len(words) + 1), str(chance.choice([GOOD, BAD][number % 2])))
        lines.append(f"{' '.join(words)}\t{['good', 'bad'][number % 2]}\n")
    file.write_text("".join(lines), encoding="utf-8")
    return file


def recipe(folder, model, data=None, **training):
    texts = str(write_texts(folder / "texts.tsv"))
    tree = {
        "job": "classify",
        "data": {"train": texts, "valid": texts, "test": texts, **(data or {})},
        "model": model,
        "training": {
            "max_tokens": 200, "max_steps": 40, "max_epochs": None, "learning_rate": 1e-2, "warmup": 5,
            "validate_every": 40, **training,
        },
    }  # fmt: skip
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(tree))
    return file


@pytest.fixture(scope="module", params=list(MODELS))
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return regard.train(recipe(folder, MODELS[request.param]), output=folder / "run")


def test_long_texts_are_read_in_windows_and_part_of_every_score(tmp_path):
    """The word that decides is far behind the limit."""
    file = recipe(tmp_path, MODELS["transformer"], data={"max_length": 10}, max_steps=80, validate_every=80)
    texts = tmp_path / "texts.tsv"
    long = {label: " ".join([*PLAIN * 2, *words * 6]) for label, words in (("good", GOOD), ("bad", BAD))}
    with texts.open("a", encoding="utf-8") as lines:
        lines.writelines(f"{text}\t{label}\n" for label, text in long.items())
    run = regard.train(file, output=tmp_path / "run")
    assert [run.predict(text).text for text in long.values()] == list(long)
    scores = run.evaluate()
    assert (scores.values["examples"], scores.values["accuracy"]) == (92, 100)
    limit = "data.max_length=10 tokens: they are read in overlapping windows"
    assert scores.notes["longer inputs"] == f"2 of 92 are longer than {limit}"
    job = run.job
    job.prepare(tmp_path / "run" / "cache")
    train, valid = job.splits["train"], job.splits["valid"]
    assert len(train) == len(valid) == 92
    (row, *_), inputs = zip(*valid.overlong(), strict=True)
    assert len(inputs) == 2
    np.testing.assert_allclose(
        job.output.logits(run.model, inputs), job.output.logits(run.model, list(long.values())), atol=1e-5
    )
    epochs = [train.source(np.array([row]), epoch) for epoch in range(4)]
    assert len({tuple(epoch[0].tolist()) for epoch in epochs}) > 1, "another window in each epoch"
    assert max(epoch.shape[1] for epoch in epochs) <= 11, "with its begin and end tokens"
    assert torch.equal(train.source(np.array([row]), 1), epochs[1])
    assert job.bound(run.model).validate()["accuracy"] == 100
    (found,) = (one for one in job.check(tmp_path / "c", estimates=False).findings if "in windows" in one.advice)
    assert (found.split, found.count) == ("train", 2)
    answer = CliRunner().invoke(cli, ["look", str(tmp_path / "run"), long["good"], "--json"])
    assert answer.exit_code == 0, answer.output
    assert "`look` shows its first window" in answer.stderr
    assert len(json.loads(answer.stdout)["axes"]["source"]["tokens"]) == 11


def test_classify_learns_its_tiny_data(run, capsys):
    scores = run.evaluate()
    assert isinstance(run.job.output, LabelsOutput)
    assert isinstance(run.job.input, TextInput)
    assert scores.values["accuracy"] == scores.values["macro_f1"] == 100
    assert scores.details["confusion (rows: right, columns: predicted)"] == [
        {"": "bad", "bad": 45, "good": 0}, {"": "good", "bad": 0, "good": 45}
    ]  # fmt: skip
    assert sum(row["decisions"] for row in scores.details["calibration, in percent"]) == 90
    Console(width=80).print(scores.table())
    printed = capsys.readouterr().out
    assert re.search(r"calibration_error +[\d.e-]+ % *\n", printed)
    assert re.search(r"loss +[\d.e-]+ *\n", printed)
    speeds = [record for record in read_metrics(run.folder / "metrics.jsonl") if record["kind"] == "train"]
    assert {record["unit"] for record in speeds} == {"labels"}


def test_a_prediction_is_a_label_with_the_probabilities_of_all(run):
    one, two = run.predict(["a lovely film", "awful story"], n_best=2)
    assert isinstance(one, LabeledPrediction)
    assert (one.text, two.text) == ("good", "bad")
    assert one.labels == ["good"]
    assert [output.text for output in one.n_best] == ["good", "bad"]
    assert sum(one.probabilities.values()) == pytest.approx(1, abs=1e-6)
    assert one.score == one.probabilities["good"] > 0.5
    assert one.log_probability == pytest.approx(np.log(one.score))
    assert json.loads(json.dumps(one.as_dict()))["probabilities"] == one.probabilities
    assert run.predict([]) == []
    assert len(run.predict("").probabilities) == 2  # nothing to read is still answered
    with pytest.raises(CallError, match="prefix"):
        run.predict("x", prefix="go")


def test_given_labels_are_scored_by_their_log_probability(run):
    found = run.predict("a lovely film")
    scored = run.score(["a lovely film"] * 2, ["good", "bad"])
    chances = [found.probabilities[name] for name in ("good", "bad")]
    assert [one.log_probability for one in scored] == pytest.approx(np.log(chances))
    assert [one.score for one in scored] == pytest.approx(chances)
    with pytest.raises(CallError, match="unknown label: 'god'; did you mean 'good'"):
        run.score(["x"], ["god"])


def test_batching_and_length_change_no_answer(run):
    texts = ["great", "a dull story of men", "the film is fine", "weak " * 7]
    together = [list(one.probabilities.values()) for one in run.predict(texts)]
    alone = [list(run.predict(text, batch_tokens=1).probabilities.values()) for text in texts]
    assert np.allclose(together, alone, atol=1e-6)


#: A lovely film has nothing in it that makes "bad" more probable, by these: they say so, rather than show an empty row.
NOTHING_SPEAKS_FOR_BAD = {
    ("recurrent", "gradient"), ("recurrent", "integrated-gradients"), ("transformer", "attnlrp"),
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_looks_highlight_the_word_that_decides(run, method):
    if method in REFUSED and run.recipe.model.kind == "recurrent":
        with pytest.raises(CallError, match=REFUSED[method]):
            run.look("the film is lovely", method=method)
        return
    before = run.predict("the film is lovely").probabilities
    record = run.look("the film is lovely", method=method, evidence=True)
    assert run.predict("the film is lovely").probabilities == before
    assert (record.output, record.score) == ("good", before["good"])
    matrix = record.matrix()
    framed = ["the", "film", "is", "lovely", "</s>"]
    assert matrix.columns.labels == (framed if run.recipe.model.kind == "recurrent" else ["<s>", *framed])
    assert matrix.rows.labels == ["good"]
    if method != "gradient":  # whose heads need not speak for the label
        assert matrix.weights.sum() == pytest.approx(1, abs=1e-5)
    if method in ("leave-one-out", "input-gradient"):
        assert matrix.columns.labels[int(matrix.weights[0].argmax())] == "lovely"
    assert asked_of_the_model(record, method) == {"comprehensiveness", "sufficiency"}
    if (run.recipe.model.kind, method) in NOTHING_SPEAKS_FOR_BAD:
        with pytest.raises(CallError, match="only positive contributions to an output, and here are none"):
            run.look("the film is lovely", method=method, output="bad")
        return
    other = run.look("the film is lovely", method=method, output="bad")
    assert other.output == "bad"
    assert other.scores[0] == pytest.approx(np.log(before["bad"]), abs=1e-4)


def test_class_token_attention_is_there_for_every_layer_and_head(run):
    record = run.look("the film is lovely")
    cross = record.of_kind("cross")
    if run.recipe.model.kind == "recurrent":
        assert [one.weights.shape for one in cross] == [(1, 1, 5)]
        return
    own = record.of_kind("encoder")
    assert [one.weights.shape for one in cross] == [(2, 1, 6)] * 2
    assert np.array_equal(cross[1].weights, own[1].weights[:, :1])
    assert run.look("the film is lovely", layer=1, head=0, evidence=True).evidence[0].about.endswith("layer 1, head 0")


def test_a_model_without_attention_says_what_can_still_be_asked(tmp_path):
    model = {**MODELS["recurrent"], "pooling": "max"}
    run = regard.train(recipe(tmp_path, model, max_steps=2, validate_every=2), output=tmp_path / "run")
    with pytest.raises(CallError, match="input-gradient and leave-one-out"):
        run.look("the film is lovely")
    assert run.look("the film is lovely", method="leave-one-out").matrix().weights.shape == (1, 5)
    with pytest.raises(CallError, match="nothing to look at"):
        run.look("")


def test_the_lectures_classifier_attends_over_its_states_and_has_their_size():
    from regard.commands.tools import cost

    size = cost("classify-recurrent").parameters
    assert size == 5000 * 32 + 4 * 100 * (32 + 100 + 2) + 2 * 101  # torch has two biases a gate
    assert abs(size - 210_000) < 5_000


def test_the_report_has_confusion_calibration_and_words(run):
    page = (run.folder / "report.html").read_text()
    for words in ("Confusion", "Expected calibration error", "<mark", "Right would be: "):
        assert words in page
    names = {path.name for path in run.folder.iterdir()}
    assert {"config.yaml", "model.safetensors", "labels.json", "tokenizer.json", "README.md"} <= names


def test_a_stopped_run_goes_on_exactly(tmp_path):
    (tmp_path / "one").mkdir()
    file = recipe(tmp_path / "one", {**MODELS["recurrent"], "dropout": 0.3, "word_dropout": 0.2}, save_every=3)
    whole = regard.train(file, output=tmp_path / "whole", training={"max_steps": 9, "validate_every": 3})
    regard.train(file, output=tmp_path / "parts", training={"max_steps": 3, "validate_every": 3})
    parts = regard.train(file, output=tmp_path / "parts", training={"max_steps": 9, "validate_every": 3})
    for (name, one), other in zip(whole.model.state_dict().items(), parts.model.state_dict().values(), strict=True):
        assert torch.equal(one, other), name


def test_several_labels(tmp_path):
    chance = np.random.default_rng(2)
    topics = {"ball": "sport", "vote": "politics", "song": "music"}
    lines = []
    for _ in range(90):
        said = [word for word in topics if chance.random() < 0.4]
        words = [*chance.choice(PLAIN, size=3).tolist(), *said]
        lines.append(json.dumps({"text": " ".join(words), "label": [topics[word] for word in said]}) + "\n")
    (tmp_path / "texts.jsonl").write_text("".join(lines))
    file = recipe(tmp_path, {**MODELS["recurrent"], "pooling": "max", "class_weights": "balanced"}, max_steps=60)
    data = {"train": str(tmp_path / "texts.jsonl"), "separator": "|"}
    run = regard.train(file, data={**data, "valid": data["train"], "test": data["train"]}, output=tmp_path / "run")
    scores = run.evaluate()
    assert scores.values["micro_f1"] > 95
    assert "confusion (rows: right, columns: predicted)" not in scores.details
    assert set(run.predict("the film ball song").labels) == {"sport", "music"}
    none = run.predict("the film")
    assert (none.text, none.labels) == ("", [])
    assert run.predict("the film", threshold=0.0001).labels != []


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    return regard.train(recipe(folder, MODELS["transformer"], max_steps=20, validate_every=20), output=folder / "first")


@pytest.mark.parametrize("frozen", [True, False])
def test_a_pretrained_encoder_is_taken_over_and_the_run_stands_alone(pretrained, tmp_path, frozen):
    first = tmp_path / "first"
    shutil.copytree(pretrained.folder, first)
    model = {"kind": "pretrained", "path": str(first), "frozen": frozen, "layer_decay": 0.9, "pooling": "cls"}
    run = regard.train(recipe(tmp_path, model, max_steps=30, validate_every=30), output=tmp_path / "run")
    shutil.rmtree(first)
    assert regard.load(run.folder).evaluate().values["accuracy"] > 80
    before, after = (load_file(folder / "model.safetensors") for folder in (pretrained.folder, run.folder))
    names = [name for name in before if name.startswith("encoder.")]
    assert names
    assert all(torch.equal(before[name], after[name]) for name in names) == frozen


def test_on_the_command_line(run, tmp_path):
    def call(*arguments: object) -> Result:
        return CliRunner().invoke(cli, list(map(str, arguments)))

    (tmp_path / "in.txt").write_text("a lovely film\nawful story\n")
    found = call("predict", run.folder, "--input", tmp_path / "in.txt", "--n-best", 2, "--scores")
    rows = [line.split("\t") for line in found.stdout.splitlines()]
    assert [label for _, label in rows] == ["good", "bad", "bad", "good"]
    assert float(rows[0][0]) > float(rows[1][0])
    (tmp_path / "bad.tsv").write_text("a fine film\tgood\ndull story\tugly\n")
    test, page = f"data.test={tmp_path / 'bad.tsv'}", tmp_path / "scores.html"
    scores = json.loads(call("evaluate", run.folder, test, "--json", "-o", page).stdout)
    assert (scores["accuracy"], scores["examples"]) == (50, 2)
    assert "1 examples have a label that is not in the training data" in scores["unknown labels"]
    assert all(words in page.read_text() for words in ("Confusion", "Calibration", "by class", "<svg"))
    assert isinstance(call("evaluate", run.folder, "-o", tmp_path / "scores.png").exception, CallError)


def test_attention_is_kept_as_training_goes_on(run):
    history, best = run.history_of_looks(), run.summary()["best"]["step"]
    record = history.records[history.steps.index(best)]
    now = run.look(record.input, output=record.output)
    assert record.output in ("bad", "good")
    for mine, its in zip(record.attentions, now.attentions, strict=True):
        np.testing.assert_allclose(mine.weights, its.weights, atol=1e-5)
