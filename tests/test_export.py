"""Exports: the numbers and the outputs of the run in the runtime of others, and the run itself when they come back."""

import json
import shutil

import pytest
import torch

import regard
from export_runs import RUNS, adapted, untrained
from recipe_runs import small_corpora
from regard.cli import cli
from regard.commands.tools import import_model
from regard.errors import CallError, RegardError
from regard.exporters import proof as quality_of_exports
from regard.exporters.base import FORMATS, Comparison, ExportRequest, expressed_by, format_of
from regard.exporters.html.format import browser
from regard.exporters.proof import prove

pytest.importorskip("transformers", reason="the check needs transformers: pip install 'regard[export]'")

NO_LAYOUT = ("two texts", "alibi", "llama of blocks", "asked", "captioner", "recognizer", "drawer", "two towers")
HF = [name for name in RUNS if not name.startswith(("recurrent", "classified", "forecaster", *NO_LAYOUT))]


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
    if name == "bert classifier" and browser() is not None:  # what came in leaves as one file, too
        lines = tmp_path / "lines.txt"
        lines.write_text("The red house\nWe eat bread\n")
        page = regard.export(back, to="html", out=tmp_path / "page", dtype="float32", inputs=lines)
        assert page.proof is not None
        assert (page.proof.inputs, page.proof.equal_outputs) == (2, 1.0)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert classifier", "pegasus"])
def test_adapters_leave_beside_the_weights_that_stayed(name, tmp_path):
    """One map of ours is three of theirs, holds input × output (GPT-2), or has its features in another order."""
    peft = pytest.importorskip("peft", reason="pip install 'regard[export]'")
    run = adapted(name, tmp_path / "runs")
    report = exported(run, tmp_path, "peft")
    assert report.proof is not None
    assert report.proof.largest_difference < 1e-4
    assert report.proof.equal_outputs == 1.0
    import_model(str(tmp_path / "out"), tmp_path / "back")  # without the adapters, it is the run before
    assert not same_weights(regard.load(tmp_path / "runs" / "base"), regard.load(tmp_path / "back"))
    settings = peft.PeftConfig.from_pretrained(tmp_path / "out" / "adapter")
    assert (settings.r, settings.lora_alpha) == (2, 3.0)
    shutil.rmtree(tmp_path / "runs" / "run" / "adapter")
    with pytest.raises(RegardError, match="the adapters of the run cannot be read"):
        exported(run, tmp_path, "peft")


def test_a_run_without_adapters_has_none_to_export(tmp_path):
    with pytest.raises(CallError, match=r"trained without adapters \(training\.lora\); --to hf or"):
        exported(untrained("gpt2", tmp_path / "run"), tmp_path, "peft")


@pytest.mark.parametrize(("name", "score"), [("gpt2", "loss"), ("pegasus", "bleu")])
def test_ctranslate2_tells_what_8_bit_integers_cost(name, score, tmp_path):
    pytest.importorskip("ctranslate2", reason="pip install 'regard[export]'")
    run = untrained(name, tmp_path / "run")
    quality = exported(run, tmp_path, "ctranslate2", dtype="int8").quality
    assert quality is not None
    with small_corpora():
        assert quality.run[score] == pytest.approx(run.evaluate().values[score])
    assert quality.export[score] == pytest.approx(quality.run[score], rel=0.05, abs=0.5)
    assert quality.export != quality.run or name == "pegasus"


def test_some_of_a_test_part_with_gold_alignments_tell_what_8_bit_integers_cost(tmp_path, monkeypatch):
    pytest.importorskip("ctranslate2", reason="pip install 'regard[export]'")
    monkeypatch.setattr(quality_of_exports, "MOST", 7)
    found = exported(untrained("pegasus", tmp_path / "run"), tmp_path, "ctranslate2", dtype="int8").quality
    assert found is not None
    assert found.examples == 7


@pytest.mark.parametrize("name", ["llama", "arcee", "gpt2", "pegasus", "marian"])
def test_ctranslate2_says_the_same(name, tmp_path):
    pytest.importorskip("ctranslate2", reason="pip install 'regard[export]'")
    report = exported(untrained(name, tmp_path / "run"), tmp_path, "ctranslate2")
    assert report.proof is not None
    assert report.proof.largest_difference < 1e-4
    assert report.proof.equal_outputs == 1.0


@pytest.mark.parametrize(("dtype", "largest"), [("float32", 1e-4), ("float16", 0.1), ("q8_0", 0.5)])
@pytest.mark.parametrize("name", ["llama of blocks", "gpt2"])
def test_a_gguf_file_comes_back(name, dtype, largest, tmp_path):
    run = untrained(name, tmp_path / "run")
    report = exported(run, tmp_path, "gguf", dtype=dtype)
    assert report.proof is not None
    assert report.proof.largest_difference <= largest
    assert (report.quality is not None) == (dtype != "float32")
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
    with pytest.raises(CallError, match="unknown export format 'huggingface'"):
        exported(alibi, tmp_path, "huggingface")
    with pytest.raises(CallError, match="--dtype int3: export to gguf has float32, float16, q8_0"):
        exported(alibi, tmp_path, "gguf", dtype="int3")
    assert not (tmp_path / "out").exists()


def test_an_export_that_differs_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    run = untrained("gpt2", tmp_path / "run")
    (tmp_path / "out").mkdir()
    with monkeypatch.context() as patch:  # weights that are not those of the run
        plan = type(format_of("hf").plan(ExportRequest(run)))
        right = plan.tensors
        patch.setattr(plan, "tensors", lambda self: {name: value + 1e-3 for name, value in right(self).items()})
        with pytest.raises(RegardError, match=r"the export is not equal to the run: logits\[.*\] of .* differs by"):
            exported(run, tmp_path, "hf")
    assert not list((tmp_path / "out").iterdir())
    assert not (tmp_path / "out.part").exists()


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (
            Comparison("a dog", 0.0, "logits", "ein Hund", "eine Katze"),
            "the output of the export differs for 'a dog': 'eine Katze'",
        ),
        (Comparison("a dog", float("nan"), "logits", "", ""), "gives no numbers"),
        (Comparison("a dog", 2e-4, "logits[0, 3]", "", ""), "logits\\[0, 3\\] of 'a dog' differs by 0.0002"),
    ],
)
def test_a_proof_says_where(one, message):
    with pytest.raises(RegardError, match=message):
        prove([one], exact=True)


def test_a_tie_may_fall_either_way():
    proof = prove([Comparison("a", 1e-6, "", "x", "y", tied=True), Comparison("b", 0.0, "", "x", "x")], exact=True)
    assert (proof.equal_outputs, proof.ties, proof.inputs) == (0.5, 1, 2)
    assert proof.sentence().endswith("50.0% of outputs equal (and 1 ties)")


def test_numbers_are_no_equal_outputs():
    assert prove([Comparison("a", 1e-6, "", "", "")], exact=True).sentence().endswith("no output has words to compare")


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
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("two years of work")
    with pytest.raises(CallError, match="holds files that are not of an export"):
        cli.main([*words[:-1], str(mine), "--no-check"], standalone_mode=False)


def test_every_form_is_a_row_and_says_what_it_takes(tmp_path):
    run = untrained("llama", tmp_path / "run")
    assert expressed_by(ExportRequest(run)) == [name for name in FORMATS if name != "peft"]
