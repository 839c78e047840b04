"""A picture and a question come in at once: the list, the joint memory, the corpus, answers and looks."""

from typing import Literal

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

import regard
from ask_example import tree, write_questions, written
from look_methods import asked_of_the_model
from regard import config, look
from regard.attention.memory import Memory
from regard.cli import cli
from regard.data.pairs import Columns
from regard.data.settings import FilesSettings, TokenizerSettings
from regard.encoders.text import JointEncoder, JointMemory
from regard.errors import CallError
from regard.inputs.joint import JointInput
from regard.job import make_job
from regard.jobs import JOBS, JobRow
from regard.layers.transformer import Block
from regard.look.axis import axis, join_axes
from regard.look.methods import METHODS
from regard.settings.model import RecurrentSettings
from regard.settings.recipe import Recipe


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    return write_questions(tmp_path_factory.mktemp("questions"))


@pytest.fixture(scope="module")
def run(listed):
    return regard.train(written(listed, tree(listed)), output=listed.parent / "run")


LEFT = {"question": "what is on the left?"}


# ---------------------------------------------------------------------------------------------------------- the job
def test_it_learns_its_tiny_data_and_no_question_alone_tells(run):
    scores = run.evaluate()
    assert scores.values["exact_match"] > 95
    assert scores.values["questions"] == 36
    assert scores.values["blind"] == pytest.approx(100 * (3 + 3 + 6) / 36)  # a color of four, yes or no
    table = scores.details["exact match by how the question begins"]
    assert {row["begins"]: row["questions"] for row in table} == {"what is": 24, "is there": 12}
    assert "pointing" not in scores.values  # nobody knows where things are in these pictures


def test_an_input_is_the_same_however_it_is_given(run, listed):
    path, question = str(listed.parent / "4.png"), LEFT["question"]
    ways = [(path, question), [path, question], {"image": path, **LEFT}, f"{path}\t{question}"]
    ways.append((np.asarray(Image.open(path)), question))
    assert {found.text for found in run.predict(ways)} == {"green"}
    assert run.predict({"image": path, "question": "what is on the right?"}).text == "blue"
    assert run.predict({"image": path, **LEFT}).input == f"{path}: {question}"
    assert run.predict([(path, "")])[0].text == ""  # nothing was asked
    for wrong in (path, (path,), {"image": path}, f"\t{question}"):
        with pytest.raises(CallError, match="is not an image and a question: on the command line"):
            run.predict([wrong])


def test_scores_streams_and_prefixes(run, listed):
    one = {"image": str(listed.parent / "4.png"), **LEFT}
    found = run.predict(one)
    scored = run.score([one], [found.text])[0]
    assert scored.log_probability == pytest.approx(found.log_probability, abs=1e-4)
    pieces = []
    assert run.stream(one, lambda piece, text: pieces.append(text)).text == pieces[-1] == "green"
    assert run.predict(one, prefix="white").text.startswith("white")


def test_from_the_command_line(run, listed, tmp_path):
    path, folder = str(listed.parent / "4.png"), str(run.folder)
    asked = [LEFT["question"], "is there red?"]
    assert CliRunner().invoke(cli, ["predict", folder, *asked, "--about", path]).stdout.split() == ["green", "no"]
    (tmp_path / "asked.tsv").write_text("".join(f"{path}\t{question}\n" for question in asked))
    done = CliRunner().invoke(cli, ["predict", folder, "--input", str(tmp_path / "asked.tsv")])
    assert done.stdout.split() == ["green", "no"]
    words = ["look", folder, asked[0], "--about", path, "--view", "overlay", "-o", str(tmp_path / "over.png")]
    drawn = CliRunner().invoke(cli, words)
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "over.png").stat().st_size > 1000
    beside = CliRunner().invoke(cli, ["look", folder, asked[0], "--about", path, "--against", folder])
    assert beside.exit_code == 0, beside.output
    for words in ([asked[0]], [asked[0], "--about", str(tmp_path / "gone.png")]):
        assert isinstance(CliRunner().invoke(cli, ["predict", folder, *words]).exception, CallError)


