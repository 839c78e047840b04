"""Text to text, from the user's file to predictions: on the command line and in Python, on real files."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import regard
from command_line import regard as cli
from regard import config
from regard.attention import Trace
from regard.data.windows import in_pieces
from regard.errors import CallError, RegardError
from regard.generation.engine import Hypothesis
from regard.job import make_job
from regard.settings.model import RecurrentSettings
from regard.tasks.text.cross_attention import cross_attention
from regard.tasks.text.settings import DecodingSettings
from regard.tasks.text.translation import Translation
from regard.tasks.text.writing import CrossAttentionArrays
from regard.training.metrics import read_metrics
from translate_example import translator

WORDS = {"one": "uno", "two": "dos", "three": "tres", "red": "rojo", "blue": "azul", "cat": "gato", "dog": "perro"}
TINY = {
    "recurrent": {"kind": "recurrent", "width": 48, "embedding": 32, "dropout": 0.0},
    "transformer": {
        "kind": "transformer", "width": 32, "heads": 2, "feed_forward": 64,
        "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0, "label_smoothing": 0.0,
    },
}  # fmt: skip


def write_pairs(file, count=120):
    """Word for word, but turned round: what a decoder without a look at the source cannot know."""
    chance = np.random.default_rng(0)
    lines = []
    for _ in range(count):
        source = chance.choice(list(WORDS), size=chance.integers(2, 5)).tolist()
        lines.append(f"{' '.join(source)}\t{' '.join(WORDS[word] for word in reversed(source))}\n")
    file.write_text("".join(lines), encoding="utf-8")
    return file


def recipe(folder, kind, **training):
    """A recipe for the file of pairs that overfits it in seconds."""
    import yaml

    pairs = write_pairs(folder / "pairs.tsv")
    tree = {
        "job": "translate",
        "data": {"train": str(pairs), "valid": str(pairs), "test": str(pairs), "tokenizer": {"kind": "word"}},
        "model": TINY[kind],
        "training": {
            "max_tokens": 400, "max_steps": 250, "max_epochs": None, "learning_rate": 6e-3, "warmup": 50,
            "schedule": "inverse_sqrt", "validate_every": 250, **training,
        },
        "decoding": {"beam": 2, "max_length": 10},
    }  # fmt: skip
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(tree))
    return file


@pytest.fixture(scope="module", params=["recurrent", "transformer"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return regard.train(recipe(folder, request.param), output=folder / "run")


def test_translate_learns_its_tiny_data(run):
    scores = run.evaluate().values
    assert isinstance(run.job.output, Translation)
    assert scores["exact_match"] > 90
    source, target = (run.folder.parent / "pairs.tsv").read_text().splitlines()[0].split("\t")
    assert run.predict(source).text == target


def test_the_folder_holds_all_and_nothing_that_can_execute(run):
    names = {path.name for path in run.folder.iterdir()}
    assert {
        "config.yaml",
        "model.safetensors",
        "metrics.jsonl",
        "report.html",
        "README.md",
        "tokenizer.json",
    } <= names
    endings = {path.suffix for path in run.folder.rglob("*") if path.is_file()}
    assert not endings & {".pt", ".pth", ".pkl", ".pickle", ".bin", ".py"}


def test_lists_n_best_and_scores(run):
    one, two = run.predict(["one red cat", "two"], n_best=2)
    assert one.text == run.predict("one red cat").text
    assert len(one.n_best) == 2
    assert one.n_best[0].score >= one.n_best[1].score
    assert two.input == "two"
    assert run.predict([]) == []
    assert run.predict("").text == ""


def test_batching_does_not_change_outputs(run):
    texts = ["one", "blue dog three", "two red", "cat cat dog blue", "three"]
    together = [prediction.text for prediction in run.predict(texts)]
    assert [run.predict(text).text for text in texts] == together
    assert [prediction.text for prediction in run.predict(texts, batch_tokens=1)] == together


def test_prefixes_and_sampling(run):
    assert run.predict("one red cat", prefix="azul").text.startswith("azul")
    drawn = run.predict("one red cat", sample=True, seed=3, n_best=3, temperature=2.0)
    assert drawn == run.predict("one red cat", sample=True, seed=3, n_best=3, temperature=2.0)
    assert len(drawn.n_best) == 3


def test_very_long_texts_are_translated_in_pieces(run, tmp_path):
    """Sentences stay whole, and a piece is translated as it is alone."""
    long = "one red cat . " * 200  # 800 tokens; 510 are read as a whole
    pieces = [item.text for item in run.job.input.windows(long)]
    assert len(pieces) > 1
    assert " ".join(pieces) == long.strip()
    assert all(piece.endswith(".") for piece in pieces)
    found, short = run.predict([long, "two"])
    assert found.input == long
    assert found.text == " ".join(one.text for one in run.predict(pieces))
    assert found.log_probability == pytest.approx(sum(one.log_probability for one in run.predict(pieces)), abs=1e-3)
    assert short.text == run.predict("two").text
    (tmp_path / "long.tsv").write_text(f"two\tdos\n{long}\tuno\n")
    scores = run.evaluate(test=str(tmp_path / "long.tsv"))
    assert scores.notes["longer inputs"].startswith("1 of 2 are longer than data.max_length=256 tokens: texts of more")


def test_pieces_of_a_text_are_sentences_or_words_or_letters():
    def count(text):
        return len(text.split()) if " " in text else len(text)

    assert in_pieces("a b. c d e. f.", count, 5) == ["a b. c d e.", "f."]
    assert in_pieces("a b c d e f g", count, 3) == ["a b c", "d e f", "g"]
    assert in_pieces("abcdefgh", count, 3) == ["ab", "cd", "ef", "gh"]
    assert in_pieces("", count, 3) == [""]
    assert in_pieces("x", lambda text: 9, 3) == ["x"]  # cannot be made shorter


def test_positions_that_were_not_learned_end_no_validation(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text(f"one two\tuno\n{'one ' * 90}\tdos\n")
    data = {"train": str(file), "valid": str(file), "test": str(file), "max_length": 24, "tokenizer": {"kind": "word"}}
    model = TINY["transformer"] | {"positions": "learned", "max_positions": 24}
    how = {"batch_tokens": 64, "max_length": 8}
    job = make_job(config.build({"job": "translate", "data": data, "model": model, "decoding": how}))
    job.prepare(tmp_path / "cache")
    assert [len(job.splits[role]) for role in ("train", "valid")] == [1, 2]
    bound = job.bound(job.build())
    assert bound.validate().keys() >= {"loss", "bleu"}
    assert bound.evaluate().values["bleu"] >= 0


@pytest.mark.parametrize(
    "how", [{"beam": 2}, {"beam": 1}, {"sample": True, "seed": 3}], ids=["beam", "greedy", "drawn"]
)
def test_both_numbers_of_a_text_mean_the_same_however_it_came_about(run, how):
    """Searched for, drawn or given: the sum of its log-probabilities, and that over its length, which is ranked by."""
    texts = ["one red cat", "blue dog three", "two"]
    found = run.predict(texts, **how)
    for prediction, given in zip(found, run.score(texts, [one.text for one in found]), strict=True):
        length = len(prediction.text.split()) + 1  # and the end
        assert given.log_probability == pytest.approx(prediction.log_probability, abs=1e-4)
        assert given.score == pytest.approx(prediction.score, abs=1e-4)
        assert prediction.score == pytest.approx(prediction.log_probability / length, abs=1e-6)
        assert {"score", "log_probability"} < prediction.as_dict().keys()


def test_given_outputs_are_scored(run):
    assert run.score(["one"], ["uno"])[0].score > run.score(["one"], ["perro"])[0].score
    with pytest.raises(CallError, match="2 inputs and 1 outputs"):
        run.score(["one", "two"], ["uno"])


def test_a_wrong_decoding_setting_is_named(run):
    with pytest.raises(CallError, match=r"decoding\.baem: unknown key; did you mean 'beam'"):
        run.predict("one", baem=3)
    with pytest.raises(CallError, match=r"decoding\.n_best=9 is more than beam=2"):
        run.predict("one", n_best=9)


def test_looking_changes_nothing_and_shows_the_winner(run):
    plain, looked = run.predict("one red cat"), run.predict("one red cat", attention=True)
    assert plain.text == looked.text
    assert plain.score == looked.score
    alignment = looked.alignment
    assert alignment.rows == [*looked.text.split(), "</s>"]
    assert alignment.columns == ["one", "red", "cat", "</s>"]
    for weights in alignment.weights.values():
        assert weights.shape[1:] == (len(alignment.rows), 4)
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


def test_forced_weights_are_those_of_decoding_step_by_step(run):
    """The picture of a beam search's winner is what the decoder saw when it decoded."""
    job, model = run.job, run.model
    item = job.input.read("three blue dog")
    (hypotheses,) = job.output.search(model, [item], beam=3, max_length=10)
    winner = hypotheses[0].tokens
    (forced,) = cross_attention(model, job.input, [item], [winner])
    memory = model.encode(torch.tensor([[*item.ids, 3]]))
    state = model.start(memory)
    with torch.inference_mode(), Trace(model) as seen:
        for token in [2, *winner]:
            _, state = model.step(torch.tensor([token]), state)
    assert forced.weights
    for name, weights in forced.weights.items():
        np.testing.assert_allclose(seen[name][0].numpy(), weights, atol=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_unknown_is_never_written_unless_asked_for(beam):
    job = translator(RecurrentSettings(width=8, embedding=8), "word", beam=beam, max_length=6)
    job.model.logits = lambda features, plain=job.model.logits: plain(features) + 50 * (torch.arange(14) == 1)
    (said,) = job.predict(["one red cat"])
    assert "<unk>" not in said.text
    asked = job.with_recipe(job.recipe.model_copy(update={"decoding": DecodingSettings(unknown=True, max_length=6)}))
    (said,) = asked.predict(["one red cat"])
    assert set(said.text.split()) == {"<unk>"}
    (said,) = job.predict(["one red cat"], prefix="zebra")
    assert said.text.startswith("<unk>")


def test_unknown_words_are_replaced_through_attention(run):
    job = run.job.with_recipe(run.recipe.model_copy(update={"decoding": DecodingSettings(replace_unknown=True)}))
    item = job.input.read("one Zebra cat")
    seen = CrossAttentionArrays({"decoder.attention": np.eye(3, 4, k=1)[None]})
    said = job.output.prediction("one Zebra cat", item, [Hypothesis([1, 1], 0.0, 0.0)], seen, attention=False)
    assert said.text == "Zebra cat"
    said = job.output.prediction("one Zebra cat", item, [Hypothesis([5, 1], 0.0, 0.0)], seen, attention=False)
    assert said.text.endswith(" cat")


def test_alignment_error_against_a_gold_file(run, tmp_path):
    pairs = (run.folder.parent / "pairs.tsv").read_text(encoding="utf-8").splitlines()
    gold = tmp_path / "gold.align"
    lengths = [len(line.split("\t")[0].split()) for line in pairs]
    gold.write_text("\n".join(" ".join(f"{i}-{n - 1 - i}" for i in range(n)) for n in lengths) + "\n")
    scores = run.evaluate(alignments=gold)
    heads = scores.details["alignment error by layer and head"]
    assert all(0 <= row["aer"] <= 1 for row in heads)
    (fixed,) = (row for row in heads if (row["layer"], row["head"], row["reading"]) == ("all", "mean", "argmax"))
    assert scores.values["aer"] == fixed["aer"]  # and not the best of what the test gold says
    assert scores.values["aer_best_on_test"] < min(scores.values["aer_uniform"], fixed["aer"] + 1e-9)
    assert "fixed" in scores.notes["reading"]
    assert "chosen on the test gold" in scores.notes["optimistic"]
    lines = [line.split("\t") for line in pairs]
    counted_from_1 = [" ".join(f"{i + 1}-{n - i}" for i in range(n)) for n in lengths]
    with_texts = [f"{a} ||| {b} ||| {c}" for (a, b), c in zip(lines, gold.read_text().splitlines(), strict=True)]
    for form, written in {"talp": counted_from_1, "pharaoh": with_texts}.items():
        other = tmp_path / form
        other.write_text("\n".join(line.strip() for line in written) + "\n")
        again = run.evaluate([f"data.alignment_format={form}"], alignments=other)
        assert again.values["aer"] == scores.values["aer"]
    with pytest.raises(CallError, match="is a link to a word that is not there"):
        run.evaluate(alignments=tmp_path / "talp")
    with pytest.raises(CallError, match="there is no such file"):
        run.evaluate(["data.alignments=nowhere.align"], alignments=True)
    with pytest.raises(CallError, match=r"give data\.alignments=FILE"):
        run.evaluate(alignments=True)


def test_loading_what_is_no_run_is_a_clear_error(tmp_path, run):
    with pytest.raises(CallError, match=r"no such run: .*nowhere"):
        regard.load(tmp_path / "nowhere")
    with pytest.raises(CallError, match="not a run"):
        regard.load(tmp_path)
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run.folder, copy)
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(RegardError, match="does not hold the weights"):
        regard.load(copy)


