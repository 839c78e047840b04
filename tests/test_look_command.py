"""`regard look`, as users and scripts call it."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import regard
from regard import look
from regard.cli import cli
from regard.errors import CallError, RegardError
from regard.look.files import as_dict

TEXT = "the red house"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A Transformer that has seen next to nothing, with three layers on one side and two on the other."""
    folder = tmp_path_factory.mktemp("look")
    pairs = folder / "pairs.tsv"
    words = ["the", "red", "blue", "house", "cat", "sleeps"]
    lines = [f"the {a} {b}\tla {b[::-1]} {a[::-1]}" for a in words for b in words]
    pairs.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return regard.train(
        "translate-transformer",
        data={"train": str(pairs), "valid": str(pairs), "test": str(pairs), "tokenizer": {"kind": "bpe", "size": 60}},
        model={"width": 16, "heads": 2, "feed_forward": 16, "encoder_layers": 3, "decoder_layers": 2},
        training={"max_steps": 2, "max_tokens": 200, "validate_every": 2},
        decoding={"max_length": 6, "beam": 3},
        output=folder / "run",
    )


def call(*words, code=0):
    """What is printed; of a call that fails with this exit code, what is told."""
    result = CliRunner().invoke(cli, ["look", *map(str, words)])
    told = result.exception if isinstance(result.exception, RegardError) else None  # `cli.main` prints it
    assert code == (2 if isinstance(told, CallError) else 1 if told else result.exit_code), result.output
    return str(told) if told else result.output if code else result.stdout


def test_the_terminal_shows_matrix_method_and_card(run):
    text = call(run.folder, TEXT, "--evidence")
    assert f"{TEXT} → {run.predict(TEXT).text}" in text.replace("\n", " ")
    assert "Method: raw" in text
    for figure in ("entropy (bits)", "mass on special tokens", "comprehensiveness", "sufficiency"):
        assert figure in text


def test_json_is_one_document_with_the_numbers_of_python(run):
    document = json.loads(call(run.folder, TEXT, "--json", "--words", "--method", "norm"))
    card = document.pop("card")
    expected = json.loads(json.dumps(as_dict(run.look(TEXT, method="norm").words())))
    assert document == expected
    assert {"name", "value", "uniform", "shuffled", "better", "about", "unit"} == set(card[0])
    shapes = [np.shape(one["weights"]) for one in document["attentions"]]
    assert shapes == [tuple(one["shape"]) for one in document["attentions"]]


@pytest.mark.parametrize(
    ("others", "wish", "appears", "vanishes"),
    [
        ("", "--kind encoder", "Attention of the encoder over the source", ""),
        ("--kind encoder", "--layer 2", "layer 2, mean of 2 heads", "in 3 layers. Method"),  # none in the decoder
        ("--kind encoder --layer 2", "--head 1", "layer 2, head 1", "mean of 2 heads"),
        ("--kind decoder", "--head max", "largest of 4 heads in 2 layers", "written, mean of 4"),
        ("--kind decoder --head max", "--log", "", "::"),  # the faintest shade
        ("", "--view grid", "every layer and head, with its entropy", "mean of 4 heads"),
        ("", "--view lines", "h ← the 0.", ""),
        ("--view lines", "--layer -1", "layer -1", "mean of 4 heads"),
        ("", "--view text", "h │ the[0.", ""),
        ("--view text", "--no-specials", "", "</s>[0."),
        ("--view text --target hhh", "--words", "hhh │ the[0.", ""),
        ("", "--view beams", "#3 score", ""),
        ("--view beams", "--n-best 2", "", "#3 score"),
        ("", "--method rollout", "Method: rollout", "Method: raw"),
        ("", "--target hhh", f"{TEXT} → hhh Attention", ""),
        ("--target hhh", "--gold 0-0", "alignment error", ""),
        ("", "--prefix la", f"{TEXT} → la", ""),
    ],
)
def test_every_wish_is_heard(run, others, wish, appears, vanishes):
    """What the output has with the option and not without it, and the other way round."""

    def shown(*options):
        return " ".join(call(run.folder, TEXT, *options).split())

    before, after = shown(*others.split()), shown(*others.split(), *wish.split())
    assert appears in after
    assert vanishes in before
    assert not appears or appears not in before
    assert not vanishes or vanishes not in after


def test_decoding_is_overridden_as_in_python(run):
    short = run.predict(TEXT, max_length=2).text
    assert short != run.predict(TEXT).text
    assert f"{TEXT} → {short} Attention" in " ".join(call(run.folder, TEXT, "decoding.max_length=2").split())


def test_files_records_and_comparisons(run, tmp_path):
    call(run.folder, TEXT, "-o", tmp_path / "seen.npz", "--method", "gradient")
    kept = look.load(tmp_path / "seen.npz")
    assert (kept.method, kept.input, kept.model) == ("gradient", TEXT, "run")
    assert "Method: gradient" in call(tmp_path / "seen.npz", "--layer", 1)
    text = call(run.folder, TEXT, "--against", tmp_path / "seen.npz")
    assert "first: run" in text
    assert "second: run" in text
    call(run.folder, TEXT, "-o", tmp_path / "both.html", "--against", run.folder)
    call(run.folder, TEXT, "-o", tmp_path / "x.svg", "--view", "lines")
    assert {file.name for file in tmp_path.iterdir()} == {"seen.npz", "both.html", "x.svg"}


def test_standard_input_is_looked_at_where_no_input_is_given(run):
    result = CliRunner().invoke(cli, ["look", str(run.folder), "--json"], input=f"{TEXT}\n")
    assert json.loads(result.stdout)["input"] == TEXT