def test_the_service_takes_an_upload_and_a_text(run, listed):
    testing = pytest.importorskip("fastapi.testclient", reason="needs fastapi: pip install 'regard[web]'")
    create_app = pytest.importorskip("regard.serve.app", reason="needs regard: pip install 'regard[web]'").create_app
    with testing.TestClient(create_app({"ask": run}), base_url="http://localhost") as client:
        assert client.get("/api/models").json()["models"][0]["takes"] == ["image", "text"]
        name = client.post("/api/upload", content=(listed.parent / "4.png").read_bytes()).json()["name"]
        text = f"{name}\t{LEFT['question']}"
        assert client.post("/api/predict", json={"inputs": [text]}).json()["predictions"][0]["text"] == "green"
        seen = client.post("/api/look", json={"text": text}).json()
        assert (seen["input"], seen["output"]) == (f"picture: {LEFT['question']}", "green")  # no path of ours is told
        assert seen["axes"]["source"]["after"] == 7
        assert 'data: {"token": "green"' in client.post("/api/stream", json={"text": text}).text
        for wrong, told in (
            (LEFT["question"], "name of the picture<TAB>text"),
            (f"{listed.parent / '4.png'}\t{LEFT['question']}", "/api/upload"),
        ):
            answer = client.post("/api/predict", json={"inputs": [wrong]})
            assert answer.status_code == 422
            assert told in answer.json()["error"]


def test_a_run_goes_on_where_it_stopped(listed, tmp_path):
    settings = tree(listed)
    settings["training"]["schedule"] = "constant"
    recipe = written(listed, settings)
    whole, parts = (tmp_path / name for name in ("whole", "parts"))
    regard.train(recipe, output=whole, training={"max_steps": 12})
    regard.train(recipe, output=parts, training={"max_steps": 5})
    regard.train(recipe, output=parts, training={"max_steps": 12})
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()
    moved = regard.load(whole)
    assert moved.predict({"image": str(listed.parent / "1.png"), **LEFT}).n_best


# ------------------------------------------------------------------------------------------------------------ looking
@pytest.mark.parametrize("method", METHODS)
def test_columns_are_regions_and_words(run, listed, method, tmp_path):
    record = run.look({"image": str(listed.parent / "4.png"), **LEFT}, method=method, evidence=True)
    cross = record.matrix("cross")
    assert cross.rows.labels == ["green", "</s>"]
    assert cross.columns.labels[:2] == ["row 1, column 1", "row 1, column 2"]
    assert cross.columns.labels[15:] == ["what", "is", "on", "the", "left", "?", "</s>"]
    assert (cross.columns.grid, cross.columns.after) == ((3, 5), 7)
    assert cross.columns.text == LEFT["question"]
    assert cross.columns.image.shape == (12, 20, 3)
    sums = cross.weights.sum(1)
    full = 0.5 if method == "rollout" else 1.0  # the other half stays with what was written
    assert (np.isclose(sums, full, atol=1e-4) | (sums == 0)).all()
    if method == "raw":  # all regions and words look at each other
        assert record.matrix("encoder").weights.shape == (22, 22)
    if method == "leave-one-out":  # without either the answer is lost
        regions, words = cross.weights[0, :15], cross.weights[0, 15:]
        assert regions.sum() > 0
        assert words.argmax() == 4
    look.save(record, tmp_path / "record.npz")
    again = look.load(tmp_path / "record.npz")
    assert again.axes["source"] == record.axes["source"]
    assert again.without_specials().matrix("cross").columns.grid == (3, 5)
    assert asked_of_the_model(record, method) == {"comprehensiveness", "sufficiency"}


def test_what_comes_after_lies_on_no_grid():
    both = join_axes(axis(["[CLS]", *"abcdef"], grid=(2, 3)), axis(["what", "?", "</s>"], words=[0, 0, None]))
    assert both.upon() == [1, 2, 3, 4, 5, 6]
    assert both.real() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert both.taken(both.real()).after == 2
    assert both.taken([1, 2, 3, 7]).grid is None  # a part of a grid is none
    timed = join_axes(axis(times=[0.0, 0.5], until=1.0), axis(["what"]))
    assert timed.edges.tolist() == [0.0, 0.5, 1.0]


# --------------------------------------------------------------------------------------------------------- the memory
class Given(torch.nn.Module):
    """Vectors as they are; zeros are padding."""

    memory_width = summary_width = 8

    def forward(self, vectors):
        return Memory(vectors, vectors.any(2), vectors.mean(1))


def test_padding_between_the_two_changes_nothing():
    torch.manual_seed(0)
    encoder = JointEncoder(Given(), Given(), [Block(8, 2, 16)], final_norm="layer").eval()
    first, second = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    first[1, 2:], second[1, 3:] = 0, 0
    memory = encoder(JointMemory(first, second))
    alone = encoder(JointMemory(first[1:, :2], second[1:, :3]))
    assert memory.mask.sum(1).tolist() == [8, 5]
    assert memory.mask[1, :5].all()
    torch.testing.assert_close(memory.vectors[1, :5], alone.vectors[0])
    torch.testing.assert_close(memory.summary[1], alone.summary[0])


