"""Every form of export, asked wrongly: a clear sentence, and nothing half-written; asked rightly, the same report.

One run for all of them: Llama with adapters, and with rows of its token table that stand for nothing.
"""

import json
import resource
from contextlib import contextmanager

import pytest

import regard
from export_runs import adapted, without_shape_checks
from recipe_runs import small_corpora
from regard.cli import cli
from regard.commands.tools import import_model
from regard.errors import CallError, RegardError
from regard.exporters.base import FORMATS, ExportRequest, expressed_by, format_of

NAMES = [pytest.param(name, marks=[pytest.mark.slow] if name == "onnx" else []) for name in FORMATS]
FEW_BYTES = 20_000  # less than the weights of the run, and more than its settings


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    found = adapted("llama of blocks", tmp_path_factory.mktemp("runs"))
    rows = found.model.output.out_features
    assert rows > found.job.input.tokenizer.size  # the holes
    assert expressed_by(ExportRequest(found)) == list(FORMATS)
    return found


@contextmanager
def full_disk():
    """No file may become larger than this: a write in the middle of one fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FEW_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def export(run, to, out, *words):
    with small_corpora(), without_shape_checks():
        cli.main(["export", str(run), "--to", to, "-o", str(out), *map(str, words)], standalone_mode=False)


def nothing_in(folder):
    return not [path for path in folder.iterdir() if path.name.startswith("out")]


@pytest.mark.parametrize("to", NAMES)
def test_a_full_disk_leaves_nothing(to, run, tmp_path):
    missing(to, check=False)
    with full_disk(), pytest.raises(RegardError, match=r"out.*(File too large|27)"):
        export(run.folder, to, tmp_path / "out", "--no-check")
    assert nothing_in(tmp_path)


@pytest.mark.parametrize("to", FORMATS)
def test_bad_inputs_and_unfinished_runs_get_a_sentence(to, run, tmp_path):
    lines = tmp_path / "lines.txt"
    for content, said in (
        (None, r"lines\.txt"), (b"\xff\xfe\x00text", "UTF-8"), (b"\n  \n", "no input to check the export with; give")
    ):  # fmt: skip
        if content is not None:
            lines.write_bytes(content)
        with pytest.raises(RegardError, match=said):
            export(run.folder, to, tmp_path / "out", "--check-inputs", lines)
    with pytest.raises(CallError, match="remove one of them"):
        export(run.folder, to, tmp_path / "out", "--no-check", "--check-inputs", lines)
    state = run.folder / "state"
    state.mkdir()
    try:
        with pytest.raises(CallError, match="training has not finished; run the same `regard train` again"):
            export(run.folder, to, tmp_path / "out")
    finally:
        state.rmdir()
    assert nothing_in(tmp_path)


@pytest.mark.parametrize("to", NAMES)
def test_inputs_of_ones_own_and_the_report(to, run, tmp_path, capsys):
    missing(to, check=True)
    lines = tmp_path / "lines.txt"
    lines.write_text("The red house\n\nWe eat bread\n")
    export(run.folder, to, tmp_path / "out", "--check-inputs", lines, "--dtype", "float32", "--json")
    told = capsys.readouterr()
    assert ("index.html will have about" in told.err) == (to == "html")  # before it is written
    report = json.loads(told.out)
    assert (report["to"], report["dtype"], report["proof"]["inputs"]) == (to, "float32", 2)
    assert report["proof"]["largest_difference"] < 1e-4
    assert report["proof"]["equal_outputs"] == 1.0
    assert json.loads((tmp_path / "out" / "export.json").read_text())["check"] == report["proof"]
    if to == "onnx":  # torch writes its graphs in seconds, and not in an instant
        return
    export(run.folder, to, tmp_path / "out", "--no-check")
    assert "NOT CHECKED" in capsys.readouterr().out
    assert "**NOT CHECKED.**" in (tmp_path / "out" / "README.md").read_text()
    assert json.loads((tmp_path / "out" / "export.json").read_text())["check"] is None


def missing(to, check):
    try:
        format_of(to).require(check=check)
    except CallError as error:
        pytest.skip(str(error))


def test_an_imported_run_has_no_validation_part_in_any_form(run, tmp_path):
    with small_corpora():
        regard.export(run, to="hf", out=tmp_path / "hf", check=False)
    import_model(str(tmp_path / "hf"), tmp_path / "back")
    back = regard.load(tmp_path / "back")
    for to in expressed_by(ExportRequest(back)):
        with pytest.raises(CallError, match=r"give inputs with --check-inputs FILE, or export with --no-check"):
            regard.export(back, to=to, out=tmp_path / "out")
    assert nothing_in(tmp_path)
