"""A job of one's own is three small things: an input, an output and a row of the table. All else is there for it."""

from typing import Literal

import numpy as np
import pytest
import yaml

import regard
from regard import config
from regard.errors import CallError, RegardError
from regard.jobs import JOBS, JobRow
from regard.settings.base import Settings
from regard.settings.recipe import Recipe


class LampsData(Settings):
    train: str
    valid: str
    test: str


class LampsModel(Settings):
    width: int = 8


class LampsRecipe(Recipe):
    """Are most of the lamps on?"""

    job: Literal["lamps"] = "lamps"
    data: LampsData
    model: LampsModel = LampsModel()


def write_lamps(file, count, seed):
    chance = np.random.default_rng(seed)
    rows = [chance.integers(0, 2, 2 * chance.integers(1, 5) + 1) for _ in range(count)]  # odd: there is no tie
    file.write_text("".join(f"{''.join(map(str, row))}\t{'yes' if row.mean() > 0.5 else 'no'}\n" for row in rows))
    return str(file)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lamps")
    sizes = {"train": 300, "valid": 40, "test": 40}
    tree = {
        "job": "lamps",
        "data": {role: write_lamps(folder / role, size, seed) for seed, (role, size) in enumerate(sizes.items())},
        "training": {"max_tokens": 200, "max_steps": 120, "max_epochs": None, "learning_rate": 0.05, "warmup": 5},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            JOBS, "lamps", JobRow(f"{__name__}:LampsRecipe", "own_input:LampsInput", "own_output:YesNoOutput")
        )
        yield folder / "recipe.yaml"


@pytest.fixture(scope="module")
def run(recipe, tmp_path_factory):
    return regard.train(recipe, output=tmp_path_factory.mktemp("runs") / "lamps")


def test_it_is_checked_and_costed(recipe):
    report = regard.check(recipe)
    assert {role: split.pairs for role, split in report.splits.items()} == {"train": 300, "valid": 40, "test": 40}
    assert report.splits["train"].source.lengths[100] == 9
    assert report.splits["train"].target.lengths[100] == 1
    assert report.estimates["parameters"] == str(3 * 8 + (8 + 8 * 8 + 8 * 8 + 8) + 9)
    assert int(report.estimates["steps in an epoch"]) > 5


def test_mistakes_in_its_recipe_are_told(recipe):
    with pytest.raises(CallError, match=r"model\.widht: unknown key; did you mean 'width'"):
        config.read(recipe, ["model.widht=3"])
    with pytest.raises(CallError, match=r"model\.wide: unknown key; choose from width"):
        config.read(recipe, ["model.wide=3"])


def test_it_learns_and_is_loaded_again(run):
    assert run.evaluate().values["accuracy"] > 90
    again = regard.load(run.folder)
    assert [one.text for one in again.predict(["111", "00100", "0"])] == ["yes", "no", "no"]
    with pytest.raises(CallError, match="'1a' is no row of lamps"):
        again.predict("1a")
    assert again.summary()["best"]["scores"]["accuracy"] > 90


def test_it_goes_on_where_it_stopped(recipe, run, tmp_path):
    regard.train(recipe, output=tmp_path / "parts", training={"max_steps": 17})
    parts = regard.train(recipe, output=tmp_path / "parts")
    whole, found = run.model.state_dict(), parts.model.state_dict()
    assert all(whole[name].equal(found[name]) for name in whole)


def test_other_data_under_the_old_name_is_refused(recipe, tmp_path):
    data = {role: write_lamps(tmp_path / role, 50, seed=9) for role in ("train", "valid", "test")}
    regard.train(recipe, output=tmp_path / "run", data=data, training={"max_steps": 1})
    write_lamps(tmp_path / "train", 50, seed=10)
    with pytest.raises(RegardError, match="training data"):
        regard.train(recipe, output=tmp_path / "run", data=data, training={"max_steps": 2})


@pytest.mark.parametrize("method", ["raw", "norm", "gradient", "input-gradient", "leave-one-out"])
def test_it_is_looked_at(run, method):
    record = run.look("11010", method=method)
    table = record.matrix()
    assert table.rows.labels == ["yes"]
    assert table.columns.labels == [f"lamp {number}" for number in range(1, 6)]
    assert table.weights.sum() == pytest.approx(1, abs=1e-5)
    on, off = table.weights[0, [0, 1, 3]], table.weights[0, [2, 4]]
    if method == "leave-one-out":  # what speaks for yes: the lamps that are on, and no other
        assert on.min() > 0.3
        assert not off.any()


def test_a_given_output_is_looked_at(run):
    assert run.look("11010", output="no").output == "no"
    assert run.look("11010", output="no").scores[0] < run.look("11010").scores[0]
    with pytest.raises(CallError, match="this model says no or yes"):
        run.look("11010", output="perhaps")


def test_what_it_does_not_do_is_said_in_a_sentence(run):
    with pytest.raises(CallError, match="multiplies attention over layers"):
        run.look("11010", method="rollout")
    with pytest.raises(CallError, match="cannot be scored"):
        run.score(["1"], ["yes"])
    with pytest.raises(CallError, match="has no output that can be streamed"):
        run.stream("1", lambda token, text: None)


def test_it_is_served(run):
    pytest.importorskip("httpx", reason="tests of the service need httpx")
    testing = pytest.importorskip("fastapi.testclient", reason="the service needs the web extra")
    from regard.serve.app import create_app

    with testing.TestClient(create_app({"mine": run}), base_url="http://127.0.0.1") as client:
        (about,) = client.get("/api/models").json()["models"]
        assert (about["job"], about["takes"], about["parameters"]) == ("lamps", ["text"], 177)
        told = client.post("/api/predict", json={"inputs": ["111", "000"]}).json()["predictions"]
        assert [one["text"] for one in told] == ["yes", "no"]
        looked = client.post("/api/look", json={"text": "110", "method": "leave-one-out"}).json()
        assert looked["output"] == "yes"
        wrong = client.post("/api/predict", json={"inputs": ["on"]})
        assert wrong.status_code == 422
        assert "no row of lamps" in wrong.json()["error"]