def test_vectors_are_told_by_their_kind_and_must_have_one_width():
    encoder = JointEncoder(Given(), Given())
    vectors = torch.ones(1, 2, 8)
    memory = encoder(JointMemory(vectors, 2 * vectors))
    assert memory.summary.tolist() == [[1.0] * 8 + [2.0] * 8]
    assert encoder.summary_width == 16
    found = encoder(JointMemory(vectors, vectors)).vectors[0] - 1
    torch.testing.assert_close(found, encoder.kinds.repeat_interleave(2, 0))
    wide = Given()
    wide.memory_width = 9
    with pytest.raises(CallError, match="width 8 and of width 9"):
        JointEncoder(Given(), wide)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model.tied": "all"}, "one vocabulary for both texts"),
        ({"model.positions": "rotary"}, "words and regions have none"),
        ({"data.tokenizer": {"joint": True}}, "have separate vocabularies"),
        ({"data.augment": {"flip": True}}, "left and right would be swapped"),
        ({"data.question": 0, "data.answer": 0}, "the same column as question"),
        ({"data.train": "corpus:shapes-question"}, "did you mean 'shapes-questions'"),
        ({"data.train": "corpus:shapes-answers"}, "'shapes-answers'; choose from shapes-questions"),
    ],
)
def test_impossible_settings_are_named(listed, change, message, tmp_path):
    with pytest.raises(CallError, match=message):
        make_job(config.build(config.override(tree(listed), change), "recipe")).prepare(tmp_path)


@pytest.mark.parametrize(
    "model",
    [
        {"encoder": {"kind": "vit", "patch": 4, "width": 24, "heads": 2, "layers": 1}, "encoder_layers": 1},
        {"kind": "recurrent", "width": 32, "embedding": 16, "encoder": {"kind": "cnn", "stages": [16, 24]}},
    ],
    ids=["ViT", "recurrent"],
)
def test_other_models_read_and_write(listed, model, tmp_path):
    settings = tree(listed)
    settings["model"] = {**settings["model"], **model} if "kind" not in model else model
    job = make_job(config.build(settings, "recipe"))
    job.prepare(tmp_path)
    built = job.build()
    batch = next(iter(job.batches().epoch(0)))
    assert built(batch).total.isfinite()
    record = job.bound(built).look((str(listed.parent / "1.png"), "is there red?"))
    assert record.matrix("cross").weights.shape[1] == 15 + 5


# ------------------------------------------------------------------------------------------------- any two of them
class BothData(FilesSettings):
    split: str | None = None
    max_length: int = 20
    tokenizer: TokenizerSettings = TokenizerSettings(kind="word")

    @property
    def columns(self):
        return Columns({"lamps": None, "question": None, "answer": None})


class BothRecipe(Recipe):
    job: Literal["both"] = "both"
    data: BothData
    model: RecurrentSettings = RecurrentSettings(width=8, embedding=8, dropout=0.0)


def test_any_two_inputs_can_stand_beside_each_other(tmp_path):
    """An input of one's own, a text, and an output of one's own: nothing in any of them knows of this."""
    lines = [f"{lamps}\t{asked}\tyes" for lamps in ("1", "010", "11111") for asked in ("on?", "are many of them on?")]
    (tmp_path / "list.tsv").write_text("\n".join(["lamps\tquestion\tanswer", *lines, "1x1\ton?\tno"]) + "\n")
    files = {role: str(tmp_path / "list.tsv") for role in ("train", "valid")}
    recipe = BothRecipe(data=BothData(**files, max_bad=0.5))
    with pytest.MonkeyPatch.context() as patch:
        row = JobRow(
            f"{__name__}:BothRecipe",
            ("own_input:LampsInput", "regard.inputs.text.input:TextInput"),
            "own_output:YesNoOutput",
        )
        patch.setitem(JOBS, "both", row)
        job = make_job(recipe)
    assert isinstance(job.input, JointInput)
    job.prepare(tmp_path / "cache")
    assert len(job.splits["train"]) == 6
    assert "'1x1' is no row of lamps" in str(job.splits["train"].counts.first["unreadable"][0])
    model = job.build()
    batch = job.output.batches(job.splits["train"], 1000).batch(np.arange(6))
    assert (batch.source.first.shape, batch.source.second.shape) == ((6, 5), (6, 7))
    assert model(batch).total.isfinite()
    record = job.bound(model).look(("010", "on?"))
    assert record.matrix().columns.labels == ["lamp 1", "lamp 2", "lamp 3", "on", "?", "</s>"]