# ------------------------------------------------------------------------------------------------- the command line
def process(*words, **options):
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "regard", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, **options)


def test_predict_on_the_command_line_agrees_with_python(run, tmp_path):
    texts = ["one red cat", "two blue dog"]
    expected = [prediction.text for prediction in run.predict(texts)]
    assert cli("predict", run.folder, *texts).stdout.splitlines() == expected
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
    done = cli("predict", run.folder, "--input", tmp_path / "in.txt", "--output", tmp_path / "out.txt")
    assert done.stdout == ""
    assert (tmp_path / "out.txt").read_text().splitlines() == expected
    again = cli("predict", run.folder, "--input", tmp_path / "in.txt", "--targets", tmp_path / "out.txt")
    assert [line.split("\t")[1] for line in again.stdout.splitlines()] == expected
    forgotten = cli("predict", run.folder, "one red cat", "beam=1")
    assert forgotten.returncode == 2
    assert "'beam=1' looks like a setting: write decoding.beam=1" in forgotten.stderr
    assert len(cli("predict", run.folder, "one red cat", "cat=2").stdout.splitlines()) == 2  # no setting: a text
    piped = cli("predict", run.folder, "decoding.beam=1", "--json", input="one red cat\n")
    document = json.loads(piped.stdout)
    assert document[0]["input"] == "one red cat"
    assert isinstance(document[0]["n_best"][0]["score"], float)


