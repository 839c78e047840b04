"""Exports: the numbers and the outputs of the run in the runtime of others, and the run itself when they come back."""

import json

import pytest
import torch

import regard
from export_runs import RUNS, untrained, without_shape_checks
from light_runs import example_inputs, held_equal
from recipe_runs import small_corpora
from regard.cli import cli
from regard.commands.import_ import import_model
from regard.errors import CallError, RegardError
from regard.exporters.base import Compared, Wish
from regard.exporters.formats import FORMATS, expressed_by, format_of
from regard.exporters.proof import prove

pytest.importorskip("transformers", reason="the check needs transformers: pip install 'regard[export]'")

HF = [name for name in RUNS if name not in ("alibi", "llama of blocks", "recurrent", "recurrent classifier")]


def exported(run, tmp_path, to, **how):
    with small_corpora():
        return regard.export(run, to=to, out=tmp_path / "out", **how)


def same_weights(one, other):
    first, second = one.model.state_dict(), other.model.state_dict()
    assert first.keys() == second.keys()
    return [name for name in first if not torch.equal(first[name], second[name])]


@pytest.mark.parametrize("name", HF)
def test_a_folder_for_transformers_says_the_same_and_comes_back_as_the_run(name, tmp_path):
    run = untrained(name, tmp_path / "run")
    report = exported(run, tmp_path, "hf")
    assert report.proof is not None
    assert report.proof.largest_difference < 1e-4
    assert report.proof.equal_outputs == 1.0
    import_model(str(tmp_path / "out"), tmp_path / "back")
    back = regard.load(tmp_path / "back")
    assert back.recipe.job == run.recipe.job
    assert not same_weights(run, back)


@pytest.mark.parametrize("name", ["llama", "arcee", "gpt2", "pegasus", "marian"])
def test_ctranslate2_says_the_same(name, tmp_path):
    pytest.importorskip("ctranslate2", reason="pip install 'regard[export]'")
    report = exported(untrained(name, tmp_path / "run"), tmp_path, "ctranslate2")
    assert report.proof is not None
    assert report.proof.largest_difference < 1e-4
    assert report.proof.equal_outputs == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "recurrent",
        "pegasus",
        "gpt2",
        "recurrent classifier",
        "esm tagger",
        "esm encoder",
        "vit",
        "captioner",
        "recognizer",
    ],
)
def test_onnx_says_the_same(name, tmp_path, capsys):
    """To its own check, and to `regard.light`, which runs it without torch."""
    pytest.importorskip("onnxscript", reason="pip install 'regard[export]'")
    run, lines = untrained(name, tmp_path / "run"), tmp_path / "lines.txt"
    inputs = example_inputs(run, tmp_path)
    lines.write_text("\n".join(inputs))
    words = ["export", run.folder, "--to", "onnx", "-o", tmp_path / "out", "--check-inputs", lines, "--json"]
    with without_shape_checks():
        cli.main([*map(str, words)], standalone_mode=False)
    proof = json.loads(capsys.readouterr().out)["proof"]
    assert proof["largest_difference"] < 1e-4
    assert proof["equal_outputs"] == 1.0
    held_equal(run, tmp_path / "out", inputs)


@pytest.mark.parametrize(("dtype", "largest"), [("float32", 0.0), ("float16", 0.1), ("q8_0", 0.5)])
def test_a_gguf_file_comes_back(dtype, largest, tmp_path):
    run = untrained("llama of blocks", tmp_path / "run")
    report = exported(run, tmp_path, "gguf", dtype=dtype)
    assert report.proof is not None
    assert report.proof.largest_difference <= largest
    assert (report.proof.largest_difference > 0) == (dtype != "float32")
    import_model(str(tmp_path / "out" / "model.gguf"), tmp_path / "back")
    assert bool(same_weights(run, regard.load(tmp_path / "back"))) == (dtype != "float32")


