"""Looking at models of ours: the output stays, the weights are those of decoding, every method has its say."""

import numpy as np
import pytest
import torch

from look_methods import REFUSED, asked_of_the_model
from regard.attention import Trace
from regard.errors import CallError
from regard.look import attribution, case
from regard.look.methods import METHODS
from regard.metrics.alignment import Gold
from regard.settings.model import RecurrentSettings, TransformerSettings
from regard.tasks.base import OutputRef
from regard.tasks.result import LookOptions
from regard.work import on_step
from translate_example import translator

TEXT = "the red cat sees"
SETTINGS = {
    # Different depths on the two sides, and heads that share keys and values.
    "transformer": TransformerSettings(
        kind="transformer",
        width=24,
        heads=4,
        kv_heads=2,
        feed_forward=32,
        encoder_layers=3,
        decoder_layers=2,
        dropout=0.1,
    ),
    "previous": RecurrentSettings(kind="recurrent", width=20, embedding=12, score="additive", query="previous"),
    "current": RecurrentSettings(kind="recurrent", width=20, embedding=12, score="bilinear", query="current"),
    "no attention": RecurrentSettings(kind="recurrent", width=20, embedding=12, context="initial"),
}


def make_job(name, kind="bpe", **decoding):
    job = translator(SETTINGS[name], kind, **decoding)
    return job, job.model


@pytest.fixture(params=["transformer", "previous", "current"])
def attending(request):
    return make_job(request.param, beam=3, n_best=3, max_length=7)


def test_looking_changes_neither_output_nor_model(attending):
    job, model = attending
    before = [output.text for output in job.bound(model.eval()).predict([TEXT])[0].n_best]
    model.train()  # somebody looks between two steps of training: dropout has no part in it
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for method in METHODS:
        if method in REFUSED and "decoder.attention" in dict(model.named_modules()):
            with pytest.raises(CallError, match=REFUSED[method]):
                job.look(TEXT, LookOptions(method=method))
            continue
        seen = job.look(TEXT, LookOptions(method=method))
        assert [seen.output, *(beam.output for beam in seen.beams)] == before
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_weights_are_those_of_decoding_the_winner_step_by_step(attending):
    job, model = attending
    model.eval()
    seen = job.look(TEXT)
    winner = job.output.search(model, [job.input.read(TEXT)])[0][0].tokens
    state = model.start(model.encode(torch.tensor([[*job.input.tokenizer.encode(TEXT), 3]])))
    with Trace(model) as steps, torch.no_grad():
        for token in [2, *winner]:
            _, state = model.step(torch.tensor([token]), state)
    for attention in seen.attentions:
        if attention.kind != "encoder":
            np.testing.assert_allclose(attention.weights, steps[attention.name][0].numpy(), atol=1e-5)


def test_a_record_has_all_kinds_at_their_own_depths():
    job, _ = make_job("transformer", beam=1, max_length=7)
    seen = job.look(TEXT)
    depth = {kind: [one.layer for one in seen.of_kind(kind)] for kind in seen.kinds}
    assert depth == {"cross": [0, 1], "encoder": [0, 1, 2], "decoder": [0, 1]}
    for attention in seen.attentions:
        np.testing.assert_allclose(attention.weights.sum(-1), 1, rtol=1e-5)
    own = seen.of_kind("decoder")[0]
    assert np.triu(own.weights, 1).max() == 0  # the future is hidden
    assert seen.axes[own.columns].labels == ["<s>", *seen.axes["target"].labels[:-1]]
    assert [token.special for token in seen.axes["source"].tokens][-2:] == [False, True]
    assert len(seen.scores) == len(seen.axes["target"])


@pytest.mark.parametrize("kind", ["bpe", "byte", "character", "word", "unigram"])
def test_words_come_out_whole_with_every_tokenizer(kind):
    job, _ = make_job("previous", kind)
    seen = job.look(TEXT, LookOptions(output="two blue dogs")).words()
    assert seen.axes["source"].labels == [*TEXT.split(), "</s>"]
    assert seen.axes["target"].labels == ["two", "blue", "dogs", "</s>"]
    np.testing.assert_allclose(seen.matrix().weights.sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "raw"])
def test_every_method_has_rows_that_sum_to_one_or_to_nothing(method):
    job, _ = make_job("transformer")
    seen = job.look(TEXT, LookOptions(output="one red cat", method=method, evidence=True))
    assert seen.method == method
    for attention in seen.attentions:
        sums = attention.weights.sum(-1)
        if method == "rollout" and attention.kind != "encoder":
            assert (sums < 1).all()  # source and written tokens share it
        else:
            assert (np.isclose(sums, 1, atol=1e-5) | (sums == 0)).all()
    assert asked_of_the_model(seen, method) == {"comprehensiveness", "sufficiency"}


