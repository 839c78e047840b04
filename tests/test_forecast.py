"""Series from series, from the user's table to predictions: on the command line and in Python, on real files."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import regard
from look_methods import asked_of_the_model
from regard import config
from regard.cli import cli
from regard.corpora.series import LAG, lag
from regard.errors import CallError, RegardError
from regard.look.methods import METHODS
from regard.tasks.values.output import ValuesOutput

MODELS = {
    "recurrent": {"kind": "recurrent", "width": 12, "dropout": 0.0},
    "previous": {"kind": "recurrent", "width": 12, "query": "previous", "score": "bilinear", "dropout": 0.0},
    "initial": {"kind": "recurrent", "width": 12, "context": "initial", "dropout": 0.0},
    "transformer": {
        "kind": "transformer", "width": 12, "heads": 3, "feed_forward": 20, "encoder_layers": 1, "decoder_layers": 1,
        "dropout": 0.0,
    },
    "patch": {"kind": "patch", "patch": 5, "stride": 3, "width": 12, "heads": 3, "feed_forward": 20, "layers": 1},
}  # fmt: skip


def waves(count=140, seed=0):
    """Two series with a period of 7 days, one above the other, and a little noise."""
    chance = np.random.default_rng(seed)
    steps = np.arange(count)
    days = np.datetime_as_string(np.datetime64("2024-01-01") + steps, unit="D")
    wave = np.sin(2 * np.pi * steps / 7)
    return {
        "date": days.tolist(),
        "north": (50 + 10 * wave + 0.1 * chance.standard_normal(count)).round(3).tolist(),
        "south": (-3 + wave + 0.01 * chance.standard_normal(count)).round(4).tolist(),
    }


def write_table(file, table):
    with file.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return file


def recipe(folder, model, *, data=None, **training):
    import yaml

    table = write_table(folder / "table.csv", waves())
    tree = {
        "job": "forecast",
        "data": {"train": str(table), "look_back": 13, "horizon": 4, **(data or {})},
        "model": model,
        "training": {
            "max_tokens": 17 * 16, "max_steps": 80, "max_epochs": None, "learning_rate": 1e-2, "warmup": 10,
            "schedule": "inverse_sqrt", "validate_every": 80, **training,
        },
    }  # fmt: skip
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(tree))
    return file


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A Transformer with quantiles; the other models are trained where they are asked for."""
    folder = tmp_path_factory.mktemp("forecast")
    model = MODELS["transformer"] | {"quantiles": [0.1, 0.5, 0.9]}
    return regard.train(recipe(folder, model, max_steps=100, validate_every=100), output=folder / "run")


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_a_wave(name, tmp_path):
    run = regard.train(recipe(tmp_path, MODELS[name]), output=tmp_path / "run")
    scores = run.evaluate().values
    assert isinstance(run.job.output, ValuesOutput)
    assert scores["mse"] < 0.3  # "as it was" is off by far more on a wave
    assert scores["mse"] < scores["mse_last"] / 4
    assert scores["mse_seasonal"] < 0.01
    assert scores["mse_linear"] < 0.01
    assert scores["windows"] == 28 - 4 + 1  # a fifth of 140 days; no window is dropped


def test_the_folder_holds_all_and_nothing_that_can_execute(run):
    names = {path.name for path in run.folder.iterdir()}
    assert {"config.yaml", "model.safetensors", "series.json", "baselines.safetensors", "report.html"} <= names
    endings = {path.suffix for path in run.folder.rglob("*") if path.is_file()}
    assert not endings & {".pt", ".pth", ".pkl", ".pickle", ".bin", ".py"}
    assert "data:image/svg+xml" in (run.folder / "report.html").read_text(encoding="utf-8")


