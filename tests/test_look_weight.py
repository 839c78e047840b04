"""How a weight came about: parts that add up to it, for every score, position and way through a model."""

import math
import re

import numpy as np
import pytest
import torch

from regard import catalog
from regard.errors import CallError
from regard.look.explain import ExplainOptions
from regard.settings.model import RecurrentSettings
from regard.tasks.result import LookOptions
from test_explain import SAID, TEXT, made
from translate_example import translator

RECURRENT = {"kind": "recurrent", "width": 24, "embedding": 12, "dropout": 0.0}


def weight(job, row, column, **which):
    return job.weight(TEXT, LookOptions(output=SAID), row, column, **which)


def recurrent(**settings):
    torch.manual_seed(5)
    return translator(RecurrentSettings(**(RECURRENT | settings)), "word")


def computed(text):
    """What an equation with its numbers comes to."""
    text = (
        re.sub(r" of \d+ other terms", "", text)
        .replace("·", "*")
        .replace("√", "math.sqrt(")
        .replace("tanh", "math.tanh")
    )
    return eval(re.sub(r"(math\.sqrt\(\d+)", r"\1)", text), {"math": math})  # the numbers are ours


JOBS = {
    **{f"recurrent {name}": (recurrent, {"score": name}) for name in catalog.SCORES},
    **{f"transformer {name}": (made, {"score": name}) for name in catalog.SCORES},
    "gate": (recurrent, {"gate": True}),
    "step by step": (recurrent, {"query": "current", "input_feeding": True}),
    **{name: (made, {"positions": name}) for name in ("rotary", "alibi", "relative")},
    "shared keys": (made, {"kv_heads": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_parts_add_up_to_the_weight_that_is_shown(name):
    make, settings = JOBS[name]
    job = make(**settings)
    record = job.look(TEXT, LookOptions(output=SAID))
    for one in record.attentions[:1] + record.attentions[1:][-1:]:  # over the source, and over itself
        heads, rows, columns = one.weights.shape
        row, column = rows - 1, columns // 2
        shares = 0.0
        for head in range(heads):
            found = weight(job, row, column, kind=one.kind, layer=one.layer, head=head, parts=head == heads - 1)
            assert one.weights[head, row, column] == pytest.approx(found.weight * (found.gate or 1.0), abs=1e-6)
            own = found.score + (found.bias or 0.0)
            assert own == pytest.approx(found.scores[found.place], rel=1e-4, abs=1e-4)
            after = np.exp(found.scores - found.scores.max())
            np.testing.assert_allclose(after / after.sum(), found.weights, atol=1e-5)
            *numbers, result = found.equation.split(" = ")[2:]
            assert float(result) == pytest.approx(found.score, rel=1e-3)
            for part in numbers:
                assert computed(part) == pytest.approx(found.score, rel=0.02, abs=0.02)
            told = dict(found.steps())["softmax"].split(" = ")[-1]
            assert float(told) == pytest.approx(found.weight, rel=0.1, abs=5.1e-5)
            assert float(told) or not found.weight  # what is no zero does not look like one
            which = {"kind": one.kind, "layer": one.layer, "head": head, "parts": False}
            shares += sum(weight(job, row, j, **which).share for j in range(columns))
        assert shares == pytest.approx(1, abs=1e-4)
        assert sum(part.value for part in found.parts) == pytest.approx(own, rel=1e-4, abs=1e-4)
        kinds = {part.kind for part in found.parts}
        if make is made:
            assert kinds >= ({"token", "bias", "head", "feed-forward"} if one.layer else {"token", "bias"})
            assert ("position" in kinds) == (name not in ("rotary", "alibi", "relative"))
            assert ("distance" in kinds) == (one.kind != "cross" and name in ("alibi", "relative"))
        else:
            assert kinds == {"state", "bias"}
    assert ("position" in dict(found.steps())) == (name in ("alibi", "relative"))
    assert (found.gate is not None) == (name == "gate")


@pytest.mark.parametrize("name", JOBS)
def test_what_is_called_a_bias_is_one(name):
    """Without any bias in the model, token, position, heads, layers and states make up all of a score."""
    make, settings = JOBS[name]
    job = make(**settings)
    with torch.no_grad():
        for own, one in job.model.named_parameters():
            if own.rpartition(".")[2].startswith("bias") and not own.endswith("relative.bias"):
                one.zero_()
    found = weight(job, 2, 1, kind="cross", layer=1 if make is made else 0, head=0)
    size = sum(abs(part.value) for part in found.parts)
    assert all(abs(part.value) < 1e-4 * size for part in found.parts if part.kind == "bias")
    assert size > 1e-3


@pytest.mark.parametrize("settings", [{}, {"norm_first": False, "kv_heads": 2}, {"positions": "rotary"}])
def test_parts_of_a_key_are_those_that_explain_shows_of_all_keys(settings):
    """`--explain scores` leaves the query whole, so that its numbers are twice those of one side."""
    job = made(**settings)
    table = job.explain(TEXT, "scores", LookOptions(output=SAID), ExplainOptions(row=2, layer=1, head=3))
    found = weight(job, 2, 1, kind="decoder", layer=1, head=3)
    for kind, rows in (
        ("head", ("decoder.0", "cross.0")),
        ("token", ("token",)),
        ("feed-forward", ("feed-forward.0",)),
    ):
        own = sum(part.value for part in found.parts if (part.side, part.kind) == ("key", kind))
        assert 2 * own == pytest.approx(sum(table.values[table.rows.index(row), 1] for row in rows), abs=1e-4)


@pytest.mark.parametrize("make", [made, recurrent])
def test_a_score_by_parts_of_the_input(make):
    """By hand: an input of zeros is what is left without them."""
    job = make(score="additive")
    found = weight(job, 1, 0, kind="cross", layer=0, head=0, parts=False, tokens=True)
    assert [part.name for part in found.tokens] == ["one", "red", "cat", "the rest", "an input of zeros"]
    assert sum(part.value for part in found.tokens) == pytest.approx(found.score, abs=1e-5)
    hook = job.model.encoder.embedding.table.register_forward_hook(lambda module, args, y: torch.zeros_like(y))
    nothing = weight(job, 1, 0, kind="cross", layer=0, head=0, parts=False).score
    hook.remove()
    assert found.tokens[-1].value == pytest.approx(nothing, abs=0.05 * abs(found.score - nothing) + 1e-3)
    assert abs(found.tokens[0].value) > 1e-4


def test_what_a_weight_adds_is_part_of_what_the_attention_gives():
    job = made()
    attention, calls = job.model.decoder.layers[1].cross, []
    hook = attention.register_forward_hook(lambda *call: calls.append(call[1:]), with_kwargs=True)
    found = weight(job, 1, 2, kind="cross", layer=1, head=3)
    hook.remove()
    inputs, named, output = calls[-1]
    memory = named["memory"] if "memory" in named else inputs[1]
    with torch.no_grad():
        value = attention.project_memory(memory).value[0, 3, 2]
        added = found.weight * value @ attention.out.weight.T.unflatten(0, (4, -1))[3]
        whole = output[0, 1] - attention.out.bias
    assert found.value_length == pytest.approx(value.norm().item(), rel=1e-4)
    assert found.added_length == pytest.approx(added.norm().item(), rel=1e-4)
    assert found.share == pytest.approx((added @ whole / (whole @ whole)).item(), rel=1e-3)


def test_masks_heads_left_out_and_cells_that_are_not_there():
    job = made()
    hidden = weight(job, 0, 2, kind="decoder", layer=0, head=0)
    assert hidden.weight == 0
    assert hidden.as_dict()["scores"][2] is None
    assert "mask hides" in str(hidden)
    strongest = weight(job, 1, 1)
    tables = np.stack([one.weights for one in job.look(TEXT, LookOptions(output=SAID)).of_kind("cross")])
    layer, head = np.unravel_index(tables[:, :, 1, 1].argmax(), tables.shape[:2])
    assert (strongest.layer, strongest.head, strongest.kind) == (layer, head, "cross")
    for which, said in (
        ({"row": 99}, "row=99 is not one of 0 to"), ({"column": -50}, "column=-50"),
        ({"layer": 7}, "layer=7 is not one"), ({"head": 1}, "head=1 needs a layer"),
        ({"layer": 0, "head": 4}, "head=4"), ({"kind": "gate"}, "kind='gate'"),
    ):  # fmt: skip
        with pytest.raises(CallError, match=said):
            weight(job, **({"row": 0, "column": 0} | which))