def test_positions(run, tmp_path):
    classic = json.loads(call("positions", "--json"))
    assert np.shape(classic["table"]) == (50, 128)
    assert classic["table"][0][:4] == [0, 1, 0, 1]
    call("positions", "-o", tmp_path / "pe.png")
    assert (tmp_path / "pe.png").read_bytes().startswith(b"\x89PNG")
    assert "50 positions (down) × 16 dimensions" in call(run.folder, "--positions")
    assert ".png, .svg, .pdf or .html" in call("positions", "-o", tmp_path / "pe.npz", code=2)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([TEXT, "--method", "rolout"], "did you mean 'rollout'"),
        ([TEXT, "--head", "first"], "--head first is not a number, mean or max"),
        ([TEXT, "--head", "7", "--layer", "0"], "head=7 is not one of 0 to 1"),
        ([TEXT, "--layer", "9"], "layer=9 is not one of 0, 1 (cross)"),
        ([TEXT, "--gold", "0:1"], "'0:1' is not a link"),
        ([TEXT, "--target", "hhh", "--gold", "0-0 99-0"], "the gold link 99-0 points outside the pair"),
        ([TEXT, "--target", "hhh", "--gold", "0-0 0?7"], "the gold link 0-7 points outside the pair"),
        ([TEXT, "-o", "x.gif"], "must end with .png"),
        ([TEXT, "--kind", "corss"], "corss"),
        ([TEXT, "--view", "beams", "--n-best", "9"], "n_best=9 is more than beam=3"),
        (["one", "two"], "put a sentence in quotes"),
        ([""], "the input is empty: give a text or a file"),
    ],
)
def test_wrong_calls_are_named(run, options, told):
    assert told in call(run.folder, *options, code=2)


def test_a_record_has_its_input_already(run, tmp_path):
    run.look(TEXT).save(tmp_path / "seen.npz")
    assert "with its own input and method" in call(tmp_path / "seen.npz", "another", code=2)


def test_explanations_from_the_command_line_are_those_of_python(run, tmp_path):
    table = json.loads(call(run.folder, TEXT, "--explain", "logits", "--row", 0, "--target", "la der", "--json"))
    found = run.explain(TEXT, "logits", output="la der", row=0)
    assert table["title"] == found.title
    np.testing.assert_allclose(table["values"], found.values, rtol=1e-5)
    assert "Prediction of each layer" in call(run.folder, TEXT, "--explain", "lens")
    wish = (run.folder, TEXT, "--explain", "patching", "--against-input", "the blue house")
    call(*wish, "--by", "positions", "--kind", "decoder", "-o", tmp_path / "x.html")
    assert "Effect of the vector at each position (decoder)" in (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "layer 1" in call(*wish)
    swapped = (run.folder, TEXT, "--explain", "patching", "--exchange")
    assert call(*swapped, "red=blue") == call(*wish)
    assert "the word 're' is not in the input" in call(*swapped, "re=blue", code=2)
    assert "write OLD=NEW" in call(*swapped, "red", code=2)
    assert "give either --against-input or --exchange" in call(*wish, "--exchange", "red=blue", code=2)
    one = ("--layer", 1, "--head", 0, "--row", 0, "--by", "queries")
    scores = json.loads(call(run.folder, TEXT, "--explain", "scores", *one, "--json"))
    assert scores["rows"][-1] == "score"
    assert "scores does not support --words" in call(run.folder, TEXT, "--explain", "scores", "--words", code=2)
    profile = json.loads(call(run.folder, "2", "--profile", "--json"))
    assert profile["title"] == "Roles of the heads, over 2 inputs"
    assert profile["values"] == run.head_profile(2).values.tolist()
    assert "number of validation inputs" in call(run.folder, TEXT, "--profile", code=2)
    assert "does not support --view" in call(run.folder, TEXT, "--explain", "lens", "--view", "grid", code=2)
    assert "--exchange need --explain patching" in call(run.folder, TEXT, "--against-input", "x", code=2)
    assert "(--instead) needs one of gradient" in call(run.folder, TEXT, "--instead", "x", code=2)
    assert "or a prefix of it" in call(*wish, "--target", "la", "--prefix", "la", code=2)


def test_how_a_weight_came_about_from_the_command_line_is_what_python_says(run):
    found = run.weight(TEXT, 0, 1, kind="encoder", layer=1, head=0)
    wish = (run.folder, TEXT, "--kind", "encoder", "--weight")
    assert call(*wish, "1,0,0,1").strip() == str(found)
    told = json.loads(call(*wish, "1,0,0,1", "--json"))
    assert told["equation"] == found.equation
    assert sum(part["value"] for part in told["parts"]) == pytest.approx(found.score, abs=1e-4)
    assert [set(part) for part in told["parts"]] == [{"side", "kind", "name", "value"}] * len(found.parts)
    assert "an input of zeros" in call(*wish, "1,0,0,1", "--by", "tokens")
    assert "takes --by tokens" in call(*wish, "1,0,0,1", "--by", "heads", code=2)
    assert told["steps"] == [list(step) for step in found.steps()]
    assert json.loads(call(*wish, "0,1", "--json"))["weight"] == run.weight(TEXT, 0, 1, kind="encoder").weight
    assert "--weight does not support --view" in call(*wish, "1,0", "--view", "grid", code=2)
    assert "LAYER,HEAD,ROW,COLUMN" in call(*wish, "1;0", code=2)
    assert "column=99" in call(*wish, "0,0,0,99", code=2)