def test_predict_gives_the_steps_after_the_table_in_its_own_units(run):
    table = waves()
    found = run.predict([table])[0]
    one = found.series[0]
    assert one.times == ["2024-05-20", "2024-05-21", "2024-05-22", "2024-05-23"]
    assert one.values.shape == (4, 2)
    steps = np.arange(140, 144)
    np.testing.assert_allclose(one.values[:, 0], 50 + 10 * np.sin(2 * np.pi * steps / 7), atol=6)
    np.testing.assert_allclose(one.values[:, 1], -3 + np.sin(2 * np.pi * steps / 7), atol=0.6)
    assert (np.diff(one.bands, axis=-1) >= 0).all()  # quantiles never cross
    np.testing.assert_array_equal(one.values, one.bands[..., 1])
    rows = list(csv.DictReader(io.StringIO(found.text)))
    assert ",".join(rows[0]) == ("date,north,north_0.1,north_0.5,north_0.9,south,south_0.1,south_0.5,south_0.9")
    assert float(rows[2]["south"]) == pytest.approx(one.values[2, 1], rel=1e-4)


def test_the_same_from_a_file_a_text_and_columns(run, tmp_path):
    table = waves()
    file = write_table(tmp_path / "again.csv", table)
    texts = [found.text for found in run.predict([file, file.read_text(), table])]
    assert texts[0] == texts[1] == texts[2]
    with pytest.raises(CallError, match=r"pathlib\.Path"):  # a name alone could come from a client of the service
        run.predict(["again.csv"])


def test_predict_from_an_earlier_time_shows_what_did_happen(run, tmp_path):
    found = run.predict([waves()], at="2024-04-30")[0]
    one = found.series[0]
    assert one.times[0] == "2024-05-01"
    np.testing.assert_allclose(one.actual[:, 0], waves()["north"][121:125], rtol=1e-5)
    for name in ("plot.png", "plot.svg"):
        assert found.save(tmp_path / name).stat().st_size > 5000
    with pytest.raises(CallError, match="the name of a picture must end with"):
        found.save(tmp_path / "plot.jpeg")
    with pytest.raises(CallError, match="look_back=13"):
        run.predict([waves()], at="2024-01-05")