def test_evaluate_on_the_command_line(run):
    document = json.loads(cli("evaluate", run.folder, "--json").stdout)
    assert document["exact_match"] > 90
    assert document["signature"].startswith("nrefs:1|case:mixed")
    shown = cli("evaluate", run.folder)
    assert "bleu by source length" in shown.stdout


@pytest.mark.slow
def test_train_stopped_and_gone_on_with_is_bit_identical(tmp_path):
    """The promise as users meet it: the command line, killed, and the same command again."""
    file = recipe(tmp_path, "transformer", max_steps=60, save_every=10, validate_every=30)
    whole = process("train", file, "-o", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    first = process("train", file, "-o", tmp_path / "parts", "--max-steps", 23)
    assert first.returncode == 0, first.stderr
    second = process("train", file, "-o", tmp_path / "parts", "--json")
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["step"] == 60
    assert (tmp_path / "whole/model.safetensors").read_bytes() == (tmp_path / "parts/model.safetensors").read_bytes()
    changed = cli("train", file, "model.width=64", "-o", tmp_path / "parts")
    assert changed.returncode == 2
    assert "model.width" in changed.stderr
    with (tmp_path / "pairs.tsv").open("a") as pairs:
        pairs.write("cat\tgato\n")
    other = cli("train", file, "-o", tmp_path / "parts", "--max-steps", 70)
    assert other.returncode == 2
    assert "training data" in other.stderr


@pytest.mark.slow
def test_ctrl_c_saves_says_how_to_go_on_and_exits_with_130(tmp_path):
    file = recipe(tmp_path, "transformer", max_steps=100_000, save_every=100_000, log_every=1)
    run = tmp_path / "run"
    command = [sys.executable, "-m", "regard", "train", str(file), "-o", str(run)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        deadline = time.monotonic() + 120
        while not (run / "metrics.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert out == ""
    assert "run the same command again to resume" in said
    assert list((run / "state").iterdir()), "nothing was saved"


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path):
    """`torchrun --nproc-per-node 2 -m regard train`: batches are shared out, losses are those of one."""
    file = recipe(tmp_path, "transformer", max_steps=30, validate_every=30, log_every=1)
    alone = process("train", file, "-o", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "regard"]
    command = [*launcher, "train", str(file), "-o", str(tmp_path / "both")]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    both = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert both.returncode == 0, both.stderr
    one, two = (read_metrics(tmp_path / name / "metrics.jsonl") for name in ("alone", "both"))
    losses = [[line["loss"] for line in lines if line["kind"] == "train"] for lines in (one, two)]
    assert len(losses[0]) == 30
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert both.stderr.count("step 30 · validation loss") == 1, "only one process speaks"


def test_a_run_of_an_older_version_goes_on_though_settings_were_added(tmp_path):
    file, folder = recipe(tmp_path, "recurrent", max_steps=4, validate_every=4), tmp_path / "run"
    regard.train(file, output=folder)
    checkpoint = max((folder / "state").iterdir())
    saved = json.loads((checkpoint / "run.json").read_text())
    del saved["config"]["training"]["decay_all"]  # as if it had come later
    (checkpoint / "run.json").write_text(json.dumps(saved))
    sums = (checkpoint / "SHA256SUMS").read_text().splitlines()
    digest = hashlib.sha256((checkpoint / "run.json").read_bytes()).hexdigest()
    sums = [f"{digest}  run.json" if line.endswith("run.json") else line for line in sums]
    (checkpoint / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    with pytest.raises(CallError, match="decay_all: False → True"):
        regard.train(file, output=folder, training={"max_steps": 6, "decay_all": True})
    assert regard.train(file, output=folder, training={"max_steps": 6}).summary()["step"] == 6