def test_what_a_form_cannot_express_is_refused_with_those_that_can(tmp_path):
    additive = untrained("recurrent", tmp_path / "run")
    with pytest.raises(CallError, match=r"cannot be exported to ctranslate2: .*; --to onnx or --to html can"):
        exported(additive, tmp_path, "ctranslate2")
    llama = untrained("llama", tmp_path / "llama")
    with pytest.raises(CallError, match=r"q8_0 has blocks of 32 .* model\.feed_forward=86 must be multiples of it"):
        exported(llama, tmp_path, "gguf", dtype="q8_0")
    alibi = untrained("alibi", tmp_path / "alibi")
    with pytest.raises(CallError, match=r"GPT-2 does not have model\.positions=alibi \(only learned or sinusoidal\)"):
        exported(alibi, tmp_path, "hf")
    with pytest.raises(CallError, match="there is no export to 'huggingface'"):
        exported(alibi, tmp_path, "huggingface")
    with pytest.raises(CallError, match="--dtype int3: export to gguf has float32, float16, q8_0"):
        exported(alibi, tmp_path, "gguf", dtype="int3")
    assert not (tmp_path / "out").exists()


def test_an_export_that_differs_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    run = untrained("gpt2", tmp_path / "run")
    (tmp_path / "out").mkdir()
    with monkeypatch.context() as patch:  # weights that are not those of the run
        plan = type(format_of("hf").plan(Wish(run)))
        right = plan.tensors
        patch.setattr(plan, "tensors", lambda self: {name: value + 1e-3 for name, value in right(self).items()})
        with pytest.raises(RegardError, match=r"the export is not the same: logits\[.*\] of .* differs by"):
            exported(run, tmp_path, "hf")
    assert not list((tmp_path / "out").iterdir())
    assert not (tmp_path / "out.part").exists()


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (Compared("a dog", 0.0, "logits", "ein Hund", "eine Katze"), "says something else of 'a dog': 'eine Katze'"),
        (Compared("a dog", float("nan"), "logits", "", ""), "gives no numbers"),
        (Compared("a dog", 2e-4, "logits[0, 3]", "", ""), "logits\\[0, 3\\] of 'a dog' differs by 0.0002"),
    ],
)
def test_a_proof_says_where(one, message):
    with pytest.raises(RegardError, match=message):
        prove([one], exact=True)


def test_a_tie_may_fall_either_way():
    proof = prove([Compared("a", 1e-6, "", "x", "y", tied=True), Compared("b", 0.0, "", "x", "x")], exact=True)
    assert (proof.equal_outputs, proof.ties, proof.inputs) == (0.5, 1, 2)


def test_the_command_line_the_card_and_bad_calls(tmp_path, capsys):
    run = untrained("gpt2", tmp_path / "run")
    lines = tmp_path / "lines.txt"
    lines.write_text("The red house\n\nWe eat bread\n")
    words = ["export", str(run.folder), "--to", "hf", "-o", str(tmp_path / "out")]
    cli.main([*words, "--check-inputs", str(lines), "--json"], standalone_mode=False)
    report = json.loads(capsys.readouterr().out)
    assert report["proof"]["inputs"] == 2
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert "checked on 2 inputs" in card
    cli.main([*words, "--no-check"], standalone_mode=False)  # what an export wrote may be written anew
    assert "**NOT CHECKED.**" in (tmp_path / "out" / "README.md").read_text()
    assert "NOT CHECKED" in capsys.readouterr().out
    with pytest.raises(CallError, match="give one of them"):
        cli.main([*words, "--no-check", "--check-inputs", str(lines)], standalone_mode=False)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("two years of work")
    with pytest.raises(CallError, match="has files in it that no export wrote"):
        cli.main([*words[:-1], str(mine), "--no-check"], standalone_mode=False)
    (run.folder / "state").mkdir()
    with pytest.raises(CallError, match="not trained to its end"):
        cli.main(words, standalone_mode=False)


def test_an_imported_run_has_no_validation_part(tmp_path):
    exported(untrained("gpt2", tmp_path / "run"), tmp_path, "hf")
    import_model(str(tmp_path / "out"), tmp_path / "back")
    with pytest.raises(CallError, match=r"--check-inputs FILE, or export without a check, --no-check"):
        regard.export(tmp_path / "back", to="hf", out=tmp_path / "again")


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    run = untrained("gpt2", tmp_path / "run")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.exporters.hf.plan.atomic.save_tensors", full)
    with pytest.raises(RegardError, match="No space left on device"):
        exported(run, tmp_path, "hf")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob("*.part"))


def test_every_form_is_a_row_and_says_what_it_takes(tmp_path):
    run = untrained("llama", tmp_path / "run")
    assert expressed_by(Wish(run)) == list(FORMATS)