def test_look_names_past_times_and_changes_nothing(run):
    before = run.predict([waves()])[0].text
    record = run.look(waves())
    assert record.kinds == ["cross", "encoder", "decoder"]
    matrix = record.matrix("cross")
    assert matrix.rows.labels == ["2024-05-20", "2024-05-21", "2024-05-22", "2024-05-23"]
    assert matrix.columns.labels[0] == "2024-05-07"
    assert matrix.columns.labels[-1] == "2024-05-19"
    np.testing.assert_allclose(matrix.weights.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(matrix.columns.signal, waves()["north"][-13:], rtol=1e-4)
    assert run.predict([waves()])[0].text == before


ROWS, PAST = [f"2024-05-{day}" for day in range(20, 24)], [f"2024-05-{day:02}" for day in range(7, 20)]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_looks_at_the_steps_of_the_past(run, method):
    record = run.look(waves(), method=method, target="south", evidence=True)
    matrix = record.matrix("cross")
    assert (matrix.rows.labels, matrix.columns.labels) == (ROWS, PAST)
    assert matrix.columns.unit == "days from 2024-05-07"
    assert matrix.columns.edges.tolist() == list(range(14))
    np.testing.assert_allclose(matrix.columns.signal, waves()["south"][-13:], rtol=1e-4)
    assert matrix.weights.min() >= 0
    if method != "rollout":  # half of what arrives there was always the decoder's own
        np.testing.assert_allclose(matrix.weights.sum(-1), 1, atol=1e-5)
    said = run.predict([waves()])[0].series[0].values[:, 1]
    np.testing.assert_allclose(record.scores, said, rtol=1e-4)
    assert record.input == "2024-05-07 to 2024-05-19"
    assert record.output.startswith(f"south, 2024-05-20 to 2024-05-23: {said[0]:.4g}, {said[1]:.4g}, ")
    assert asked_of_the_model(record, method) == {"comprehensiveness", "sufficiency"}


def test_leaving_a_step_out_is_what_it_says(run):
    """By hand: that day of the table is told to be what the window is on average, and the forecast moves so much."""
    table, weights = waves(), run.look(waves(), method="leave-one-out").matrix().weights
    whole = run.predict([table])[0].series[0].values[:, 0]
    moved = []
    for place in range(13):
        other = {name: list(column) for name, column in table.items()}
        for name in ("north", "south"):
            other[name][127 + place] = float(np.mean(table[name][127:]))
        moved.append(np.abs(run.predict([other])[0].series[0].values[:, 0] - whole))
    expected = np.stack(moved, axis=1)
    np.testing.assert_allclose(weights, expected / expected.sum(1, keepdims=True), atol=2e-3)


def test_without_a_head_it_says_something_else(run):
    silent = run.look(waves(), without=["cross.0.1"])
    assert silent.without == ("cross.0.1",)
    assert silent.scores != run.look(waves()).scores
    assert run.predict([waves()], without=["cross.0.1"])[0].text != run.predict([waves()])[0].text


def test_what_has_no_meaning_is_refused_in_a_sentence(run):
    with pytest.raises(CallError, match="look cannot explain given numbers"):
        run.look(waves(), output="1, 2, 3, 4")
    with pytest.raises(CallError, match="does not support a prefix; remove it"):
        run.look(waves(), prefix="1")
    with pytest.raises(CallError, match="does not support a prefix"):
        run.predict([waves()], prefix="1")
    with pytest.raises(CallError, match="has no attention to compare with gold alignments"):
        run.evaluate(alignments=True)
    with pytest.raises(CallError, match="scored against the actual values"):
        run.score([waves()], ["1"])


def test_patches_can_be_looked_at(tmp_path):
    """Of the target that is asked for, by every method that has a meaning for them."""
    run = regard.train(recipe(tmp_path, MODELS["patch"], max_steps=20, validate_every=20), output=tmp_path / "run")
    matrix = run.look(waves(), target="south").matrix()
    assert matrix.weights.shape == (4, 4)  # (13 − 5) // 3 + 2 patches
    assert matrix.columns.labels == ["2024-05-07", "2024-05-10", "2024-05-13", "2024-05-16"]
    assert matrix.columns.edges.tolist() == [0, 3, 6, 9, 13]
    for method in METHODS:
        alone = {name: column for name, column in waves().items() if name != "south"} | {"south": [1, 2] * 70}
        looks = [run.look(table, method=method, target="north").matrix() for table in (waves(), alone)]
        np.testing.assert_allclose(looks[0].weights, looks[1].weights, atol=1e-5)  # its row, and no other target's
        assert looks[0].columns.labels == matrix.columns.labels
        np.testing.assert_allclose(looks[0].weights.sum(-1), 1, atol=1e-5)
    with pytest.raises(CallError, match=r"decoding\.target='west'.*north"):
        run.look(waves(), target="west")


def test_a_model_without_attention_says_so(tmp_path):
    run = regard.train(recipe(tmp_path, MODELS["initial"], max_steps=2, validate_every=2), output=tmp_path / "run")
    with pytest.raises(CallError, match="no attention"):
        run.look(waves())
    for method in ("input-gradient", "leave-one-out"):  # these ask any model
        assert run.look(waves(), method=method).matrix().weights.shape == (4, 13)


@pytest.mark.slow
def test_attention_finds_the_planted_lag(tmp_path):
    """Nothing but the driver's step `LAG` ago says anything about the follower."""
    overrides = {"training": {"max_epochs": 7}}
    run = regard.train("lag", output=tmp_path / "run", **overrides)
    scores = run.evaluate().values
    assert scores["lag_planted"] == LAG
    assert scores["lag_attended"] == LAG
    assert scores["lag_found"] > 0.95
    assert scores["mse"] < 0.1 < 0.5 < scores["mse_mean"]


def test_convert_needs_no_target_and_covers_the_table(tmp_path):
    changes = {"model": {"decoder_layers": 1, "width": 8, "heads": 2}, "training": {"max_steps": 3}}
    run = regard.train("lag", output=tmp_path / "run", **changes)
    table = {name: column[:100] for name, column in lag().items() if name != "follower"}
    one = run.predict([table])[0].series[0]
    assert one.times == [str(step) for step in range(24, 100)]  # from where a look-back of 48 says
    assert one.values.shape == (76, 1)
    assert np.isfinite(one.values).all()


def test_several_series_past_and_future_columns(tmp_path):
    """One line a day and shop; `sale` is known ahead and doubles what is sold."""
    chance = np.random.default_rng(3)
    rows = []
    for shop, level in (("a", 10.0), ("b", 300.0)):
        sale = chance.integers(0, 2, 90)
        sold = level * (1 + sale) + 0.01 * level * chance.standard_normal(90)
        days = np.datetime64("2024-03-01") + np.arange(90)
        rows += [(str(day), shop, f"{s:.3f}", int(f)) for day, s, f in zip(days, sold, sale, strict=True)]
    table = {
        name: list(column)
        for name, column in zip(("day", "shop", "sold", "sale"), zip(*rows, strict=True), strict=True)
    }
    file = write_table(tmp_path / "shops.csv", table)
    data = {
        "train": str(file), "time": "day", "id": "shop", "targets": "sold", "future": "sale", "calendar": "weekday",
        "look_back": 10, "horizon": 3,
    }  # fmt: skip
    training = {"max_tokens": 13 * 32, "max_steps": 150, "validate_every": 150}
    run = regard.train(recipe(tmp_path, MODELS["transformer"], data=data, **training), output=tmp_path / "run")
    assert run.evaluate().values["mse"] < run.evaluate().values["mse_last"] / 3
    with pytest.raises(CallError, match="sale must be known 3 steps ahead: add 3 lines"):
        run.predict([file])
    for shop in ("a", "b"):
        for day, sale in (("2024-05-30", 1), ("2024-05-31", 0), ("2024-06-01", 1)):
            for name, cell in zip(table, (day, shop, "", sale), strict=True):
                table[name].append(cell)
    found = run.predict([table])[0]
    assert [one.name for one in found.series] == ["a", "b"]
    a, b = found["a"].values[:, 0], found["b"].values[:, 0]
    assert a[0] > 1.4 * a[1]  # sale, no sale, sale
    assert b[2] > 1.4 * b[1]
    assert 5 < a.min() < a.max() < 40
    assert b.min() > 150
    assert found.text.splitlines()[0] == "shop,day,sold"
    only = run.predict([table], series="b")[0]
    assert [one.name for one in only.series] == ["b"]
    with pytest.raises(CallError, match=r"decoding\.series='c' is not in"):
        run.predict([table], series="c")


def test_wrong_combinations_are_named():
    def read(*overrides):
        return config.read("stocks-forecast", ["data.train=x.csv", *overrides])

    with pytest.raises(CallError, match="reads each target separately"):
        read("model={kind: patch}", "data.past=a")
    with pytest.raises(CallError, match=r"model\.quantiles=.*0\.5 must be among them"):
        read("model.quantiles=[0.1,0.9]")
    with pytest.raises(CallError, match="needs the targets' past"):
        read("data.mode=convert", "data.targets=a", "data.past=b")
    with pytest.raises(CallError, match="a column has one role"):
        read("data.targets=a,b", "data.past=b")
    with pytest.raises(CallError, match=r"data\.split=.*three shares"):
        read("data.split=[0.7,0.3,0.2]")
    assert read("data.targets=a,b", "data.split=[70,10,20]").data.targets == ["a", "b"]


def test_dataframes_columns_and_files_give_the_same(run, tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
    table, moved = waves(), pandas.DataFrame(waves())
    expected = run.predict([write_table(tmp_path / "table.csv", table)])[0]
    by_time = moved.set_index(pandas.to_datetime(moved.pop("date")))
    for one in (table, pandas.DataFrame(table), by_time):
        found = run.predict(one)
        np.testing.assert_allclose(found.series[0].values, expected.series[0].values, rtol=1e-6)
        assert found.series[0].times == expected.series[0].times
    with pytest.raises(CallError, match=r"there is no column data\.time='date'"):
        run.predict(np.stack([table["north"], table["south"]], 1))
    nothing = CliRunner().invoke(cli, ["predict", str(run.folder), "nothing.csv"])
    assert str(nothing.exception) == "nothing.csv: there is no such file"


def test_too_short_a_table_is_refused_in_words(run):
    short = {name: column[:9] for name, column in waves().items()}
    with pytest.raises(RegardError, match=r"9 steps without a gap at its end, and the model reads data\.look_back=13"):
        run.predict([short])


# ------------------------------------------------------------------------------------------------- the command line
def test_predict_on_the_command_line_agrees_with_python(run, tmp_path):
    file = write_table(tmp_path / "table.csv", waves())
    expected = run.predict([file])[0]

    def called(*words):
        done = CliRunner().invoke(cli, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert called("predict", run.folder, file) == expected.text + "\n"
    document = json.loads(called("predict", run.folder, file, "--json"))
    assert document[0]["series"][0]["values"]["north"] == pytest.approx(expected.series[0].values[:, 0].tolist())
    called("predict", run.folder, file, "-o", tmp_path / "plot.png", "decoding.at=2024-05-01")
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"
    called("look", run.folder, file, "--view", "overlay", "-o", tmp_path / "look.png")
    assert (tmp_path / "look.png").read_bytes()[:4] == b"\x89PNG"
    assert "mse_linear" in called("evaluate", run.folder, f"data.test={file}")


def test_the_service_takes_the_text_of_a_table(run, tmp_path):
    pytest.importorskip("httpx", reason="tests of the service need httpx")
    testing = pytest.importorskip("fastapi.testclient", reason="the service needs the web extra")
    from regard.serve.app import create_app
    from regard.serve.errors import Limits

    text = write_table(tmp_path / "table.csv", waves()).read_text()
    with testing.TestClient(
        create_app({"waves": run}, Limits(max_length=10_000)), base_url="http://127.0.0.1"
    ) as client:
        (told,) = client.post("/api/predict", json={"inputs": [text]}).json()["predictions"]
        expected = run.predict([text])[0].series[0].as_dict()["values"]
        np.testing.assert_allclose(told["series"][0]["values"]["north"], expected["north"], rtol=1e-5)
        looked = client.post("/api/look", json={"text": text, "method": "leave-one-out"}).json()
        assert looked["input"] == "2024-05-07 to 2024-05-19"
        name = client.post("/api/upload", content=text.encode()).json()["name"]
        (sent,) = client.post("/api/predict", json={"inputs": [name]}).json()["predictions"]
        assert sent["series"][0]["values"] == told["series"][0]["values"]
        refused = client.post("/api/upload", content=b"date,north").json()
        assert "this table cannot be read" in str(refused)


@pytest.mark.slow
def test_train_stopped_and_gone_on_with_is_bit_identical(tmp_path):
    file = recipe(tmp_path, MODELS["transformer"] | {"dropout": 0.1}, max_steps=40, save_every=10, validate_every=20)
    torch.set_num_threads(1)
    regard.train(file, output=tmp_path / "whole")
    regard.train(file, output=tmp_path / "parts", training={"max_steps": 23})
    regard.train(file, output=tmp_path / "parts")
    weights = [Path(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]


def test_attention_is_kept_as_training_goes_on(run):
    history = run.history_of_looks()
    assert history.steps == (100,)
    (record,) = history.records
    assert " to " in record.input
    for attention in record.attentions:
        np.testing.assert_allclose(attention.weights.sum(-1), 1, atol=1e-5)
