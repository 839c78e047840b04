"""ONNX: every job says the same in ONNX Runtime, with other numbers of rows and other lengths than were traced."""

import json

import numpy as np
import pytest
import torch

import regard
from export_runs import untrained, without_shape_checks
from light_runs import SERVED, example_inputs, held_equal
from recipe_runs import small_corpora
from regard.attention.attend import attend
from regard.catalog import SCORES, load_object
from regard.exporters import base
from regard.exporters.onnx.graph import OPSET, Flat, Graph, GraphSession
from regard.exporters.onnx.stand_in import stand_in
from regard.models.seq2seq import Seq2Seq

onnx = pytest.importorskip("onnx", reason="pip install 'regard[export]'")
pytest.importorskip("onnxscript", reason="pip install 'regard[export]'")

#: Runs of every job, and the graphs of each: what goes in, what comes out.
GRAPHS = {
    "recurrent": {"encoder": ["source"], "decoder": ["tokens"]},
    "pegasus": {"encoder": ["source"], "decoder": ["tokens"], "scorer": ["source", "target"]},
    "captioner": {"encoder": ["source"], "decoder": ["tokens"]},
    "asked": {"encoder": ["first", "second"], "decoder": ["tokens"]},
    "gpt2": {"decoder": ["tokens"]},
    "drawer": {"decoder": ["tokens"], "picture_decoder": ["codes", "drawn"], "picture_encoder": ["pixels"]},
    "two towers": {"image": ["source"], "text": ["source"]},
    "forecaster": {"model": ["past", "known"]},
    "recurrent forecaster": {"model": ["past", "known"]},
    "bert reader": {"model": ["question", "document"]},
    "recurrent reader": {"model": ["question", "document"]},
    "recognizer": {"encoder": ["values", "lengths"], "decoder": ["tokens"]},
    "recurrent classifier": {"model": ["source"]},
    "vit": {"model": ["source"]},
    "classified sound": {"model": ["values", "lengths"]},
    "classified series": {"model": ["values", "lengths"]},
    "esm tagger": {"model": ["tokens", "places"]},
    "esm encoder": {"model": ["source"]},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_every_job_says_the_same(name, tmp_path, monkeypatch):
    """Graphs are traced with two rows, and asked with one, two and three."""
    monkeypatch.setattr(base, "MOST", 6)
    run = untrained(name, tmp_path / "run")
    with small_corpora(), without_shape_checks():
        report = regard.export(run, to="onnx", out=tmp_path / "out", attention=True)
    assert report.proof is not None
    assert report.proof.inputs == 6
    assert report.proof.largest_difference < 1e-4
    assert report.proof.equal_outputs == 1.0
    about = json.loads((tmp_path / "out" / "graphs.json").read_text())
    assert {graph: list(told["inputs"])[: len(GRAPHS[name][graph])] for graph, told in about["graphs"].items()} == (
        GRAPHS[name]
    )
    assert any(one.startswith("attention") for told in about["graphs"].values() for one in told["outputs"])
    for graph in about["graphs"]:
        model = onnx.load(str(tmp_path / "out" / f"{graph}.onnx"))
        onnx.checker.check_model(model)
        assert next(one.version for one in model.opset_import if not one.domain) == OPSET == about["opset"]
    with small_corpora():
        inputs = example_inputs(run, tmp_path)
        held_equal(run, tmp_path / "out", inputs, serve=name in SERVED)
        if isinstance(run.model, Seq2Seq):  # what `int8` is measured by: the run's own search over the graphs
            items = [run.job.input.read(one) for one in inputs]
            asked = (run.model, stand_in(run.model, tmp_path / "out"))
            ours, theirs = (run.job.output.search(one, items, coverage_penalty=0.3, max_length=9) for one in asked)
            assert [found[0].tokens for found in ours] == [found[0].tokens for found in theirs]
            scores = ([found[0].score for found in some] for some in (ours, theirs))
            np.testing.assert_allclose(*scores, atol=2e-4)


def test_every_score_is_a_graph(tmp_path):
    """One graph of all of them, traced with 2 × 3 × 4, and asked with 5 × 7 × 6."""
    torch.manual_seed(3)
    scores = torch.nn.ModuleDict({name: load_object(path).for_widths(8, 8, 5) for name, path in SCORES.items()})

    def compute(given):
        query, key = given["query"], given["key"]
        return [attend(one, query, key, key, given["mask"], need_weights=True)[0] for one in scores.values()]

    def tensors(rows, queries, keys):
        mask = (torch.arange(keys) < torch.arange(1, rows + 1).unsqueeze(1)).unsqueeze(1)
        return {"query": torch.randn(rows, queries, 8), "key": torch.randn(rows, keys, 8), "mask": mask}

    sizes = {"query": {0: "batch", 1: "queries"}, "key": {0: "batch", 1: "keys"}, "mask": {0: "batch", 2: "keys"}}
    given = tensors(2, 3, 4)
    with without_shape_checks(), torch.no_grad():
        Graph("scores", Flat(scores, list(given), compute), given, sizes, list(scores)).write(tmp_path, "float32")
        asked = tensors(5, 7, 6)
        expected = dict(zip(scores, compute(asked), strict=True))
    found = GraphSession(tmp_path / "scores.onnx")(asked)
    assert found.keys() == expected.keys() == SCORES.keys()
    for name, context in expected.items():
        assert torch.allclose(found[name], context, atol=1e-6), name


@pytest.mark.slow
def test_8_bit_integers_tell_what_they_cost_on_the_test_part(tmp_path):
    """Of a classifier of two texts, which is asked without torch, too."""
    run = untrained("two texts", tmp_path / "run")
    with small_corpora(), without_shape_checks():
        report = regard.export(run, to="onnx", out=tmp_path / "out", dtype="int8")
        scores = run.evaluate().values
    assert report.quality is not None
    assert report.quality.run["loss"] == pytest.approx(scores["loss"])
    assert report.quality.export["loss"] != report.quality.run["loss"]
    assert report.quality.export["loss"] == pytest.approx(report.quality.run["loss"], rel=0.05)
    assert "float32 → int8: loss" in report.sentence()
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"| loss | {scores['loss']:.4g} | {report.quality.export['loss']:.4g} |" in card
    assert json.loads((tmp_path / "out" / "export.json").read_text())["quality"] == report.quality.as_dict()
    light, pair = regard.load(tmp_path / "out"), ("the queen sees a dog", "a dog is seen")
    long = (" ".join([pair[0]] * 90), pair[1])
    assert len(list(light.job.input.windows(long))) == len(list(run.job.input.windows(long))) > 1
    for one, other in zip(*(asked.predict([pair, pair[::-1], long], n_best=3) for asked in (run, light)), strict=True):
        assert one.input == other.input
        assert one.probabilities == pytest.approx(other.probabilities, abs=0.02)
    record, again = run.look(pair), light.look(pair)
    assert record.axes["source"] == again.axes["source"]
    np.testing.assert_allclose(record.attentions[0].weights, again.attentions[0].weights, atol=0.02)
