"""A masked head adds nothing, in every way through the model; the same by name, from Python and the command line."""

import copy
import threading

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import regard
from regard.attention import Attention, HeadMask, MultiHead, ScaledDot, Trace
from regard.cli import cli
from regard.errors import CallError
from test_translate import recipe

TEXT = "one red cat"


def without_columns(layer: MultiHead, heads: list[int]) -> None:
    """The same by other means: what W_o makes of these heads is zero."""
    width = layer.out.in_features // layer.heads
    with torch.no_grad():
        for head in heads:
            layer.out.weight[:, head * width : (head + 1) * width] = 0


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_a_masked_head_is_a_head_without_output_matrix(kv_heads):
    torch.manual_seed(0)
    layer = MultiHead(20, 4, kv_heads=kv_heads).eval()
    x = torch.randn(3, 7, 20)
    cut = copy.deepcopy(layer)
    without_columns(cut, [1, 3])
    with torch.no_grad(), HeadMask({layer: [3, 1]}):
        fused = layer(x, causal=True)
        with Trace(layer) as seen:
            open_ = layer(x, causal=True)
        step, _ = layer.step(x[:, :1], None)
    with torch.no_grad():
        torch.testing.assert_close(fused, cut(x, causal=True))
        torch.testing.assert_close(open_, cut(x, causal=True))
        torch.testing.assert_close(step, cut(x[:, :1], causal=True))
        assert not torch.allclose(layer(x, causal=True), fused)  # and after it, all heads speak again
    weights = seen[seen.names[0]]
    assert weights[:, [1, 3]].abs().max() == 0
    torch.testing.assert_close(weights[:, [0, 2]].sum(-1), torch.ones(3, 2, 7))


def test_one_head_without_output_matrix():
    torch.manual_seed(0)
    layer = Attention(ScaledDot(), 5, 5, 3, 2)
    x = torch.randn(2, 4, 5)
    with HeadMask({layer: [0]}):
        assert layer(x, x).abs().max() == 0
    assert layer(x, x).abs().max() > 0


def test_other_threads_hear_all_heads():
    layer = MultiHead(6, 2)
    x = torch.randn(1, 3, 6)
    expected, heard = layer(x), []
    with HeadMask({layer: [0]}):
        thread = threading.Thread(target=lambda: heard.append(layer(x)))
        thread.start()
        thread.join()
        with HeadMask({layer: [1]}):  # both: nothing is left but the bias
            torch.testing.assert_close(layer(x), layer.out.bias.expand(1, 3, 6))
    torch.testing.assert_close(heard[0], expected)


def test_gradients_by_weights_are_public():
    layer = MultiHead(6, 2)
    x = torch.randn(1, 3, 6)
    with Trace(layer, gradients=True) as seen:
        total = layer(x).square().sum()
    (found,) = seen.gradients(total).values()
    assert found.shape == (1, 2, 3, 3)
    assert found.abs().max() > 0
    with Trace(layer) as blind:
        total = layer(x).sum()
    with pytest.raises(RuntimeError, match="gradients=True"):
        blind.gradients(total)
    with pytest.raises(ValueError, match="head 2 is not one of 0 to 1"):
        HeadMask({layer: [2]})


# --------------------------------------------------------------------------------------------------------- whole models
@pytest.fixture(scope="module", params=["transformer", "recurrent"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return regard.train(recipe(folder, request.param, max_steps=40, validate_every=40), output=folder / "run")


@pytest.mark.parametrize("beam", [1, 3])
def test_decoding_without_a_head_is_that_of_a_model_without_it(run, beam):
    """Also in the quick steps of a plain Transformer, which decode."""
    cut = copy.deepcopy(run.model)
    decoder = cut.decoder
    if hasattr(decoder, "layers"):
        names, quiet = ["cross.0.1", "decoder.1.0", "encoder.0.1"], [
            (decoder.layers[0].cross, 1), (decoder.layers[1].attention, 0), (cut.encoder.layers[0].attention, 1)
        ]  # fmt: skip
        for layer, head in quiet:
            without_columns(layer, [head])
        other = regard.api.Run(run.folder, run.recipe, run.job.bound(cut))
        texts = [TEXT, "blue dog three", "two"]
        found, expected = run.predict(texts, beam=beam, without=names), other.predict(texts, beam=beam)
        assert [one.text for one in found] == [one.text for one in expected]
        assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)
        seen = run.look(TEXT, beam=beam, without=names)
        assert seen.matrix("cross", 0, 1).weights.max() == 0
        np.testing.assert_allclose(
            seen.matrix("cross", 1, 1).weights, other.look(TEXT, beam=beam).matrix("cross", 1, 1).weights, atol=1e-5
        )
        assert seen.without == tuple(names)
    else:
        values = [run.predict(TEXT, beam=beam, without=without).score for without in ([], ["cross.0.0"])]
        assert values[0] != pytest.approx(values[1], abs=1e-6)
        assert run.look(TEXT, beam=beam, without=["cross.0.0"]).matrix().weights.max() == 0


def test_a_prefix_is_looked_at(run):
    seen = run.look(TEXT, prefix="azul")
    assert seen.output.startswith("azul")
    assert seen.output == run.predict(TEXT, prefix="azul").text
    with pytest.raises(CallError, match="not both"):
        run.look(TEXT, prefix="azul", output="azul perro")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("cross.9.0", "the attentions of this model are: "),
        ("cross.0.9", "the heads of cross.0 are 0 to "),
        ("kross.0.0", "write KIND.LAYER.HEAD"),
        ("cross.0", "write KIND.LAYER.HEAD"),
    ],
)
def test_heads_that_are_not_there_are_named(run, name, told):
    for ask in (run.predict, run.look):
        with pytest.raises(CallError, match=told):
            ask(TEXT, without=[name])


def test_from_the_command_line(run, tmp_path):
    def call(*words):
        result = CliRunner().invoke(cli, [*map(str, words)], catch_exceptions=False)
        assert result.exit_code == 0
        return result.stdout

    said = call("predict", run.folder, TEXT, "--without", "cross.0.0", "--scores")
    assert float(said.split("\t")[0]) == pytest.approx(run.predict(TEXT, without=["cross.0.0"]).score, abs=1e-4)
    assert "Masked: cross.0.0." in " ".join(call("look", run.folder, TEXT, "--without", "cross.0.0").split())
    both = call("look", run.folder, TEXT, "--without", "cross.0.0", "--against", run.folder)
    assert "difference: first minus second" in both
    assert "azul" in call("look", run.folder, TEXT, "--prefix", "azul")