@pytest.mark.parametrize("name", ["transformer", "previous", "current"])
def test_gradients_by_weights_are_those_of_a_small_step(name):
    """The gradient of each step, against log p with one weight of the softmax's output moved by hand."""
    job, model = make_job(name)
    model = model.double().eval()
    ids, tokens = job.input.tokenizer.encode(TEXT), job.output.tokenizer.encode("one cat")
    case = job.output.case(model, TEXT, OutputRef(tokens, "one cat"))
    raw = {one.name: one for one in attribution.raw_tables(case)}
    layer = next(name for name, one in raw.items() if one.role.kind == "cross")
    found = attribution.weight_gradients(case, list(raw.values()))[layer]

    def log_p(move: float, head: int, step: int, key: int) -> float:
        from regard.attention import multihead
        from regard.attention.attend import attend
        from regard.decoders import recurrent as recurrent_context

        module = dict(model.named_modules())[layer]
        calls = [0]

        def moved(score, query, keys, value, *rest, **named):
            context, weights = attend(score, query, keys, value, *rest, **{**named, "need_weights": True})
            if score is getattr(module, "score", module):
                one_step = query.shape[-2] == 1
                if not one_step or calls[0] == step:
                    flat = context.flatten(1, -3) if context.dim() > 4 else context
                    vectors = value.expand(*context.shape[:-2], *value.shape[-2:])
                    vectors = vectors.flatten(1, -3) if context.dim() > 4 else vectors
                    if flat.dim() == 3:
                        flat[0, 0 if one_step else step] += move * vectors[0, key]
                    else:
                        flat[0, head, 0 if one_step else step] += move * vectors[0, head, key]
                    context = flat.view_as(context)
                calls[0] += 1
            return context, weights

        with pytest.MonkeyPatch.context() as patch, torch.no_grad(), Trace(model):
            patch.setattr(multihead, "attend", moved)
            patch.setattr(recurrent_context, "attend", moved)
            scores = model.score(torch.tensor([[*ids, 3]]), torch.tensor([[*tokens, 3]]))
        return float(scores[0, step])

    heads = len(raw[layer].weights)
    for head, step, key in [(0, 0, 1), (heads - 1, 1, 2), (heads // 2, len(tokens), 0)]:
        slope = (log_p(1e-3, head, step, key) - log_p(-1e-3, head, step, key)) / 2e-3
        assert found[head, step, key] == pytest.approx(slope, abs=5e-4)  # log p is float32


@pytest.mark.parametrize("method", ["gradient", "input-gradient"])
def test_gradients_in_groups_of_steps_are_the_same(method, monkeypatch):
    job, _ = make_job("transformer")
    options = LookOptions(output="two blue dogs", method=method)
    together = job.look(TEXT, options)
    monkeypatch.setattr(case, "rows_at_once", lambda vectors: 2)
    for one, other in zip(job.look(TEXT, options).attentions, together.attentions, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)


@pytest.mark.parametrize("kind", ["transformer", "previous"])
def test_a_step_is_asked_about_alone_as_among_all(kind):
    """Evidence asks about one step at a time, in the cheapest way, and hears what it would hear among all steps."""
    job, model = make_job(kind)
    model.eval()
    (told,) = job.output.tell(model, TEXT, LookOptions(output="two blue dogs sleep"))
    case = job.output.case(model, TEXT, told)
    without = [frozenset(), frozenset([1]), frozenset([0, 2]), frozenset([1]), frozenset([2])]
    steps = [4, 0, 3, 2, 1]
    with torch.no_grad():
        expected = case.ask(without)[torch.arange(5), torch.tensor(steps)]
        torch.testing.assert_close(case.ask_at(without, steps), expected, rtol=1e-4, atol=1e-5)


def test_evidence_of_a_long_output_asks_a_bounded_number_of_times():
    """In vectors that go through the model, and how many of them at once."""
    job, _ = make_job("transformer")
    text = " ".join(["one red cat sees"] * 25)
    spent = {False: [], True: []}
    for evidence, told in spent.items():
        with on_step(told.append):
            record = job.look(text, LookOptions(output=text, evidence=evidence))
    tokens = len(record.axes["source"]) + len(record.axes["target"])
    asked = sum(spent[True]) - sum(spent[False])
    assert 24 * tokens < asked <= (6 * 16 + 24 + 1) * tokens
    assert spent[True].count(0) > asked / 4096  # of so many at once


def test_norms_of_a_head_by_the_equation():
    job, model = make_job("transformer")
    model.eval()
    seen = job.look(TEXT, LookOptions(output="one red cat", method="norm"))
    raw = job.look(TEXT, LookOptions(output="one red cat")).of_kind("cross")[0]
    part = model.decoder.layers[0].cross
    with torch.no_grad():
        memory = model.encode(torch.tensor([[*job.input.tokenizer.encode(TEXT), 3]])).vectors[0]
        _, values = (memory @ part.project_kv.weight.T + part.project_kv.bias).split(part.sizes[1:], dim=-1)
        head, width = 3, 6  # head 3 has the second of the two sets of values
        brought = values[:, width : 2 * width] @ part.out.weight[:, head * width : (head + 1) * width].T
        expected = torch.tensor(raw.weights[head]) * brought.norm(dim=-1)
    np.testing.assert_allclose(
        seen.of_kind("cross")[0].weights[head], expected / expected.sum(-1, keepdim=True), rtol=1e-4
    )


def test_models_that_do_not_attend_are_told_so_and_can_still_be_asked():
    job, _ = make_job("no attention")
    with pytest.raises(CallError, match="has no attention"):
        job.look(TEXT)
    for method in ("input-gradient", "leave-one-out"):
        assert job.look(TEXT, LookOptions(method=method, output="one")).matrix().weights.shape[1] > 1


def test_wrong_wishes_are_named():
    job, _ = make_job("previous")
    with pytest.raises(CallError, match="needs a Transformer"):
        job.look(TEXT, LookOptions(method="rollout"))
    with pytest.raises(CallError, match="did you mean 'rollout'"):
        job.look(TEXT, LookOptions(method="rolout"))
    with pytest.raises(CallError, match="has no token"):
        job.look("")


def test_gold_reaches_the_card():
    from regard.look import card

    job, _ = make_job("transformer")
    seen = job.look(TEXT, LookOptions("one red cat", gold=Gold(frozenset({(0, 0), (1, 1)}))))
    assert "alignment error" in [figure.name for figure in card(seen.words().matrix(), seen)]
    assert "alignment error" not in [figure.name for figure in card(seen.matrix("decoder"), seen)]
