"""Question answering, from the user's file to answers: on the command line and in Python, on real files."""

import json
import shutil

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner
from safetensors.torch import save_file

import regard
from look_methods import REFUSED, WHOLE_MODEL, asked_of_the_model
from regard import config
from regard.cli import cli as commands
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.inputs.question.input import QuestionInput
from regard.job import make_job
from regard.look.methods import METHODS
from regard.metrics.alignment import Gold
from regard.models.build import build_encoder
from regard.pretrained import keep_settings
from regard.settings.model import EncoderSettings
from regard.tasks.result import LookOptions
from regard.tasks.span.output import SpanOutput

ANIMALS = ["cat", "dog", "owl", "fox", "hen"]
COLORS = ["red", "blue", "green", "dark brown", "white"]
TINY = {
    "recurrent": {
        "kind": "recurrent", "cell": "gru", "width": 32, "embedding": 16, "reading_layers": 1, "dropout": 0.0,
    },
    "transformer": {
        "kind": "transformer", "width": 64, "heads": 4, "feed_forward": 64, "layers": 2, "dropout": 0.0,
        "positions": "rotary",
    },
}  # fmt: skip
STEPS, RATE = {"recurrent": 120, "transformer": 360}, {"recurrent": 8e-3, "transformer": 4e-3}


ASKED = {"question": "What color is the owl?", "document": "The owl is dark brown. The cat is red. The fox is white."}


def write_questions(file, count=150):
    chance = np.random.default_rng(0)
    document = ASKED["document"]
    lines = [f"What color is the {a}?\t{document}\t{c}\n" for a, c in (("owl", "dark brown"), ("fox", "white"))] * 4
    for _ in range(count):
        animals, colors = chance.permutation(ANIMALS)[:3], chance.permutation(COLORS)[:3]
        document = " ".join(f"The {a} is {c}." for a, c in zip(animals, colors, strict=True))
        which = chance.integers(3)
        lines.append(f"What color is the {animals[which]}?\t{document}\t{colors[which]}\n")
    file.write_text("".join(lines), encoding="utf-8")
    return file


def recipe(folder, kind, **training):
    """A recipe for the file of questions that overfits it in seconds."""
    questions = write_questions(folder / "questions.tsv")
    tree = {
        "job": "answer",
        "data": {
            "train": str(questions), "valid": str(questions), "test": str(questions), "tokenizer": {"kind": "word"},
            "max_length": 40, "max_question": 10, "overlap": 8,
        },
        "model": TINY[kind],
        "training": {
            "max_tokens": 800, "max_steps": STEPS[kind], "max_epochs": None, "learning_rate": RATE[kind],
            "warmup": 20, "validate_every": STEPS[kind], **training,
        },
    }  # fmt: skip
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(tree))
    return file


