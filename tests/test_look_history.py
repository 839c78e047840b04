"""Attention as training goes on: what is kept, that keeping it changes nothing, and what is drawn of it."""

import json
import math
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console
from safetensors.numpy import load_file

import regard
from regard import look
from regard.cli import cli
from regard.errors import CallError
from regard.look.card import entropy
from regard.look.history import FOLDER, keep, load_history, slim
from regard.look.methods.roles import above_chance
from regard.look.render import show_history, write_history
from regard.look.views import ShownView
from regard.metrics.alignment import Gold
from regard.runs import train as training_run
from test_translate import recipe

kept = training_run._keep_pictures


def pictures(folder):
    return json.loads((folder / "pictures.json").read_text())["pictures"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same training three times: watched, with the pictures of the report at every validation; stopped half-way and
    resumed while watched; and not watched."""
    folder = tmp_path_factory.mktemp("history")

    def train(name, steps, looks):
        how = recipe(folder, "transformer", max_steps=steps, validate_every=6, looks=looks)
        return regard.train(how, output=folder / name)

    with pytest.MonkeyPatch.context() as often:
        often.setattr(training_run, "PICTURE_SECONDS", 0.0)
        often.setattr(training_run, "PICTURE_SHARE", math.inf)
        written = []
        often.setattr(training_run, "_keep_pictures", lambda job, at: (kept(job, at), written.append(pictures(at))))
        whole = train("whole", 18, 2)
    assert len(written) == 4  # three validations, and the report
    assert len({json.dumps(one) for one in written}) > 1  # the model learns, and they show it
    assert all(picture["html"] for one in written for picture in one)
    train("parts", 9, 2)
    parts, alone = train("parts", 18, 2), train("alone", 18, 0)
    return whole, parts, alone


def test_watching_changes_nothing_and_survives_a_stop(runs):
    whole, parts, alone = runs
    weights = [load_file(run.folder / "model.safetensors") for run in runs]
    for name, tensor in weights[0].items():
        np.testing.assert_array_equal(tensor, weights[1][name])
        np.testing.assert_array_equal(tensor, weights[2][name])
    for number in (0, 1):
        one, other = whole.history_of_looks(number), parts.history_of_looks(number)
        assert one.steps == (6, 12, 18)
        assert set(one.steps) <= set(other.steps)  # a stop is a validation, too
        for step, record in zip(one.steps, one.records, strict=True):
            again = other.records[other.steps.index(step)]
            for mine, its in zip(record.attentions, again.attentions, strict=True):
                np.testing.assert_array_equal(mine.weights, its.weights)
    assert not alone.has_history_of_looks()
    with pytest.raises(CallError, match=r"training\.looks"):
        alone.history_of_looks()
    with pytest.raises(CallError, match="kept inputs: 0, 1"):
        whole.history_of_looks(7)


def test_the_last_record_is_what_the_model_does_now(runs):
    whole = runs[0]
    best = whole.summary()["best"]["step"]
    history = whole.history_of_looks()
    record = history.records[history.steps.index(best)]
    now = whole.look(record.input, output=record.output)
    for mine, its in zip(record.attentions, now.attentions, strict=True):
        np.testing.assert_allclose(mine.weights, its.weights, atol=1e-6)
    heads = {f"{one.kind}.{one.layer}.{head}" for one in record.attentions for head in range(len(one.weights))}
    assert set(record.positional) <= heads
    assert {head.split(".")[0] for head in record.positional} == {"cross", "encoder", "decoder"}
    assert len({round(share, 6) for share in record.positional.values()}) > 2
    roles = above_chance([record])
    assert all(roles[head]["positional"] == share for head, share in record.positional.items())


def made():
    tables = [np.random.default_rng(step).dirichlet(np.ones(5), (2, 3)) for step in range(9)]
    rows, columns = look.axis(["la", "casa", "roja"], words=[0, 1, 2]), look.axis(list("abcde"), words=range(5))
    records = [look.record(table, rows, columns, input="the input", output="la casa roja") for table in tables]
    gold = Gold(frozenset({(0, 0), (1, 1), (2, 2)}))
    return look.History(tuple(range(10, 100, 10)), tuple(replace(one, gold=gold) for one in records)), tables


def test_figures_by_step():
    history, tables = made()
    figures = history.figures(head=1)
    assert figures["entropy (bits)"] == pytest.approx([entropy(table[1]) for table in tables], abs=1e-6)
    assert len(figures["alignment error"]) == 9
    assert history.sample_examples(3) == [0, 4, 8]
    assert history.sample_examples(20) == list(range(9))


def test_records_are_kept_small(tmp_path, monkeypatch):
    history, tables = made()
    keep(history.last, tmp_path, 0, 40)
    keep(history.last, tmp_path, 0, 120)
    assert load_history(tmp_path).steps == (40, 120)
    (tmp_path / FOLDER / "0" / "00000200.npz.part").write_bytes(b"half")  # killed while writing
    assert load_history(tmp_path).steps == (40, 120)
    monkeypatch.setattr("regard.look.history.MOST_NUMBERS", 20)
    small = slim(history.last)
    np.testing.assert_allclose(small.matrix().weights, tables[-1].mean(0), atol=1e-6)
    assert small.attentions[0].weights.shape == (1, 3, 5)


def test_in_the_terminal_and_as_pictures(tmp_path):
    history, _ = made()
    out = StringIO()
    console = Console(file=out, width=120, no_color=True)
    console.print(show_history(history, ShownView(history.last, head=1), console))
    text = out.getvalue()
    assert "step 90" in text
    assert f"{history.figures(head=1)['alignment error'][-1]:.3f}" in text
    for name in ("x.png", "x.svg", "x.html", "x.npz"):
        assert write_history(history, ShownView(history.last), tmp_path / name).stat().st_size > 500
    with pytest.raises(CallError, match="must end with"):
        write_history(history, ShownView(history.last), tmp_path / "x.gif")


def test_from_the_command_line(runs):
    def call(*words):
        return CliRunner().invoke(cli, ["look", str(runs[0].folder), "--training", *words])

    told = json.loads(call("1", "--json", "--layer", "1", "--head", "0").stdout)
    assert told["steps"] == [6, 12, 18]
    figures = runs[0].history_of_looks(1).figures(layer=1, head=0)
    assert told["entropy (bits)"] == pytest.approx(figures["entropy (bits)"])
    assert "step 18" in call().stdout
    assert isinstance(call("a sentence").exception, CallError)
