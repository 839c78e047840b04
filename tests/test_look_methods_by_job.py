"""Every method of looking and every explanation, of a model of every job: one that holds, or a sentence that says why
not.

Which of the two is what docs/look.md promises. A word there that is not `yes` is what a model has to have.
"""

from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from explanations import CHECKS, NEEDS, OTHERS, WAYS, asked
from recipe_runs import Trained, recipes, trained
from regard import config
from regard.errors import CallError
from regard.layers import packed
from regard.look.methods import METHODS

pytestmark = pytest.mark.slow  # every recipe is trained for a few steps


def table(what: str, names: Collection[str]) -> dict[tuple[str, str], str]:
    """(method or explanation, job) → the word in docs/look.md."""
    text = (Path(__file__).parents[1] / "docs" / "look.md").read_text(encoding="utf-8")
    lines = [
        [cell.strip("` ") for cell in line.strip("| ").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    head = next(line for line in lines if line[0] == what)
    rows = [line for line in lines if line[0] in names and len(line) == len(head)]
    return {(row[0], job): word for row in rows for job, word in zip(head[1:], row[1:], strict=True)}


TABLE = table("method", METHODS)
WHY = table("explanation", (*WAYS, "--instead"))


def _transformer(made: Trained) -> bool:
    return made.run.recipe.model.kind.endswith(("transformer", "patch"))


def _self_attention(made: Trained) -> bool:
    model = made.run.recipe.model
    if made.run.recipe.job == "match":
        return bool(model.image.layers) or model.text.kind == "transformer"
    return model.kind in ("transformer", "vit") or model.self_attention


HAS: dict[str, Callable[[Trained], bool]] = {
    "yes": lambda made: True,
    "Transformer": _transformer,
    "self-attention": _self_attention,
    "ViT": lambda made: made.run.recipe.model.kind == "vit",
    "no recurrence": lambda made: not any(isinstance(one, nn.RNNBase) for one in made.run.model.modules()),
    "second text": lambda made: False,  # see the test below, which gives one
}


def column(name: str) -> str:
    recipe = config.read(OTHERS[name][0] if name in OTHERS else name)
    job, kind = recipe.job, getattr(recipe.data, "kind", "")
    return job if ("raw", job) in TABLE else f"{job} {kind}"


@pytest.fixture(autouse=True)
def _one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are packed at once, not after some uses: the last digits of a vector's text depend on the way."""
    monkeypatch.setattr(packed, "USES", 0)


def looked_at(made: Trained, method: str, **options: Any) -> None:
    """A record whose tables fit, and a model that looking did not change."""
    run = made.run
    before, weights = run.predict([made.input])[0], [one.clone() for one in run.model.state_dict().values()]
    record = run.look(made.input, method=method, **options)
    assert record.method.startswith(method)
    for one in record.attentions:
        assert one.weights.shape[1:] == (len(record.axes[one.rows]), len(record.axes[one.columns]))
        assert np.isfinite(one.weights).all()
        assert one.weights.min() >= 0
        turned = one.kind == "cross" and (run.recipe.job == "draw" or one.name == "to_question")
        assert one.weights.sum(-2 if turned else -1).max() < 1 + 1e-4
    assert any(one.weights.any() for one in record.attentions)
    assert np.isfinite(record.scores).all()
    assert not run.model.training
    assert all(map(torch.equal, run.model.state_dict().values(), weights))
    assert run.predict([made.input])[0].text == before.text
    if run.job.output.writes_text and not run.recipe.decoding.random:  # a look is at what is most probable
        assert record.output == before.text


@cache
def models() -> list[str]:
    """A recipe for every job and every kind of model that it has."""

    def kind(part: Any) -> Any:
        return getattr(part, "kind", None)

    found = {}
    for name in recipes():
        recipe = config.read(name)
        found[recipe.job, kind(recipe.data), kind(recipe.model), kind(getattr(recipe.model, "encoder", None))] = name
    return list(found.values())


def slow(name: str) -> bool:
    """A network of photos: what is the same for all pictures is asked of the small ones."""
    return name.startswith("photos-")


def test_every_method_and_every_job_are_in_the_table():
    assert {method for method, _ in TABLE} == set(METHODS)
    assert {column(name) for name in recipes()} == {job for _, job in TABLE} == {job for _, job in WHY}
    assert {way for way, _ in WHY} == {*WAYS, "--instead"}


@pytest.mark.parametrize(
    ("name", "method"),
    [(name, method) for name in models() for method in METHODS if not slow(name) or method == "input-gradient"],
)
def test_a_record_that_fits_or_a_sentence(name, method):
    made = trained(name)
    if HAS[TABLE[method, column(name)]](made):
        looked_at(made, method)
    else:
        with pytest.raises(CallError) as refused:
            made.run.look(made.input, method=method)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) > 40


@pytest.mark.parametrize("method", [method for (method, _), word in TABLE.items() if word == "second text"])
def test_with_a_second_text_it_works(method):
    looked_at(trained("encode-transformer"), method, output="Luis sells a chair.")


def _mean_of_rows(record, table):
    """Of self-attention, which is shown beside it."""
    own = [one.weights for one in record.attentions if one.kind == "encoder" and one.name == table.name]
    means = [one.mean(1, keepdims=True) for one in own]
    return any(one.shape == table.weights.shape and np.allclose(one, table.weights, atol=1e-6) for one in means)


@pytest.mark.parametrize("name", [name for name in models() if not slow(name)])
def test_every_weight_has_a_score_whose_softmax_it_is(name):
    run, one = trained(name).run, trained(name).input
    record = run.look(one)
    for table in record.attentions:
        head, row, column = (int(place) for place in np.unravel_index(table.weights.argmax(), table.weights.shape))
        which = {"kind": table.kind, "layer": table.layer, "head": head}
        if table.kind == "cross" and _mean_of_rows(record, table):
            with pytest.raises(CallError, match="the mean over all vectors"):
                run.weight(one, row, column, **which)
            continue
        found = run.weight(one, row, column, **which)
        whole = found.score + (found.bias or 0)
        assert sum(part.value for part in found.parts) == pytest.approx(whole, rel=1e-3, abs=1e-3)
        assert found.weight * (found.gate or 1) == pytest.approx(table.weights[head, row, column], abs=1e-6)
        after = np.exp(found.scores - found.scores.max())
        np.testing.assert_allclose(after / after.sum(), found.weights, atol=1e-5)
        own = found.score + (found.bias or 0)
        assert own == pytest.approx(found.scores[found.place], rel=1e-4, abs=1e-5)
        labels = record.axes[table.columns].labels, record.axes[table.rows].labels
        assert found.keys[found.place] in (labels[0][column], labels[1][row])


EXPLAINED = [*(name for name in models() if not slow(name)), *OTHERS]


@pytest.mark.parametrize(("name", "way"), [(name, way) for name in EXPLAINED for way in WAYS])
def test_an_explanation_that_holds_or_a_sentence(name, way):
    it = asked(name)
    works = NEEDS[WHY[way, column(name)]](it.made)
    if works:
        found = it.explain(way)
        assert np.isfinite(found.values).all()
        CHECKS[way](it, found)
    else:
        with pytest.raises(CallError) as refused:
            it.explain(way)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) > 40
    if way != "scores":  # which asks about one query: the page shows it where that is chosen
        assert (way.replace(" --by", "") in it.made.run.explanations) == works


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_contrast_is_what_speaks_for_one_word_less_what_speaks_for_the_other(name):
    """Of the first step, where the two outputs have the same before them."""
    it = asked(name)
    first = it.case.first
    if not NEEDS[WHY["--instead", column(name)]](it.made):
        with pytest.raises(CallError, match="this model does not predict tokens or classes; remove instead"):
            it.explain("inputs --by input-gradient", instead="red")
        return
    said, other = two_outputs(it.made)
    lead = it.explain("inputs --by input-gradient", output=said, instead=other.split()[0])
    apart = [it.explain("inputs --by input-gradient", output=one).values[first] for one in (said, other)]
    np.testing.assert_allclose(lead.values[first], apart[0] - apart[1], atol=1e-5)
    assert np.abs(lead.values[first]).max() > 1e-6
    patched = it.explain("patching --by positions", output=said, instead=other.split()[0], row=first)
    assert patched.values[-1, -1] == pytest.approx(1.0, abs=0.02)


def two_outputs(made: Trained) -> tuple[str, str]:
    """That a model could have written: two labels, a sentence of tags and another, two words."""
    output = made.run.job.output
    if made.run.recipe.job == "classify":
        return output.labels.names[0], output.labels.names[1]
    if made.run.recipe.job == "tag":
        tags = output.labels.names[:2]
        return tuple(" ".join([tag, *[tags[0]] * (len(made.input) - 1)]) for tag in tags)
    words = [output.tokenizer.decode([token]).strip() for token in range(4, 60)]
    known = [word for word in words if word and len(output.tokenizer.encode(word)) == 1]
    return known[0], known[1]