@pytest.fixture(scope="module", params=["recurrent", "transformer"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return regard.train(recipe(folder, request.param), output=folder / "run")


def test_answer_learns_its_tiny_data(run):
    assert isinstance(run.job.input, QuestionInput)
    assert isinstance(run.job.output, SpanOutput)
    scores = run.evaluate()
    assert scores.values["exact_match"] > 80
    assert scores.values["f1"] >= scores.values["exact_match"]
    assert scores.details["by first word"][0]["asks"] == "what"


def test_an_answer_is_a_span_of_its_document(run):
    found = run.predict(ASKED, n_best=4)
    assert found.text == "dark brown"
    assert ASKED["document"][found.start : found.end] == "dark brown"
    assert len(found.n_best) == 4
    assert all(ASKED["document"][one.start : one.end] == one.text for one in found.n_best)
    assert [one.score for one in found.n_best] == sorted((one.score for one in found.n_best), reverse=True)
    assert sum(np.exp([one.score for one in run.predict(ASKED, n_best=1000).n_best])) == pytest.approx(1, abs=1e-4)
    pairs = [tuple(ASKED.values()), "What color is the fox?\t" + ASKED["document"], ASKED]
    assert [one.text for one in run.predict(pairs)] == ["dark brown", "white", "dark brown"]
    assert run.predict([]) == []
    assert run.predict({"question": "", "document": ""}).text == ""
    json.dumps(found.as_dict())


def test_batching_and_windows_do_not_change_what_is_in_reach(run):
    asks = [
        tuple(ASKED.values()),
        ("What color is the cat?", "The cat is blue."),
        ("What color is the hen?", "The hen is white. The dog is red."),
    ]
    together = run.predict(asks)
    for ask, one in zip(asks, together, strict=True):
        alone = run.predict([ask], batch_tokens=1)[0]
        assert (alone.text, alone.start) == (one.text, one.start)
        assert alone.score == pytest.approx(one.score, abs=1e-4)
    if run.recipe.model.kind == "transformer":
        return  # so small a one knows its own documents only
    long = "The fox is white. " * 12 + "The owl is red. " + "The cat is blue. " * 12  # many windows
    found = run.predict([("What color is the owl?", long)])[0]
    assert found.text == "red"
    assert found.start == long.index("red")


def test_given_answers_are_scored_as_they_are_found(run):
    found = run.predict([ASKED], n_best=3)[0]
    for answer in found.n_best:
        scored = run.score([ASKED], [answer.text])[0]
        assert scored.score == pytest.approx(answer.score, abs=1e-4)
    with pytest.raises(CallError, match="output 1: 'purple' is not in the document"):
        run.score([ASKED], ["purple"])


def test_what_is_no_question_with_a_document_is_refused(run):
    with pytest.raises(CallError, match=r"'What color is the owl\?' is not a question and a document"):
        run.predict([tuple(ASKED.values()), "What color is the owl?"])
    for wrong in ({"question": "Who?"}, ("Who?", 3), ("Who?", "Ada.", "Ben."), 7):
        with pytest.raises(CallError, match="is not a question and a document"):
            run.predict([wrong])
    with pytest.raises(CallError, match="prefix='dark'"):
        run.predict(ASKED, prefix="dark")
    with pytest.raises(CallError, match="gold links"):
        run.look(ASKED, gold=Gold(frozenset(), frozenset()))


# ------------------------------------------------------------------------------------------------- the command line
def cli(*words, **options):
    return CliRunner().invoke(commands, list(map(str, words)), catch_exceptions=True, **options)


@pytest.mark.parametrize("run", ["recurrent"], indirect=True)
def test_predict_on_the_command_line(run, tmp_path):
    moved = tmp_path / "moved"  # a run's folder holds all it needs
    shutil.copytree(run.folder, moved)
    (tmp_path / "owl.txt").write_text(ASKED["document"] + "\n", encoding="utf-8")
    done = cli("predict", moved, ASKED["question"], "What color is the fox?", "--about", tmp_path / "owl.txt")
    assert done.stdout.splitlines() == ["dark brown", "white"], done.stderr
    piped = cli("predict", moved, ASKED["question"], "--about", "-", "--json", input=ASKED["document"])
    document = json.loads(piped.stdout)[0]
    assert (document["text"], document["start"], document["end"]) == ("dark brown", 11, 21)
    (tmp_path / "asked.tsv").write_text("\t".join(ASKED.values()) + "\n", encoding="utf-8")
    assert cli("predict", moved, "--input", tmp_path / "asked.tsv").stdout == "dark brown\n"
    for words, said in (
        (["predict", moved, ASKED["question"]], "--about FILE"),
        (["predict", moved, ASKED["question"], "--about", tmp_path / "nowhere.txt"], "No such file"),
    ):
        wrong = cli(*words)
        assert isinstance(wrong.exception, CallError)
        assert said in str(wrong.exception)


def test_look_on_the_command_line(run, tmp_path):
    (tmp_path / "owl.txt").write_text(ASKED["document"], encoding="utf-8")
    words = ["look", run.folder, ASKED["question"], "--about", tmp_path / "owl.txt"]
    assert "⟦" in cli(*words).stdout  # labels of columns run downwards
    done = cli(*words, "-o", tmp_path / "owl.png")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "owl.png").stat().st_size > 5000


def test_the_service_takes_both_texts_in_one_field(run):
    testing = pytest.importorskip("fastapi.testclient", reason="needs fastapi: pip install 'regard[web]'")
    create_app = pytest.importorskip("regard.serve.app", reason="needs regard: pip install 'regard[web]'").create_app
    with testing.TestClient(create_app({"owls": run}), base_url="http://localhost") as client:
        (model,) = client.get("/api/models").json()["models"]
        assert (model["job"], model["takes"], model["looks"]) == ("answer", ["text"], True)
        for between in ("\t", "\n"):
            found = client.post("/api/predict", json={"inputs": [between.join(ASKED.values())]}).json()
            assert found["predictions"][0]["text"] == "dark brown"
        look = {"text": "\n".join(ASKED.values()), "method": "leave-one-out"}
        assert client.post("/api/look", json=look).json()["output"] == "dark brown"
        refused = client.post("/api/predict", json={"inputs": [ASKED["question"]]})
        assert refused.status_code == 422
        assert "is not a question and a document" in refused.json()["error"]


@pytest.mark.slow
def test_train_stopped_and_gone_on_with_is_bit_identical(tmp_path):
    file = recipe(tmp_path, "recurrent", max_steps=30, save_every=10, validate_every=15)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    regard.train(file, output=whole)
    regard.train(file, output=parts, training={"max_steps": 13})
    regard.train(file, output=parts)
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()


def test_a_model_learns_to_say_that_there_is_no_answer(tmp_path):
    file = recipe(tmp_path, "recurrent")
    with (tmp_path / "questions.tsv").open("a", encoding="utf-8") as more:
        for animal in ("dog", "hen") * 30:  # of which this document says nothing
            more.write(f"What color is the {animal}?\t{ASKED['document']}\t\n")
    tree = yaml.safe_load(file.read_text())
    tree["data"] |= {"no_answer": True, "max_question": 6}
    file.write_text(yaml.safe_dump(tree))
    run = regard.train(file, output=tmp_path / "run")
    scores = run.evaluate().values
    assert scores["no_answer_f1"] > 80
    assert scores["has_answer_f1"] > 60
    assert scores["best_f1"] >= scores["f1"] > 60
    asked = {**ASKED, "question": "What color is the hen?"}
    silent = run.predict(asked, n_best=2)
    assert (silent.text, silent.start) == ("", None)
    assert silent.n_best[1].text
    assert run.predict(asked, threshold=1e6).text
    assert run.predict(ASKED, threshold=-1e6).text == ""
    record = run.look(asked, method="leave-one-out")
    assert (record.output, record.matrix().rows.labels) == ("", ["(no answer)"])
    assert run.look(asked, output="", n_best=1).score == run.score([asked], [""])[0].score == silent.score


def test_a_trained_encoder_is_fine_tuned_and_then_not_needed_any_more(tmp_path):
    tokenizer = Tokenizer.train([ASKED["document"], ASKED["question"]], "word")
    sizes = EncoderSettings(width=24, heads=2, feed_forward=36, layers=2, token_types=2, dropout=0.0)
    first = build_encoder(sizes, tokenizer.size)
    trained = tmp_path / "encoder"
    trained.mkdir()
    tokenizer.save(trained / "tokenizer.json")
    keep_settings(sizes, trained)
    save_file({f"encoder.{name}": weight for name, weight in first.state_dict().items()}, trained / "model.safetensors")
    file = recipe(tmp_path, "transformer", max_steps=2, validate_every=2)
    tree = yaml.safe_load(file.read_text()) | {"model": {"kind": "pretrained", "path": str(trained), "frozen": 1}}
    file.write_text(yaml.safe_dump(tree))

    job = make_job(config.read(file))
    job.prepare(tmp_path / "cache")
    for name, weight in job.build().encoder.state_dict().items():
        assert torch.equal(weight, first.state_dict()[name])
    run = regard.train(file, output=tmp_path / "run")
    found = run.predict(ASKED)
    after = run.model.state_dict()
    assert torch.equal(after["encoder.embedding.table.weight"], first.state_dict()["embedding.table.weight"])
    for layer, frozen in ((0, True), (1, False)):
        name = f"layers.{layer}.attention.out.weight"
        assert torch.equal(after[f"encoder.{name}"], first.state_dict()[name]) == frozen
    shutil.rmtree(trained)
    assert regard.load(tmp_path / "run").predict(ASKED) == found
    longer = config.read(file, [f"model.path={tmp_path / 'run'}", "data.max_length=600"])
    with pytest.raises(CallError, match=r"data\.max_length=600 is more than the 512 positions"):
        make_job(longer).prepare(tmp_path / "cache")


# ---------------------------------------------------------------------------------------------------------- looking
ASKED_WORDS = ["What", "color", "is", "the", "owl", "?"]
READ_WORDS = ASKED["document"].replace(".", " .").split()


@pytest.mark.parametrize("method", METHODS)
def test_looking_shows_question_and_document_and_changes_nothing(run, method):
    recurrent = run.recipe.model.kind == "recurrent"
    if method in REFUSED and recurrent:
        with pytest.raises(CallError, match=REFUSED[method]):
            run.look(ASKED, method=method)
        return
    plain = run.predict(ASKED)
    record = run.look(ASKED, method=method, evidence=True)
    assert (record.input, record.output, record.score) == (ASKED["question"], plain.text, plain.score)
    matrix = record.matrix()
    assert [label for label in matrix.columns.labels if "⟦" in label or "⟧" in label] == ["⟦dark", "brown⟧"]
    labels = [label.strip("⟦⟧") for label in matrix.columns.labels]
    if method in WHOLE_MODEL:
        assert matrix.rows.labels == ["dark brown"]
        marked = [*ASKED_WORDS, *READ_WORDS] if recurrent else ["<s>", *ASKED_WORDS, "</s>", *READ_WORDS, "</s>"]
        assert labels == marked
        assert matrix.weights.sum() == pytest.approx(1, abs=1e-4)
        assert not matrix.weights[0, sorted({*range(len(labels))} - {*matrix.columns.real()})].any()
        assert asked_of_the_model(record, method) == {"comprehensiveness", "sufficiency"}
    else:
        assert matrix.rows.labels == ASKED_WORDS
        assert labels == READ_WORDS
        assert matrix.weights.any()
        assert not record.evidence  # rows are words of the question, and it is the answer that can be asked about
    if method == "leave-one-out":
        answer = [place for place, label in enumerate(labels) if label in ("dark", "brown")]
        assert not matrix.weights[0, answer].any()  # it has to stay
    if method == "leave-one-out" and recurrent:
        owl = [place for place, label in enumerate(labels) if label == "owl"]
        assert matrix.weights[0, owl].sum() > 0.2  # without it nobody knows what is asked


def test_what_is_asked_without_words_is_what_a_shorter_input_says(run):
    """A word less before the answer moves it; log p is that of the shorter texts at the new place."""
    job, words = run.job, {"question": "What is the owl?", "document": "The is dark brown. The cat is red."}
    full = {"question": "What color is the owl?", "document": "The owl is dark brown. The cat is red."}
    told = job.output.tell(run.model, full, LookOptions(output="dark brown"))[0]
    short = job.output.tell(run.model, words, LookOptions(output="dark brown"))[0]
    long_case, short_case = (job.output.case(run.model, one, this) for one, this in ((full, told), (words, short)))
    with torch.no_grad():
        both = long_case.ask([frozenset(), frozenset({1, 7})])  # `color`, and the document's second word
        torch.testing.assert_close(both[1:], short_case.ask([frozenset()]), atol=1e-5, rtol=1e-4)
        answer = long_case.ask([frozenset({9, 10})])  # dark brown stays
    torch.testing.assert_close(answer, both[:1], atol=1e-5, rtol=1e-4)


def test_gradients_are_those_of_autograd(run):
    """input × gradient of log p(start) + log p(end), worked out by hand on the vectors of the words."""
    record = run.look(ASKED, output="red", method="input-gradient")
    job, model = run.job, run.model
    pair = job.input.collate([job.input.read(ASKED)])
    calls = []
    hook = model.embedding.table.register_forward_hook(lambda module, given, vectors: calls.append(vectors))
    try:
        with torch.enable_grad():
            start, end = model.point(pair.question, pair.document)
            total = start.log_softmax(1)[0, 10] + end.log_softmax(1)[0, 10]  # The owl is dark brown. The cat is *red*
            felt = torch.autograd.grad(total, calls)
    finally:
        hook.remove()
    products = torch.cat([(x * g).sum(-1)[0] for x, g in zip(calls, felt, strict=True)]).abs().detach().numpy()
    matrix = record.matrix()
    real = matrix.columns.real()
    np.testing.assert_allclose(matrix.weights[0, real], products[real] / products[real].sum(), rtol=1e-3, atol=1e-6)


def test_weights_are_those_of_the_model(run):
    record = run.look(ASKED)
    if run.recipe.model.kind == "recurrent":
        to_question, to_document = (one.weights[0] for one in record.of_kind("cross"))
        np.testing.assert_allclose(to_question.sum(0), 1, rtol=1e-4)  # each document word spreads 1 over the question
        assert to_document.sum() == pytest.approx(1, abs=1e-4)
        assert ((to_document > 0).sum(0) <= 1).all()
    else:
        for cross, whole in zip(record.of_kind("cross"), record.of_kind("encoder"), strict=True):
            np.testing.assert_allclose(whole.weights.sum(-1), 1, rtol=1e-4)
            np.testing.assert_array_equal(cross.weights, whole.weights[:, 1:7, 8:-1])
        labels = record.matrix("encoder").rows.labels
        assert (labels[0], labels[7], labels[-1]) == ("<s>", "</s>", "</s>")


def test_a_given_answer_and_a_silent_head_can_be_looked_at(run):
    record = run.look(ASKED, output="red")
    assert "⟦red⟧" in record.matrix().columns.labels
    assert record.score == pytest.approx(run.score([ASKED], ["red"])[0].score, abs=1e-4)
    silent = run.look(ASKED, without=["cross.0.0"])
    assert not silent.of_kind("cross")[0].weights[0].any()
    assert silent.score != record.score


def test_other_answers_are_beams_and_words_can_be_merged(run):
    record = run.look(ASKED, n_best=3)
    answers = run.predict(ASKED, n_best=3).n_best
    assert [record.output, *(beam.output for beam in record.beams)] == [answer.text for answer in answers]
    assert [beam.score for beam in record.beams] == [answer.score for answer in answers[1:]]
    plain = record.words().without_specials()
    assert plain.matrix("cross").columns.labels == record.matrix("cross").columns.labels


def test_a_long_document_is_shown_by_the_window_where_the_answer_has_most_context(run):
    long = "The fox is white. " * 12 + "The owl is red. " + "The cat is blue. " * 12
    matrix = run.look({"question": "What color is the owl?", "document": long}, output="red").matrix()
    words = [label.strip("⟦⟧") for label in matrix.columns.labels]
    at = matrix.columns.labels.index("⟦red⟧")
    assert len(words) == 40 - 3 - 6  # as long as a window may be
    assert min(at, len(words) - 1 - at) >= 8 // 2
    assert "owl" in words[at - 2]


def test_attention_is_kept_as_training_goes_on(run):
    history = run.history_of_looks()
    assert history.steps == (STEPS[run.recipe.model.kind],)  # there is one validation
    record = history.last
    shown = [label.strip("⟦⟧") for label in record.matrix().columns.labels if "⟦" in label or "⟧" in label]
    assert " ".join(shown) == record.output in COLORS
