"""Data that nobody described: what it is, which recipe suits it, and that this recipe trains."""

import io
import json
import math
import re
import tarfile
import time
import wave
import zipfile
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from regard import api, config
from regard.cli import cli
from regard.detect.begin import RECIPE, as_yaml, is_data, make_recipe
from regard.detect.detect import detect
from regard.detect.detected import Hints, SeriesFacts
from regard.detect.files import role_of
from regard.detect.given import materialize, white_of
from regard.detect.measure import Measured, Measurements, _seconds_of
from regard.detect.plan import of_size, plan
from regard.detect.reshaped import wide_to_long
from regard.detect.rewritten import normalize_encoding
from regard.detect.tables import are_tags, column_of
from regard.errors import CallError, RegardError
from regard.inputs.image.settings import encoders, form
from regard.inputs.series.settings import windows
from regard.inputs.text import settings as texts
from regard.job import make_job
from regard.jobs import FROM_DATA, JOBS
from regard.settings.recipe import Sample, Size
from regard.tasks.labels import settings as labels
from regard.tasks.text import settings as writing


# --------------------------------------------------------------------------------------------------- data of all kinds
def _sound(path: Path, pitch: float, seconds: float = 0.25, rate: int = 11025) -> None:
    time = np.arange(int(rate * seconds)) / rate
    samples = (np.sin(2 * np.pi * pitch * time) * 9000).astype(np.int16)
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((2, 2, rate, 0, "NONE", ""))  # stereo
        file.writeframes(np.stack([samples, samples], 1).tobytes())


def _picture(path: Path, color: tuple[int, int, int], rows: int = 20, columns: int = 28) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(len(path.name)).integers(-40, 40, (rows, columns, 3))
    Image.fromarray(np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)).save(path)


def pairs_with_semicolons(folder: Path) -> Path:
    rows = [
        f"{n};the {c} cat number {n} sleeps;le chat {c} numéro {n} dort" for n in range(120) for c in ("old", "new")
    ]
    (folder / "verbs.csv").write_text("id;English;French\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return folder / "verbs.csv"


def parallel_japanese(folder: Path) -> Path:
    animals, acts = {"猫": "cat", "犬": "dog", "鳥": "bird"}, {"食べる": "eats", "走る": "runs", "寝る": "sleeps"}
    both = [
        (f"{a}が{n}匹{v}。", f"{n} {b} {w}.") for a, b in animals.items() for v, w in acts.items() for n in range(20)
    ]
    for ending, side in (("ja", 0), ("en", 1)):
        (folder / f"train.{ending}").write_text("".join(pair[side] + "\n" for pair in both), encoding="utf-8")
    return folder


def labeled_without_header(folder: Path) -> Path:
    lines = [f"I {'like' if n % 2 else 'hate'} what I saw on day {n}\t{'good' if n % 2 else 'bad'}" for n in range(200)]
    (folder / "said.tsv").write_text("\n".join(lines), encoding="utf-8")
    return folder / "said.tsv"


def words_with_tags(folder: Path) -> Path:
    text = "".join(f"Ann B-PER\nlives O\nin O\nRome{number} B-LOC\n. O\n\n" for number in range(60))
    (folder / "names.txt").write_text(text, encoding="utf-8")
    return folder / "names.txt"


def plain_text(folder: Path) -> Path:
    (folder / "book.txt").write_text("\n".join(f"Once there were {n} sheep." for n in range(900)), encoding="utf-8")
    return folder / "book.txt"


def questions(folder: Path) -> Path:
    asked = [
        {"question": f"Who has {n} apples?", "id": str(n), "answers": [{"text": f"Bob{n}", "answer_start": 0}]}
        for n in range(60)
    ]
    articles = [
        {"title": q["id"], "paragraphs": [{"context": f"Bob{q['id']} has {q['id']} apples.", "qas": [q]}]}
        for q in asked
    ]
    (folder / "asked.json").write_text(json.dumps({"version": "1.1", "data": articles}), encoding="utf-8")
    return folder / "asked.json"


def photos_by_class(folder: Path) -> Path:
    for part, count in (("train", 24), ("test", 6)):
        for name, color in (("red", (200, 40, 40)), ("blue", (40, 40, 200))):
            for number in range(count):
                _picture(folder / "photos" / part / name / f"{number}.png", color)
    return folder / "photos"


def captioned(folder: Path) -> Path:
    lines = ["file,what is on it"]
    for number in range(40):
        name, color = (("red", (200, 40, 40)), ("blue", (40, 40, 200)))[number % 2]
        _picture(folder / "all" / "pictures" / f"{number}.jpg", color)
        lines.append(f"{number}.jpg,a wide field that is all {name} and counted {number}")
    (folder / "all" / "list.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder / "all"


def asked_about_pictures(folder: Path) -> Path:
    lines = ["image,question,answer"]
    for number in range(40):
        name, color = (("red", (200, 40, 40)), ("blue", (40, 40, 200)))[number % 2]
        _picture(folder / "asked" / f"{number}.png", color)
        lines += [
            f"{number}.png,what color is number {number}?,{name}",
            f"{number}.png,is it {number} or red?,{number}",
        ]
    (folder / "asked" / "list.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder / "asked"


def sounds_by_class(folder: Path) -> Path:
    for name, pitch in (("low", 200.0), ("high", 1500.0)):
        for number in range(16):
            _sound(folder / "sounds" / name / f"{number}.wav", pitch + number)
    return folder / "sounds"


def spoken(folder: Path) -> Path:
    for number in range(24):
        name, pitch = (("la la", 200.0), ("do re mi", 1500.0))[number % 2]
        _sound(folder / "speech" / f"{number}.wav", pitch)
        (folder / "speech" / f"{number}.txt").write_text(f"{name} {number}", encoding="utf-8")
    return folder / "speech"


def shops(folder: Path) -> Path:
    noise = np.random.default_rng(1)
    lines = [
        f"shop{shop},2024-{1 + day // 28:02d}-{1 + day % 28:02d},{10 + 5 * np.sin(day / 7 * 6.28) + noise.normal():.2f}"
        for shop in range(3)
        for day in range(112)
    ]
    (folder / "shops.csv").write_text("shop,date,sold\n" + "\n".join(lines), encoding="utf-8")
    return folder / "shops.csv"


def series_with_labels(folder: Path) -> Path:
    lines = ["run,step,x,label"]
    for run in range(40):
        lines += [
            f"run{run},{step},{np.sin(step * (1 + run % 2)):.3f},{'fast' if run % 2 else 'slow'}" for step in range(12)
        ]
    (folder / "runs.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder / "runs.csv"


def series_by_class(folder: Path) -> Path:
    for run in range(40):
        place = folder / "swings" / ("fast" if run % 2 else "slow")
        place.mkdir(parents=True, exist_ok=True)
        steps = (f"{np.sin(step * (1 + run % 2)):.3f},{step % 3}" for step in range(12 + run % 5))
        (place / f"{run}.csv").write_text("x,y\n" + "\n".join(steps), encoding="utf-8")
    return folder / "swings"


def two_texts(folder: Path) -> Path:
    """Texts that repeat are no classes, where a column is called so."""
    rows = [{"premise": f"a man eats {n % 30}", "hypothesis": f"he eats {n % 5}", "label": n % 3} for n in range(60)]
    return _written(folder / "nli.jsonl", "\n".join(map(json.dumps, rows)))


MADE: dict[Callable[[Path], Path], tuple[str, str]] = {
    pairs_with_semicolons: ("text", "text"), parallel_japanese: ("text", "text"),
    labeled_without_header: ("text", "label"), words_with_tags: ("text", "tags"), plain_text: ("nothing", "text"),
    questions: ("question", "span"), photos_by_class: ("image", "label"), captioned: ("image", "text"),
    sounds_by_class: ("sound", "label"), spoken: ("sound", "text"), shops: ("series", "values"),
    series_with_labels: ("series", "label"), series_by_class: ("series", "label"),
    asked_about_pictures: ("image+text", "text"), two_texts: ("texts", "label"),
}  # fmt: skip


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_data_is_known_for_what_it_is_and_its_recipe_trains(make: Callable[[Path], Path], tmp_path: Path) -> None:
    data = make(tmp_path)
    found = detect(str(data))
    assert found.kinds == MADE[make]
    said: list[str] = []
    small = {"training.max_steps": 3, "training.validate_every": 3, "training.looks": 0}
    small |= {} if make in (shops, photos_by_class) else {"data.test_share": 0.25}  # those have a test part
    file = make_recipe(data, tmp_path / "run", seconds=20, overrides=small, report=said.append)
    written = file.read_text(encoding="utf-8")
    tree = yaml.safe_load(written)
    assert tree["job"] == FROM_DATA[found.kinds][0]
    assert tree["training"]["max_steps"] == 3
    assert "extends" not in tree
    assert sum("# " in line for line in written.splitlines()) > 10, "every value has its reason beside it"
    assert any(str(found.shown[0][0]).split()[0] in line for line in said), "an example is shown"
    run = api.train(file, output=tmp_path / "run")
    assert run.summary()["step"] == 3
    _ends_with_a_test_score(run)


def _ends_with_a_test_score(run: api.Run) -> None:
    """Of the model and of baselines, by the score of `evaluate`, and on data that no other part has."""
    test = run.summary()["test"]
    assert test["baselines"], test["words"]
    assert test["count"] == test["all"] > 0
    assert test["low"] <= test["value"] + 1e-9
    assert test["value"] <= test["high"] + 1e-9
    assert run.evaluate().values[test["metric"]] == pytest.approx(test["value"], abs=1e-3)
    assert run.closing_words().splitlines()[-1] == test["words"]
    assert test["words"] in (run.folder / "README.md").read_text(encoding="utf-8").replace("Test ", "test ")
    job = make_job(run.recipe)
    job.prepare(run.folder / "cache")
    examples, _ = job.output.test()
    if isinstance(examples, list) and run.recipe.data.test is None:
        held = {_key(job.input, one.input) for one in examples}
        for role in ("train", "valid"):
            assert held.isdisjoint(_key(job.input, one.input) for one in job.splits[role].sample(10**6)), role


def _key(input: Any, one: Any) -> str:
    """What must not be in two parts: of a question its document, of a picture and a question the picture."""
    if hasattr(input, "first"):
        return input.first.name(one[0])
    return str(one[0]) if input.kinds == ("text", "text") else getattr(one, "document", None) or input.name(one)


def test_every_kind_of_data_is_tried_above() -> None:
    assert {*MADE.values()} == {*FROM_DATA}
    assert {job for job, _ in FROM_DATA.values()} <= {*JOBS}


# ------------------------------------------------------------------------------------------------------- the time limit
def _linked(folder: Path, number: int, place: Path) -> None:
    """The media files of a folder under new names; what lies beside them under the same."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name != "list.csv":
            to = place / file.relative_to(folder).with_name(f"{number}-{file.name}")
            to.parent.mkdir(parents=True, exist_ok=True)
            to.hardlink_to(file)


def _larger(make: Callable[[Path], Path], folder: Path, times: int) -> Path:
    """The data of a maker, so many times as much."""
    data = make(folder / "small")
    large = folder / "large" / data.name
    (large.parent if data.is_file() else large).mkdir(parents=True)
    if make is shops:
        lines = [f"s{n},{date(1950, 1, 1) + timedelta(day)},{day % 7 + n}" for n in range(3) for day in range(20_000)]
        return _written(large, "shop,date,sold\n" + "\n".join(lines))
    if make is questions:
        whole = json.loads(data.read_text(encoding="utf-8"))
        return _written(large, json.dumps(whole | {"data": whole["data"] * times}))
    if make is series_with_labels:
        header, *lines = data.read_text(encoding="utf-8").splitlines()
        return _written(large, "\n".join([header, *(f"{n}{line}" for n in range(times) for line in lines)]))
    if data.is_file() or make is parallel_japanese:
        for file in [data] if data.is_file() else data.iterdir():
            text = file.read_text(encoding="utf-8")
            header, body = text.split("\n", 1) if file.suffix == ".csv" else ("", text)
            body = body.strip("\n") + ("\n\n" if make is words_with_tags else "\n")
            if make in (pairs_with_semicolons, parallel_japanese):  # targets that repeat would be labels
                whole = "".join(re.sub(r"\d+", lambda found, n=n: f"{n}{found[0]}", body) for n in range(1, times + 1))
            else:
                whole = body * times
            _written(large if data.is_file() else large / file.name, (header and header + "\n") + whole)
        return large
    for number in range(times):
        _linked(data, number, large)
    if (listed := data / "list.csv").exists():
        header, *lines = listed.read_text(encoding="utf-8").splitlines()
        _written(large / "list.csv", "\n".join([header, *(f"{n}-{line}" for n in range(times) for line in lines)]))
    return large


@pytest.mark.slow
@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_the_time_limit_holds_for_data_too_large_for_it(
    make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each kind: a part of the data is used, the end names it and the limit that uses all, and time is kept."""
    monkeypatch.setattr("regard.detect.plan.SMALLEST", 200)  # examples of a sample
    monkeypatch.setattr("regard.detect.plan.LARGEST", 200)
    monkeypatch.setattr("regard.detect.plan.PREPARING", 0.005)  # so that little data takes too long
    monkeypatch.setattr("regard.work.PATIENCE", 0.0)  # seconds until progress is reported
    (tmp_path / "small").mkdir()
    data = _larger(make, tmp_path, 200 if make is plain_text else 20)
    began = time.process_time()  # other programs may have the processor for any time
    run = api.train(data, output=tmp_path / "run", time_limit=3, training={"looks": 0})
    assert time.process_time() - began < 3 + 10  # Python may still be loading modules
    progress = capsys.readouterr().err
    if make in (pairs_with_semicolons, labeled_without_header):
        assert re.search(r"choosing a part of .*: [\d,]+ of about [\d,]+ in \d+ s, about \d+ s left", progress)
    recipe = (run.folder / RECIPE).read_text(encoding="utf-8")
    assert "would use all" in recipe
    assert "data-part" in recipe
    assert f"chosen from all of {data}" in " ".join(recipe.replace("#", " ").split())
    assert run.summary()["step"] >= 1
    assert run.summary()["test"]["words"].startswith("test ")


def test_the_limit_estimate_ignores_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a sample takes many times as long as its work: a million pairs were estimated at 12.9 minutes,
    and took 3."""
    monkeypatch.setattr("regard.detect.measure.is_busy", lambda: True)
    assert _seconds_of(lambda: time.sleep(0.3)) < 0.1
    monkeypatch.setattr("regard.detect.measure.is_busy", lambda: False)  # waiting for a disk counts
    assert _seconds_of(lambda: time.sleep(0.3)) >= 0.3


def test_the_limit_is_kept_if_a_sample_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger sample is used, not all of the data."""
    found = detect(str(_many_pairs(tmp_path)))
    chosen, seen = Measurements(found, 100, tmp_path, tmp_path / "cache"), list[int]()
    assert not chosen.whole

    def prepare(job: Any, tree: dict[str, Any]) -> None:
        seen.append(chosen.sample.count)
        if len(seen) < 3:
            raise RegardError("too many lines are bad")

    monkeypatch.setattr(chosen, "_prepare", prepare)
    monkeypatch.setattr("regard.detect.measure._job", lambda tree: SimpleNamespace(batches=lambda: _NoBatches()))
    monkeypatch.setattr("regard.detect.measure._seconds_of_step", lambda job, batches: 0.1)
    chosen.measure({"data": dict(found.data)}, found)
    assert not chosen.whole
    assert [round(math.log(count / 100, 4)) for count in seen] == [0, 1, 2]


class _NoBatches:
    def len_epoch(self, epoch: int) -> int:
        return 1


def _many_pairs(folder: Path) -> Path:
    words = [f"{a}{b}{c}" for a in "bdfgklm" for b in "aeiou" for c in ["", "n", "rst", "lom", "tik"]]
    chance = np.random.default_rng(0)
    rows = [" ".join(words[at] for at in row) for row in chance.integers(0, len(words), (100_000, 20))]
    return _written(folder / "pairs.tsv", "".join(f"{row}\t{row[::-1]}\n" for row in rows))


def _many_steps(folder: Path) -> Path:
    values = np.random.default_rng(0).normal(size=(100_000, 7)).cumsum(0)
    lines = (",".join(f"{value:.3f}" for value in row) for row in values)
    return _written(folder / "steps.csv", "a,b,c,d,e,f,g\n" + "\n".join(lines))


@pytest.mark.slow
@pytest.mark.parametrize("make", [_many_pairs, _many_steps], ids=lambda make: make.__name__)
def test_a_limit_of_seconds_holds_for_100_000_examples(make: Callable[[Path], Path], tmp_path: Path) -> None:
    """All of the pairs took 47 seconds, and all of the steps 40, with any limit."""
    data = make(tmp_path)
    began = time.process_time()  # other programs may have the processor for any time
    run = api.train(data, output=tmp_path / "run", time_limit=6)
    assert time.process_time() - began < 6 + 10
    assert "would use all" in (run.folder / RECIPE).read_text(encoding="utf-8")
    assert run.summary()["step"] >= 1


# ------------------------------------------------------------------------------------------------------------ decisions
def test_names_of_columns_say_which_is_which_and_ids_are_not_translated(tmp_path: Path) -> None:
    found = detect(str(pairs_with_semicolons(tmp_path)))
    assert (found.data["source"], found.data["target"]) == ("English", "French")
    assert "semicolons" in " ".join(found.beliefs)
    assert found.count == 240


def test_a_script_without_spaces_gets_sub_words_and_two_scripts_two_vocabularies(tmp_path: Path) -> None:
    found = detect(str(parallel_japanese(tmp_path)))
    assert found.data["train"].endswith("train.ja")
    assert "train.ja" in found.doubt, "the direction is a guess, and said to be one"
    tree = plan(found, 5).tree
    assert tree["data"]["tokenizer"]["kind"] == "bpe"
    assert tree["data"]["tokenizer"]["joint"] is False


def test_pictures_keep_their_size_and_their_colors(tmp_path: Path) -> None:
    tree = plan(detect(str(photos_by_class(tmp_path))), 5).tree
    assert (tree["data"]["height"], tree["data"]["width"], tree["data"]["channels"]) == (20, 28, 3)
    assert tree["data"]["test"].endswith("photos/test")


def test_a_wide_picture_is_read_by_stages_enough_for_its_longer_side() -> None:
    """What stands at its two ends has to be seen together; two stages saw a quarter of it."""
    decisions, sides, photos = form([(20, 48, True)])
    assert [decision.value for decision in decisions] == [20, 48, 3]
    assert [len(size.settings["stages"]) for size in encoders(sides, photos, 2000)] == [3, 3, 3]
    assert len(encoders((8, 8), photos, 2000)[0].settings["stages"]) == 2
    assert len(encoders((64, 64), photos, 2000)[0].settings["stages"]) == 4


def test_recordings_keep_their_rate_and_texts_are_not_cut(tmp_path: Path) -> None:
    tree = plan(detect(str(spoken(tmp_path))), 5).tree
    assert tree["data"]["sound"]["rate"] == 11025
    assert tree["decoding"]["max_length"] > len("do re mi 23")


def test_a_list_of_recordings_may_tell_its_splits_apart(tmp_path: Path) -> None:
    folder = spoken(tmp_path)
    lines = [f"{n}.wav,{'valid' if n % 6 == 0 else 'train'},{(folder / f'{n}.txt').read_text()}" for n in range(24)]
    (folder / "list.csv").write_text("\n".join(["path,split,text", *lines]), encoding="utf-8")
    found = detect(str(folder / "list.csv"))
    assert found.kinds == ("sound", "text")
    assert [found.data[name] for name in ("path", "split", "text")] == ["path", "split", "text"]


def test_sizes_that_a_recipe_leaves_to_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digits = config.as_tree(config.read("digits-vit"))["data"]
    assert (digits["height"], digits["width"], digits["channels"]) == (8, 8, 1)
    photos = {"data.train": str(photos_by_class(tmp_path) / "train")}
    read = config.as_tree(config.read("digits-vit", photos))["data"]
    assert (read["height"], read["width"], read["channels"]) == (20, 28, 3)
    assert "data.height=20 (pictures are usually 20×28)" in capsys.readouterr().err
    assert config.as_tree(config.read("digits-vit", {**photos, "data.height": 10}))["data"]["height"] == 10
    said = config.as_tree(config.read("tones", {"data.train": str(spoken(tmp_path))}))
    assert said["data"]["sound"]["rate"] == 11025
    assert said["decoding"]["max_length"] > len("do re mi 23"), "nothing is cut"
    pairs = {"data.train": str(pairs_with_semicolons(tmp_path)), "data.source": "English", "data.target": "French"}
    written = config.as_tree(config.read("translate-transformer", {**pairs, "decoding.max_length": "auto"}))
    assert 8 <= written["decoding"]["max_length"] <= 32
    assert config.read("translate-transformer", {"training.device": "auto"}).training.device == "auto"
    column = config.as_tree(config.read("translate-transformer", {**pairs, "data.source": "auto"}))
    assert column["data"]["source"] == "auto", "a column may be called so"
    with pytest.raises(CallError, match=r"data\.max_length=auto: cannot be decided from this data"):
        config.read("tones", {"data.max_length": "auto"})


def test_texts_in_a_table_of_numbers_are_categories_and_not_names_of_series(tmp_path: Path) -> None:
    weather = ("sun", "rain", "snow")
    lines = [f"2024-{1 + day // 28:02d}-{1 + day % 28:02d},{weather[day * day % 3]},{day % 7}" for day in range(112)]
    found = detect(str(_written(tmp_path / "sold.csv", "date,weather,sold\n" + "\n".join(lines))))
    assert (found.data["past"], "id" in found.data) == (["weather"], False)
    planned = plan(found, 5.0)
    assert config.build(planned.tree).model.kind == "recurrent"  # pyright: ignore[reportAttributeAccessIssue]
    assert detect(str(shops(tmp_path))).data["id"] == "shop"
    numbers = [line.replace("sun,", "").replace("rain,", "").replace("snow,", "") for line in lines]
    unnamed = detect(str(_written(tmp_path / "numbers.csv", "\n".join(numbers))))
    assert (unnamed.kinds, "time" in unnamed.data) == (("series", "values"), False), "the first column is the clock"
    with pytest.raises(CallError, match="write a first line that names the columns"):
        detect(str(_written(tmp_path / "unnamed.csv", "\n".join(lines))))


def test_many_short_series_are_seen_as_a_whole_and_look_back_further_than_a_week(tmp_path: Path) -> None:
    lines = [f"s{one},{date(2024, 1, 1) + timedelta(day)},{day % 7}" for one in range(60) for day in range(84)]
    found = detect(str(_written(tmp_path / "many.csv", "shop,date,sold\n" + "\n".join(lines))))
    assert (found.inputs[0].steps, round(found.inputs[0].series, -1)) == (84, 60)
    data = plan(found, 5.0).tree["data"]
    assert (data["horizon"], data["look_back"] >= 21) == (7, True)


def _rows(kind: str, count: int) -> str:
    """Rows of a table; JSON has objects whose lengths differ much, so that no size tells how many there are."""
    if kind == "jsonl":
        return "".join(
            json.dumps({"text": "é, " * (n % 90) + "a film", "label": "ab"[n % 2]}) + "\n" for n in range(count)
        )
    if kind == "sorted.csv":  # all of a class, then all of the other
        return "text,label\n" + "".join(f'"film {n},\nlong",{chr(97 + 2 * n // count)}\n' for n in range(count))
    steps, series = (60, count // 60) if kind == "labeled.csv" else (count // 20, 20)
    labels = (",a", ",b", ",label") if kind == "labeled.csv" else ("", "", "")
    days = [date(2000, 1, 1) + timedelta(step) for step in range(steps)]
    lines = (f"s{one},{day},{day.day % 7}{labels[one % 2]}\n" for one in range(series) for day in days)
    return f"id,date,x{labels[2]}\n" + "".join(lines)


@pytest.mark.parametrize(
    ("kind", "count", "examples", "said"),
    [
        ("jsonl", 3000, 3000, "2 classes in 3,000 examples: a (1,500), b (1,500)"),
        ("parquet", 3000, 3000, "a table of 3,000 rows"),
        ("sorted.csv", 5000, 5000, "2 classes in 5,000 examples: a (2,500), b (2,500)"),
        ("series.csv", 48_000, 48_000, "20 series of 2,400 steps"),
        ("labeled.csv", 10_800, 180, "2 classes in 180 examples: a (90), b (90)"),
    ],
)
def test_counts_are_those_of_the_whole_file(kind: str, count: int, examples: int, said: str, tmp_path: Path) -> None:
    file = tmp_path / f"data.{kind}"
    if kind == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'regard[parquet]'")
        columns = {"text": [f"a film of {n} hours" for n in range(count)], "label": ["a", "b"] * (count // 2)}
        parquet.write_table(
            pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'regard[parquet]'").table(columns), file
        )
    else:
        _written(file, _rows(kind, count))
    found = detect(str(file))
    assert found.count == examples
    assert any(said in belief for belief in found.beliefs), found.beliefs


def test_counts_of_a_folder_are_those_of_all_its_files(tmp_path: Path) -> None:
    for n in range(4200):
        (tmp_path / "ab"[n % 3 > 0]).mkdir(exist_ok=True)
        _written(tmp_path / "ab"[n % 3 > 0] / f"{n}.txt", f"text {n}")
    found = detect(str(tmp_path))
    assert found.count == 4200
    assert "2 classes in 4,200 examples: b (2,800), a (1,400)" in found.beliefs


def test_what_the_user_says_stands_above_what_is_decided(tmp_path: Path) -> None:
    found = detect(str(shops(tmp_path)))
    planned = plan(found, 5, overrides=["data.horizon=3", "model.width=8"])
    assert planned.tree["data"]["horizon"] == 3
    far = windows(SeriesFacts(17_000, 24, 1, 7), {"data.horizon": "96"})  # as a command line has it
    assert far[1:] == (512, 608), "what follows from it is decided by it"
    assert planned.reasons["data.horizon"] == "set by the user"
    assert planned.tree["model"]["width"] == 8
    assert config.build(yaml.safe_load(as_yaml(planned, "shops.csv"))), "it can be read again"


def test_what_the_user_says_steers_what_is_found(tmp_path: Path) -> None:
    films = "".join(f"u{n % 9},film {n} was much too long,{n % 5}\n" for n in range(60))
    file = str(_written(tmp_path / "films.csv", "user,text,stars\n" + films))
    assert detect(file).doubt, "both columns may be labels"
    found = detect(file, Hints({"label": "user"}))
    assert (found.data["label"], len({*found.targets}), found.doubt) == ("user", 9, "")
    assert detect(file, Hints(said=frozenset(["text"]))).data["target"] == "text"
    both = "".join(f"one {n} two three\teins {n} zwei drei\n" for n in range(60))
    pairs = str(_written(tmp_path / "pairs.tsv", both))
    assert detect(pairs, Hints({"source": 1, "target": 0})).inputs[0].startswith("eins")
    flowers = "".join(f"{n * n % 7},{n % 3},{'ab'[n % 2]}\n" for n in range(60))
    table = str(_written(tmp_path / "flowers.csv", "petal,sepal,kind\n-,3.1,a\n" + flowers))
    assert "no column of times" in detect(table, Hints(said=frozenset(["values"]))).doubt
    with pytest.raises(CallError, match="in no order"):
        detect(table)


def test_english_texts_start_from_a_pretrained_encoder_where_one_is_installed(monkeypatch) -> None:
    def sizes(text: str, seconds: float) -> list[str]:
        sample = Sample(600, [f"{text} {n}" for n in range(600)], ["x", "y"] * 300, seconds)
        return [size.name for size in labels.decide(("text", "label"), sample).sizes]

    monkeypatch.setattr(texts, "installed_encoder", lambda: "package:one")
    assert sizes("what is the name of", 600)[-1] == "MiniLM"
    assert "MiniLM" not in sizes("wie heißt denn das da", 600) + sizes("what is the name of", 60)
    monkeypatch.setattr(texts, "installed_encoder", lambda: "")
    assert "MiniLM" not in sizes("what is the name of", 600)


def test_a_longer_time_gives_a_larger_model(tmp_path: Path) -> None:
    found = detect(str(labeled_without_header(tmp_path)))
    many = type(found)(**{**vars(found), "count": 50_000})
    short, long = (plan(many, seconds).tree["model"]["width"] for seconds in (0.01, 3600))
    assert short < long


@pytest.mark.parametrize(
    ("name", "cells", "kind"),
    [
        ("id", ["1", "2", "3", "9"], "id"),
        ("stars", ["1", "5", "3", "5"], "number"),
        ("label", ["1", "0", "1", "0"], "label"),
        ("photo", ["a.JPG", "b.png"], "picture"),
        ("file", ["x/a.wav", "b.flac"], "recording"),
        ("when", ["2024-01-01", "2024-01-02 10:00"], "time"),
        ("part", ["train", "test", "train"], "split"),
        ("code", ["a1", "b2", "c3", "d4"], "id"),
        ("said", ["one two three four five six seven", "eight nine ten eleven twelve one two"], "text"),
        ("mood", ["good", "bad", "good", "good", "bad", "bad"], "label"),
        ("", ["", " "], "empty"),
    ],
)
def test_what_a_column_holds(name: str, cells: list[str], kind: str) -> None:
    assert column_of(name, cells).kind == kind


def test_numbers_that_count_the_rows_are_no_values_where_they_stand_first() -> None:
    counted = [str(number) for number in range(50)]
    assert column_of("n", counted, numbered=True).kind == "id"
    assert column_of("n", counted).kind == "number"


def test_tags_are_as_many_as_words() -> None:
    words = ["a b c d"] * 20
    assert are_tags(words, ["X Y X X"] * 20)
    assert not are_tags(words, ["X Y X"] * 20)


# ------------------------------------------------------------------------------------------------- forms of others
def _nested_pairs(folder: Path, form: str) -> Path:
    """As the hub has translations; Arabic has no capitals, and is no row of tags."""
    rows = [
        {"id": f"{n}", "translation": {"en": f"cat {n} sees dog {n + 1}", "ar": f"قطة {n} يرى كلب {n + 1}"}}
        for n in range(60)
    ]
    if form == "lines":  # what a line has beside is no document
        lines = (json.dumps(row | {"data": [{"by": "hand"}]}) for row in rows)
        return _written(folder / "pairs.jsonl", "\n".join(lines))
    return _written(
        folder / "pairs.json", json.dumps({"data": rows} if form == "named" else rows, indent=form == "list")
    )


def _tokens_with_tags(folder: Path) -> Path:
    rows = [{"id": n, "tokens": ["Anna", "saw", f"w{n}", "."], "ner_tags": ["B-PER", "O", "O", "O"]} for n in range(60)]
    return _written(folder / "tagged.jsonl", "\n".join(map(json.dumps, rows)))


def _answers_in_objects(folder: Path, ending: str) -> Path:
    rows = [
        {
            "question": f"Where is {n}?",
            "context": f"{n} is in Rome.",
            "answers": {"text": ["Rome"][: n % 5], "answer_start": [len(f"{n} is in ")][: n % 5]},
        }
        for n in range(60)
    ]
    lines = ending == ".jsonl"
    return _written(folder / f"asked{ending}", "\n".join(map(json.dumps, rows)) if lines else json.dumps(rows))


def _coco(folder: Path, give: str) -> Path:
    """Annotations beside the pictures; few different captions, and no classes."""
    for number in range(20):
        _picture(folder / "coco" / "train2017" / f"{number:04d}.jpg", (10 * number, 40, 40))
    images = [{"id": 7 * number, "file_name": f"{number:04d}.jpg"} for number in range(20)]
    said = [{"image_id": one["id"], "caption": text} for one in images for text in ("a red field", "all red")]
    (folder / "coco" / "annotations").mkdir()
    file = folder / "coco" / "annotations" / "captions_train2017.json"
    file.write_text(json.dumps({"info": {}, "images": images, "annotations": said}))
    return folder / "coco" if give == "folder" else file


def _karpathy(folder: Path) -> Path:
    for number in range(20):
        _picture(folder / "karpathy" / "images" / f"{number}.jpg", (10 * number, 40, 40))
    parts = ("train", "val", "test", "restval")
    images = [
        {"filename": f"{n}.jpg", "split": parts[n % 4], "sentences": [{"raw": "a red field"}, {"raw": f"red {n}"}]}
        for n in range(20)
    ]
    _written(folder / "karpathy" / "dataset.json", json.dumps({"images": images, "dataset": "own"}))
    return folder / "karpathy"


def _holes(folder: Path) -> Path:
    """An hour twice, and two cells without a number."""
    rows = [f"2024-01-{1 + n // 24:02d}T{n % 24:02d}:00,{n % 24}" for n in range(24 * 28)]
    rows[50], rows[90] = rows[50].partition(",")[0] + ",", rows[90].partition(",")[0] + ",NaN"
    return _written(folder / "holes.csv", "\n".join(["time,value", *rows[:60], *rows[59:]]))


def _speech(folder: Path, form: str) -> Path:
    """LJ Speech names files without their ending, between bars, and has single quotes; LibriSpeech has transcripts."""
    for number in range(20):
        _sound(folder / "speech" / "part" / f"a-{number:02d}.wav", 300)
    texts = [f'one "two, {number}' for number in range(20)]
    if form == "lj":
        lines = [f"a-{number:02d}|{text}|{text}" for number, text in enumerate(texts)]
        _written(folder / "speech" / "metadata.csv", "\n".join(lines))
    else:
        lines = [f"a-{number:02d} {text}" for number, text in enumerate(texts)]
        _written(folder / "speech" / "part" / "a.trans.txt", "\n".join([*lines[:5], "", *lines[5:], "b/c a folder"]))
    return folder / "speech"


def _flickr(folder: Path, form: str) -> Path:
    names = [f"{number}.jpg" for number in range(20) for _ in range(2)]
    for name in names:
        _picture(folder / "flickr" / "Images" / name, (200, 40, 40))
    if form == "token":
        lines = [f"{name}#{at % 2}\ta red field , number {at}" for at, name in enumerate(names)]
        _written(folder / "flickr" / "Flickr8k.token.txt", "\n".join(lines))
    else:
        lines = ["image,caption", *(f"{name},a red field number {at} ." for at, name in enumerate(names))]
        _written(folder / "flickr" / "captions.txt", "\n".join(lines))
    return folder / "flickr"


def _newsgroups(folder: Path) -> Path:
    for number in range(40):
        place = folder / "news" / ("sci.space", "rec.autos")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        _written(place / f"{10000 + number}", f"text {number}\nand on")
    return folder / "news"


def _anki(folder: Path) -> Path:
    lines = [f"Go {n}.\tGeh {n}.\tCC-BY 2.0 (France) Attribution: tatoeba.org #{7 * n}" for n in range(60)]
    return _written(folder / "deu.txt", "\n".join(lines))


def _classes_by_number(folder: Path) -> Path:
    lines = [f'"{1 + n % 4}","title {n}","a longer description of number {n}"' for n in range(80)]
    return _written(folder / "news.csv", "\n".join(lines))


def _memory(folder: Path) -> Path:
    """A translation memory; marks of a program are no text."""
    units = [
        f'<tu><tuv xml:lang="EN-US"><seg>a <bpt i="1">&lt;b&gt;</bpt>dog<ept i="1">&lt;/b&gt;</ept> {n}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>ein Hund {n}</seg></tuv></tu>'
        for n in range(60)
    ]
    return _written(folder / "memory.tmx", f'<?xml version="1.0"?><tmx><body>{"".join(units)}</body></tmx>')


def _months(folder: Path) -> Path:
    rows = [f"{1949 + n // 12}-{n % 12 + 1:02d},{100 + n}" for n in range(144)]
    return _written(folder / "air.csv", "\n".join(["Month,#Passengers", *rows]))


def _pairs_in(folder: Path, encoding: str, end: str = "\n") -> Path:
    """As spreadsheets and old programs save them."""
    text = "".join(f"the dog sees apple {n}\tder Hund sieht Äpfel {n}{end}" for n in range(60))
    (folder / "pairs.tsv").write_bytes(text.encode(encoding))
    return folder / "pairs.tsv"


def _fasttext(folder: Path) -> Path:
    lines = [f"__label__{'good' if n % 2 else 'bad'} a film of {n} minutes that one likes or not" for n in range(60)]
    return _written(folder / "films.txt", "\n".join(lines) + "\n")


def _tags_beside_tabs(folder: Path) -> Path:
    sentences = [f"Anna\tNOUN\nsees\tVERB\nRome{n}\tNOUN\n.\tX\n\n" for n in range(60)]
    return _written(folder / "tags.txt", "".join(sentences))


def _classes_in_names(folder: Path) -> Path:
    for number in range(20):
        _picture(folder / "pets" / f"{'cat' if number % 2 else 'dog'}.{number}.jpg", (200, 9, 9))
    return folder / "pets"


def _captions_beside(folder: Path) -> Path:
    for number in range(20):
        _picture(folder / "boxes" / f"{number}.png", (200, 9, 9))
        _written(folder / "boxes" / f"{number}.txt", f"a red box with number {number}")
    return folder / "boxes"


def _nested_labels(folder: Path) -> Path:
    """A field that is the same in all lines is no label."""
    rows = [{"meta": {"lang": "en", "stars": n % 5}, "text": f"film {n} was long and slow"} for n in range(60)]
    return _written(folder / "films.jsonl", "\n".join(map(json.dumps, rows)))


def _several_labels(folder: Path) -> Path:
    rows = [{"text": f"film {n} was long and slow", "labels": ["film", "slow"][: 1 + n % 2]} for n in range(60)]
    return _written(folder / "films.jsonl", "\n".join(map(json.dumps, rows)))


def _clock(folder: Path, form: str) -> Path:
    """Steps as others write them, and numbers with signs; the name of the first column may be missing."""
    quarters = form == "quarters"
    times = [f"{1960 + n // 4}Q{n % 4 + 1}" if quarters else str(1_700_000_000 + 3600 * n) for n in range(144)]
    rows = [f'{time},"${1000 + n % 7:,}.50",{n % 5}%' for n, time in enumerate(times)]
    return _written(folder / "sold.csv", "\n".join(["quarter,sold,share" if quarters else ",sold,share", *rows]))


def _labeled(folder: Path, form: str) -> Path:
    """Sixty texts with labels, as they come out of other programs."""
    rows = [(n, f"film {n} was très long and slow", "good" if n % 2 else "bad") for n in range(60)]
    texts = {
        "excel": "\ufeff" + "".join(f"{n};{text};{label}\r\n" for n, text, label in [("Nr.", "Satz", "Urteil"), *rows]),
        "remarks": "# of 2024\n# by a tool\ntext,label\n" + "".join(f"{text},{label}\n" for _, text, label in rows),
        "title": "".join(
            json.dumps({"review": {"title": f"film {n}", "body": text}, "stars": 1 + n % 5}) + "\n"
            for n, text, _ in rows
        ),
    }
    if form == "two encodings":
        lines = [f"{text}\t{label}\n".encode("latin-1" if n % 12 == 0 else "utf-8") for n, text, label in rows]
        (folder / "films.tsv").write_bytes(b"".join(lines))
        return folder / "films.tsv"
    if form == "competition":
        (folder / "films").mkdir()
        _written(folder / "films" / "test.csv", "Id,Phrase\n" + "".join(f"{n},{text}\n" for n, text, _ in rows))
        lines = "".join(f"{n},{text},{label}\n" for n, text, label in rows)
        _written(folder / "films" / "train.csv", f"Id,Phrase,Sentiment\n{lines}")
        return folder / "films"
    return _written(folder / ("films.jsonl" if form == "title" else "films.csv"), texts[form])


def _list_beside(folder: Path) -> Path:
    """Names without an ending, and pictures in a folder that is called as their list."""
    for number in range(20):
        _picture(folder / "whales" / "train" / f"{number:05x}.jpg", (200, 9, 9))
    lines = "".join(f"{number:05x},w_{number % 2}\n" for number in range(20))
    return _written(folder / "whales" / "train.csv", f"Image,Id\n{lines}").parent


def _chats(folder: Path, form: str) -> Path:
    said = [("Where is Anna?", f"Anna is in Rome, {n}.") for n in range(30)]
    rows: dict[str, list[dict[str, object]]] = {
        "messages": [
            {"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": b}]} for a, b in said
        ],
        "ShareGPT": [{"conversations": [{"from": "human", "value": a}, {"from": "gpt", "value": b}]} for a, b in said],
        "Alpaca": [{"instruction": a, "input": "", "output": b} for a, b in said],
    }
    return _written(folder / "chats.jsonl", "".join(json.dumps(row) + "\n" for row in rows[form]))


def _many_series(folder: Path, form: str) -> Path:
    days, names = [f"2024-01-{day:02d}" for day in range(1, 32)], ["A,milk", "A,eggs", "B,milk", "B,eggs"]
    if form == "wide":
        lines = [f"{name}," + ",".join(str(day % 7) for day in range(31)) for name in names]
        return _written(folder / "sold.csv", "\n".join([f"store,item,{','.join(days)}", *lines]))
    if form == "long":
        lines = [f"{day},{name},{at % 7}" for name in names for at, day in enumerate(days)]
        return _written(folder / "sold.csv", "\n".join(["date,store,item,sold", *lines]))
    rows = [[1 + n % 2, *(np.sin(np.arange(40) / (1 + n % 2) + n).round(3))] for n in range(60)]
    rows[3][5], rows[4][-6:] = "", ["NaN"] * 6  # one that was not measured, and a shorter series
    return _written(folder / "ECG_TRAIN.tsv", "\n".join("\t".join(map(str, row)) for row in rows))


def _named_months(folder: Path, form: str) -> Path:
    start = datetime(2020, 1, 1)
    if form == "hours":
        times = [f"{start + timedelta(hours=n):%d-%b-%Y %I:%M %p}" for n in range(500)]
    else:
        times = [f"{datetime(2000 + n // 12, n % 12 + 1, 1):%b-%y}" for n in range(144)]
    season = 24 if form == "hours" else 12
    return _written(folder / "load.csv", "\n".join(["When,Load", *(f"{t},{n % season}" for n, t in enumerate(times))]))


FORMS: dict[str, tuple[Callable[[Path], Path], tuple[str, str], str, int]] = {
    "objects in objects": (partial(_nested_pairs, form="lines"), ("text", "text"), "translate-recurrent", 60),
    "a list of objects": (partial(_nested_pairs, form="list"), ("text", "text"), "translate-recurrent", 60),
    "a list with a name": (partial(_nested_pairs, form="named"), ("text", "text"), "translate-recurrent", 60),
    "lists of tokens and tags": (_tokens_with_tags, ("text", "tags"), "tags", 60),
    "answers in objects": (partial(_answers_in_objects, ending=".jsonl"), ("question", "span"), "answer-recurrent", 60),
    "... in one list": (partial(_answers_in_objects, ending=".json"), ("question", "span"), "answer-recurrent", 60),
    "captions of COCO": (partial(_coco, give="folder"), ("image", "text"), "shapes-caption", 20),
    "... their file": (partial(_coco, give="file"), ("image", "text"), "shapes-caption", 20),
    "captions with Karpathy's splits": (_karpathy, ("image", "text"), "shapes-caption", 20),
    "LJ Speech": (partial(_speech, form="lj"), ("sound", "text"), "tones", 20),
    "LibriSpeech": (partial(_speech, form="libri"), ("sound", "text"), "tones", 20),
    "captions of Flickr": (partial(_flickr, form="captions"), ("image", "text"), "shapes-caption", 20),
    "... of its first edition": (partial(_flickr, form="token"), ("image", "text"), "shapes-caption", 20),
    "20 Newsgroups": (_newsgroups, ("text", "label"), "languages", 40),
    "sentences for Anki": (_anki, ("text", "text"), "translate-recurrent", 60),
    "AG News": (_classes_by_number, ("text", "label"), "languages", 80),
    "a translation memory": (_memory, ("text", "text"), "translate-recurrent", 60),
    "a table with holes": (_holes, ("series", "values"), "", 24),
    "Latin-1": (partial(_pairs_in, encoding="latin-1", end="\r\n"), ("text", "text"), "translate-recurrent", 60),
    "UTF-16": (partial(_pairs_in, encoding="utf-16"), ("text", "text"), "translate-recurrent", 60),
    "UTF-16 without a mark": (partial(_pairs_in, encoding="utf-16-le"), ("text", "text"), "translate-recurrent", 60),
    "carriage returns": (partial(_pairs_in, encoding="utf-8", end="\r"), ("text", "text"), "translate-recurrent", 60),
    "fastText": (_fasttext, ("text", "label"), "languages", 60),
    "tabs before tags": (_tags_beside_tabs, ("text", "tags"), "tags", 60),
    "classes in names": (_classes_in_names, ("image", "label"), "digits-cnn", 20),
    "captions beside": (_captions_beside, ("image", "text"), "shapes-caption", 20),
    "labels in objects": (_nested_labels, ("text", "label"), "languages", 60),
    "lists of labels": (_several_labels, ("text", "label"), "languages", 60),
    "a table of quarters": (partial(_clock, form="quarters"), ("series", "values"), "", 4),
    "seconds since 1970": (partial(_clock, form="seconds"), ("series", "values"), "", 24),
    "a table of months": (_months, ("series", "values"), "", 12),
    "Excel in German": (partial(_labeled, form="excel"), ("text", "label"), "languages", 60),
    "remarks above a table": (partial(_labeled, form="remarks"), ("text", "label"), "languages", 60),
    "two encodings": (partial(_labeled, form="two encodings"), ("text", "label"), "languages", 60),
    "a title, a body and stars": (partial(_labeled, form="title"), ("text", "label"), "languages", 60),
    "a competition": (partial(_labeled, form="competition"), ("text", "label"), "languages", 60),
    "a list beside its folder": (_list_beside, ("image", "label"), "digits-cnn", 20),
    "chats as messages": (partial(_chats, form="messages"), ("nothing", "text"), "language-model", 30),
    "chats of ShareGPT": (partial(_chats, form="ShareGPT"), ("nothing", "text"), "language-model", 30),
    "chats of Alpaca": (partial(_chats, form="Alpaca"), ("nothing", "text"), "language-model", 30),
    "a time in each column": (partial(_many_series, form="wide"), ("series", "values"), "", 7),
    "two names of a series": (partial(_many_series, form="long"), ("series", "values"), "", 7),
    "a series in each line": (partial(_many_series, form="UCR"), ("series", "label"), "series-classify", 60),
    "hours and names of months": (partial(_named_months, form="hours"), ("series", "values"), "", 24),
    "names of months": (partial(_named_months, form="months"), ("series", "values"), "", 12),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_files_in_the_forms_of_others_are_known_and_read(form: str, tmp_path: Path) -> None:
    make, kinds, recipe, count = FORMS[form]
    data = make(tmp_path)
    place = normalize_encoding(str(data), tmp_path / "utf8", lambda message: None)
    found = detect(wide_to_long(place, Hints(), tmp_path / "reshaped", lambda message: None))
    assert found.kinds == kinds
    if not recipe:
        assert found.inputs[0].season == count
        text = make_recipe(data, tmp_path / "run", seconds=5, overrides={"training.max_steps": 1}).read_text()
        assert yaml.safe_load(text)["data"]["gaps"] == "fill"
        return
    report = api.check(recipe, {f"data.{key}": value for key, value in found.data.items()} | {"data.valid_share": 0.1})
    assert not report.errors
    assert not any("\ufffd" in str(target) for target in found.targets)
    if kinds[0] == "nothing":
        assert [*found.inputs] == [f"User: Where is Anna?\nAssistant: Anna is in Rome, {n}.\n" for n in range(count)]
        return
    assert sum(figures.pairs for figures in report.splits.values()) == count
    if "split" in found.data:
        assert report.splits["train"].pairs == 10, "restval is for training, too"


# ------------------------------------------------------------------------------------------------------------ bad input
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: folder / "nothing.csv", "no such recipe, file or folder"),
        (lambda folder: folder, "is empty; give a folder of tables"),
        (lambda folder: _written(folder / "a.csv", "text\n" + "some words and no more\n" * 9), "no column to learn"),
        (lambda folder: _written(folder / "empty.txt", "\n\n"), "contains no readable text"),
        (lambda folder: _written(folder / "head.csv", "text,label\n"), "1 row can be read"),
        (lambda folder: _written(folder / "a.csv", "text,label\n" + "some more words here,spam\n" * 9), "second class"),
        (lambda folder: _written(folder / "a.csv", _scored()), "'score' holds many different numbers; .*Convert"),
        (lambda folder: _written(folder / "a.csv", _scored("stars", 4)), "column 'stars' holds many .*predicts text"),
        (lambda folder: _written(folder / "a.csv", _scored("target", 2)), "column 'target' holds many .*predicts"),
        (lambda folder: _written(folder / "a.json", '{"data": [{"title": "x", "paragraphs": 3}]}'), "cannot be read"),
        (lambda folder: _written(folder / "book.xlsx", "PK\x03\x04..."), "office program.*save what is in it as text"),
        (lambda folder: _written(folder / "paper.pdf", "%PDF-1.7"), "is a PDF"),
        (lambda folder: _written(folder / "a.bin", "some\0thing"), "is not text or any format that regard reads"),
        (lambda folder: _written(folder / "a.tsv", "el niño\tÄpfel\n" * 9, "latin-1"), "line 1: .*UTF-8.*iconv"),
        (lambda folder: _written(folder / "a.tmx", "<tmx><body><tu>"), "cannot be read as TMX"),
        (lambda folder: _written(folder / "bomb.tmx", _bomb()), "cannot be read as TMX .*amplification"),
        (lambda folder: _written(folder / "a.json", '{"a": 1,\n "b": {"c": 2}}'), "has no list of objects"),
        (lambda folder: _written(folder / "a.json", '{"a": [1,\n'), "is not JSON or JSON Lines"),
    ],
)  # fmt: skip
def test_what_is_no_data_is_said_in_a_sentence(make: Callable[[Path], Path], says: str, tmp_path: Path) -> None:
    with pytest.raises(CallError, match=says):
        detect(str(make(tmp_path)))


def _scored(name: str = "score", each: int = 1) -> str:
    """Numbers with fractions, each of them several times."""
    return f"text,{name}\n" + "".join(f"a text of some words and {n},{n // each / 7:.3f}\n" for n in range(120))


def _bomb() -> str:
    """A billion laughs, as a translation memory."""
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 9))
    unit = '<tu><tuv xml:lang="en"><seg>&e8;</seg></tuv></tu>'
    return f'<!DOCTYPE tmx [<!ENTITY e0 "{"lol" * 30}">{entities}]><tmx><body>{unit}</body></tmx>'


def _written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_text(text, encoding=encoding)
    return path


# ------------------------------------------------------------------------------------------------------------- archives
def _packed(folder: Path, archive: Path) -> None:
    files = {path: f"all/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*") if path.is_file()}
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w") as packed:
            for path, name in files.items():
                packed.write(path, name)
            packed.writestr("__MACOSX/all/red/._0.png", "junk")
            packed.writestr("../outside.png", "evil")
            packed.writestr("/outside.png", "evil")
            link = zipfile.ZipInfo("all/red/link.png")
            link.external_attr = 0o120777 << 16
            packed.writestr(link, "/etc/passwd")
    else:
        with tarfile.open(archive, "w:gz") as packed:
            for path, name in files.items():
                packed.add(path, name)
            evil = tarfile.TarInfo("../outside.png")
            packed.addfile(evil, io.BytesIO())
            evil.name, evil.type, evil.linkname = "all/red/link.png", tarfile.SYMTYPE, "/etc/passwd"
            packed.addfile(evil)


@pytest.mark.parametrize("name", ["photos.zip", "photos.tar.gz"])
def test_an_archive_is_unpacked_into_its_run_and_nowhere_else(name: str, tmp_path: Path) -> None:
    for number in range(8):
        _picture(tmp_path / "photos" / "red" / f"{number}.png", (200, 0, 0))
        _picture(tmp_path / "photos" / "blue" / f"{number}.png", (0, 0, 200))
    place = tmp_path / "in" / "here"
    place.mkdir(parents=True)
    _packed(tmp_path / "photos", place / name)
    said: list[str] = []
    recipe = config.read(make_recipe(str(place / name), place / "run", seconds=2, report=said.append))
    assert (recipe.job, recipe.data.train) == ("classify", str(place / "run" / "data" / "all"))
    assert any("blue (8), red (8)" in line for line in said)
    assert sorted(path.name for path in place.iterdir()) == sorted(["run", name])
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["here"]
    assert not list(place.rglob("link.png"))


@pytest.mark.parametrize("name", ["broken.tar", "broken.zip", "broken.tgz"])
def test_a_broken_archive_is_told_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(CallError, match="cannot be unpacked"):
        make_recipe(_written(tmp_path / name, "no archive"), tmp_path / "run", seconds=2)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_pictures_of_which_nothing_is_said(tmp_path: Path) -> None:
    for number in range(4):
        _picture(tmp_path / f"{number}.png", (1, 2, 3))
    with pytest.raises(CallError, match="without labels or texts"):
        detect(str(tmp_path))


def test_another_job_than_the_data_is_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="which is for the job classify"):
        plan(detect(str(labeled_without_header(tmp_path))), 5, job="translate")


def test_a_doubt_stops_where_nobody_is_sure(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="the other way round"):
        make_recipe(parallel_japanese(tmp_path), tmp_path / "run", seconds=5, sure=lambda doubt: False)
    assert not (tmp_path / "run" / RECIPE).exists()


def test_recipes_and_runs_are_no_data(tmp_path: Path) -> None:
    assert not is_data("translate-recurrent")
    assert not is_data(_written(tmp_path / "own.yaml", "job: translate"))
    assert not is_data("there-is-no-such-thing")
    assert is_data(plain_text(tmp_path))
    assert is_data([("a", "b")])


# ----------------------------------------------------------------------------------------------------- data from Python
def test_data_from_python_is_written_down_and_known(tmp_path: Path) -> None:
    pairs = [(f"one more cat is number {n}", f"encore un chat et le numéro {n}") for n in range(60)]
    assert detect(materialize(pairs, tmp_path / "a")).kinds == ("text", "text")
    texts, labels = [f"a text about {n} things" for n in range(60)], [n % 2 for n in range(60)]
    assert detect(materialize((texts, labels), tmp_path / "b")).kinds == ("text", "label")
    pictures = np.random.default_rng(0).integers(0, 255, (12, 3, 10, 14), dtype=np.uint8)  # channels first
    found = detect(materialize((pictures, ["x", "y"] * 6), tmp_path / "c"))
    assert (found.kinds, found.inputs[0][:2]) == (("image", "label"), (10, 14))
    table = {"date": [f"2024-01-{day:02d}" for day in range(1, 29)], "sold": list(range(28))}
    assert detect(materialize(table, tmp_path / "d")).kinds == ("series", "values")
    assert detect(materialize(torch.arange(60).sin(), tmp_path / "i")).kinds == ("series", "values")
    assert detect(materialize(["ab", "cd", "so it goes on"] * 9, tmp_path / "j")).kinds == ("nothing", "text")
    deep = [Image.fromarray(np.full((9, 9), 300 * n, np.uint16)) for n in range(12)]  # 16 bits
    found = detect(materialize((deep, [f"a gray of {n} shades" for n in range(12)]), tmp_path / "k"))
    assert found.kinds == ("image", "text")
    assert Image.open(tmp_path / "k" / "pictures" / "000009.png").getpixel((0, 0)) == 2700
    dark = [np.array([[0.0, 1], [1, 0]]), np.array([[0, 200], [8, 4]]), np.full((2, 2), 9, np.uint8)]
    materialize((dark, ["x", "y", "x"]), tmp_path / "l")  # what is white is decided once for all of them
    written = [np.array(Image.open(tmp_path / "l" / f"pictures/{at:06d}.png")).tolist() for at in range(3)]
    assert written == [[[0, 1], [1, 0]], [[0, 200], [8, 4]], [[9, 9], [9, 9]]]
    assert (white_of((dark, "xyx")), white_of((dark[:1], "x")), white_of(pairs), white_of(table)) == (255, 1, 1, 1)
    with pytest.raises(CallError, match="numbers from -1 to 3"):
        materialize(([np.array([[-1.0, 3.0]])], ["x"]), tmp_path / "m")
    with pytest.raises(CallError, match="must have equal lengths"):
        materialize({"a": [1], "b": [1, 2]}, tmp_path / "e")
    with pytest.raises(CallError, match="give a path, a table"):
        materialize(3.5, tmp_path / "f")
    told = {"horizon": 2, "look_back": 4}  # what is known better
    run = api.train(table, data=told, time_limit=3, training={"max_steps": 2}, output=tmp_path / "g")
    assert run.recipe.data.horizon == 2  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(CallError, match="give either data, or a recipe and its data"):
        api.train(table, data=str(tmp_path), output=tmp_path / "h")


def _reviews(count: int = 60) -> dict[str, Any]:
    said = ["good" if n % 2 else "bad" for n in range(count)]
    return {"n": [*range(count)], "review": [f"film {n} was long and {said[n]}" for n in range(count)], "said": said}


def _frame(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas", reason="needs pandas: pip install pandas").DataFrame(columns)


def test_an_index_without_a_name_is_no_column(tmp_path: Path) -> None:
    """A filter and a shuffle leave the numbers of rows behind, which are no times."""
    frame = _frame(
        {"a": [n * 7 % 10 for n in range(90)], "b": [n * 3 % 7 for n in range(90)], "kind": ["x", "y", "z"] * 30}
    )
    for number, changed in enumerate(
        (frame.sample(frac=1, random_state=1), frame[frame.a > 2], frame.set_axis([*"ab" * 45]))
    ):
        with pytest.raises(CallError, match="in no order"):
            detect(materialize(changed, tmp_path / str(number)))
    days = pytest.importorskip("pandas", reason="needs pandas: pip install pandas").date_range("2024-01-01", periods=90)
    timed = frame.drop(columns="kind").set_index(days)
    assert detect(materialize(timed, tmp_path / "days")).data["time"] == "time"
    assert detect(materialize(timed.rename_axis("day"), tmp_path / "day")).data["time"] == "day"


@pytest.mark.parametrize("missing", [None, float("nan"), "NaT", "NA"])
def test_rows_without_a_label_are_left_out_and_reported(missing: object, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
    missing = getattr(pandas, missing) if isinstance(missing, str) else missing
    columns = _reviews()
    columns["said"] = [missing if n % 5 == 0 else said for n, said in enumerate(columns["said"])]
    for number, data in enumerate((_frame(columns), (columns["review"], columns["said"]), columns)):
        said: list[str] = []
        recipe = make_recipe(
            data, tmp_path / str(number), seconds=1, overrides={"training.max_steps": 1}, report=said.append
        )
        assert any("12 of 60 rows are left out" in line for line in said), said
        assert any("2 classes in 48 examples: good (24), bad (24)" in line for line in said), said
        assert "nan" not in recipe.read_text(encoding="utf-8")


@pytest.mark.parametrize("missing", ["", "nan", "None", "NaN", None])
def test_rows_of_a_file_without_a_label_are_left_out_and_counted(missing: str | None, tmp_path: Path) -> None:
    rows = [(f"a film of {n} hours", ("good", "bad", missing)[n % 3]) for n in range(60)]
    if missing is None:
        lines = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)
        file = _written(tmp_path / "a.jsonl", lines)
    else:
        file = _written(tmp_path / "a.csv", "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    said: list[str] = []
    recipe = make_recipe(
        str(file), tmp_path / "run", seconds=2, overrides={"training.max_steps": 1}, report=said.append
    )
    text = "\n".join(said)
    assert "40 examples" in text
    assert "2 classes in 40 examples: good (20), bad (20)" in text
    assert "20 rows have no label" in text
    run = api.train(recipe, output=tmp_path / "run")
    assert {*run.predict("a film").probabilities} == {"good", "bad"}
    assert run.evaluate(test=str(file)).values["examples"] == 40


def _several(write: Callable[[list[str]], str], name: str = "a.csv") -> Callable[[Path], Path]:
    """Two labels that come alone, together and not at all."""

    def make(folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        labels = [["big"] * (n % 2) + ["very red"] * (n % 3 > 0) for n in range(60)]
        rows = zip((f"a {' '.join(some)} house of {n} rooms" for n, some in enumerate(labels)), labels, strict=True)
        if name.endswith(".jsonl"):
            lines = (json.dumps({"text": text, "labels": some}) for text, some in rows)
            return _written(folder / name, "\n".join(lines) + "\n")
        lines = (f'{text},"{write(some)}"' for text, some in rows)
        return _written(folder / name, "text,labels\n" + "\n".join(lines) + "\n")

    return make


SEVERAL = {
    "semicolons": (_several(";".join), ";"), "bars": (_several("|".join), "|"), "commas": (_several(", ".join), ","),
    "json": (_several(lambda some: json.dumps(some).replace('"', '""')), "|"), "python": (_several(str), "|"),
    "jsonl": (_several(str, "a.jsonl"), "|"),
}  # fmt: skip


@pytest.mark.parametrize("form", SEVERAL)
def test_cells_with_several_labels_are_known_and_trained_as_such(form: str, tmp_path: Path) -> None:
    make, separator = SEVERAL[form]
    file, said = make(tmp_path), list[str]()
    small = {"training.max_steps": 2, "data.test_share": 0.25}
    recipe = make_recipe(str(file), tmp_path / "run", seconds=2, overrides=small, report=said.append)
    text = "\n".join(said)
    assert f"2 labels, several a row (data.separator={separator!r}): very red (40), big (30); 10 rows have no" in text
    tree = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    assert (tree["data"]["separator"], tree["training"]["metric"]) == (separator, "micro_f1")
    run = api.train(recipe, output=tmp_path / "run")
    assert {*run.predict("a big house").probabilities} == {"big", "very red"}
    assert run.summary()["test"]["metric"] == "micro_f1"
    assert run.evaluate(test=str(file)).values["examples"] == 60


def _columns_of_labels(folder: Path, *, lines: bool = False) -> Path:
    """As the comments of Jigsaw: a column of 0 and 1 for each label."""
    rows = [
        (f"{n:06x}", f"a comment {'bad ' * (n % 2)}{'rude ' * (n % 3 == 0)}of {n}", n % 2, int(n % 3 == 0))
        for n in range(60)
    ]
    names = ("id", "comment_text", "toxic", "obscene")
    if lines:
        objects = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
        return _written(folder / "a.jsonl", "".join(one + "\n" for one in objects))
    written = "".join(",".join(map(str, row)) + "\n" for row in rows)
    return _written(folder / "a.csv", f"{','.join(names)}\n{written}")


@pytest.mark.parametrize("form", ["csv", "jsonl", "frame"])
def test_several_columns_of_zeros_and_ones_are_all_labels(form: str, tmp_path: Path) -> None:
    file = _columns_of_labels(tmp_path, lines=form == "jsonl")
    data: Any = str(file)
    if form == "frame":
        data = pytest.importorskip("pandas", reason="needs pandas: pip install pandas").read_csv(file)
    said: list[str] = []
    small = {"training.max_steps": 2, "data.test_share": 0.25, "model.width": 8}
    recipe = make_recipe(data, tmp_path / "run", seconds=3, overrides=small, report=said.append)
    assert any(
        "2 labels, a column each, several a row: toxic (30), obscene (20); 20 rows have no" in one for one in said
    )
    run = api.train(recipe, output=tmp_path / "run")
    assert {*run.predict("a bad comment").probabilities} == {"toxic", "obscene"}
    assert run.recipe.data.label == "toxic+obscene"
    scores = run.evaluate(test=data)
    assert scores.values["examples"] == 60
    assert {row["class"]: row["examples"] for row in scores.details["by class"]} == {"toxic": 30, "obscene": 20}


def test_columns_of_zeros_and_ones_beside_a_label(tmp_path: Path) -> None:
    file = _columns_of_labels(tmp_path)
    assert detect(str(file), Hints({"label": "toxic"})).data["label"] == "toxic"
    table = file.read_text().splitlines()
    named = [f"{line},{('mood', 'good', 'bad')[(n > 0) + (n > 0) * n % 2]}" for n, line in enumerate(table)]
    assert (
        detect(str(_written(tmp_path / "b.csv", "\n".join(named).replace("mood", "sentiment")))).data["label"]
        == "sentiment"
    )
    with pytest.raises(CallError, match="set what separates labels"):
        api.check("languages", {"data.train": str(file), "data.text": "comment_text", "data.label": "toxic+obscene"})
    with pytest.raises(CallError, match="no such column: 'toxik'"):
        api.check("languages", {"data.train": str(file), "data.label": "toxik+obscene", "data.separator": "|"})


def test_names_with_commas_and_separators_that_the_user_says_are_no_several_labels(tmp_path: Path) -> None:
    places = ("Kingston, Jamaica", "Port of Spain, Trinidad", "Bridgetown, Barbados")
    rows = "".join(f'the sea on day {n},"{places[n % 3]}"\n' for n in range(60))
    assert "separator" not in detect(str(_written(tmp_path / "a.csv", f"text,label\n{rows}"))).data
    file = str(SEVERAL["semicolons"][0](tmp_path / "b"))
    assert "separator" not in detect(file, Hints({"separator": None})).data
    assert detect(
        str(_written(tmp_path / "c.csv", Path(file).read_text().replace(";", "+"))), Hints({"separator": "+"})
    )


def test_rows_that_alternate_are_all_seen_in_a_large_file(tmp_path: Path) -> None:
    rows = "".join(f"{'a good film' if n % 2 else 'a bad film'} of {n} hours,{n % 2}\n" for n in range(9001))
    found = detect(str(_written(tmp_path / "a.csv", f"text,label\n{rows}")))
    assert (found.count, {*found.targets}) == (9001, {"0", "1"})
    assert "2 classes in 9,001 examples: 0 (4,501), 1 (4,500)" in found.beliefs


@pytest.mark.parametrize("name", ["label", "target", "intent"])
@pytest.mark.parametrize("of", ["class {}", "{}"])
def test_a_column_that_is_called_a_label_is_one_with_thousands_of_classes(name: str, of: str, tmp_path: Path) -> None:
    rows = "".join(f"a good film of {n} hours,{of.format(n * 7 % 3000)}\n" for n in range(9000))
    found = detect(str(_written(tmp_path / "a.csv", f"text,{name}\n{rows}")))
    assert (found.kinds, found.data["label"]) == (("text", "label"), name)
    assert any(belief.startswith("3,000 classes in 9,000 examples") for belief in found.beliefs)
    texts = "".join(f"ein Film von {n} Stunden,film {n // 2}\n" for n in range(900))
    assert detect(str(_written(tmp_path / "b.csv", f"source,target\n{texts}"))).kinds == ("text", "text")


def test_whole_numbers_stay_whole_where_some_are_missing(tmp_path: Path) -> None:
    frame = _frame(
        {"text": [f"a film of {n} hours" for n in range(60)], "label": [[1, 0, None][n % 3] for n in range(60)]}
    )
    found = detect(materialize(frame, tmp_path))
    assert ({*found.targets}, found.count) == ({"1", "0"}, 40)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_tables_of_other_libraries(kind: str, tmp_path: Path) -> None:
    library = pytest.importorskip(kind, reason=f"needs {kind}: pip install {kind}")
    make = library.table if kind == "pyarrow" else library.DataFrame
    found = detect(materialize(make(_reviews()), tmp_path / "a"))
    assert (found.kinds, found.data["text"], found.data["label"]) == (("text", "label"), "review", "said")
    lists = make(
        {"text": [f"a film of {n} hours" for n in range(60)], "labels": [["a", "b"][: 1 + n % 2] for n in range(60)]}
    )
    assert detect(materialize(lists, tmp_path / "b")).data["separator"] == "|"
    with pytest.raises(CallError, match="the table has no rows"):
        materialize(make({"text": [], "label": []}), tmp_path / "c")


def test_doubled_names_of_columns_are_refused(tmp_path: Path) -> None:
    frame = _frame({"text": ["a"] * 9, "label": ["b"] * 9, "more": ["c"] * 9}).set_axis(
        ["text", "label", "text"], axis=1
    )
    with pytest.raises(CallError, match="has 2 columns named 'text'"):
        materialize(frame, tmp_path / "frame")
    rows = "".join(f"film {n} was long,{'ab'[n % 2]},and more of it\n" for n in range(60))
    with pytest.raises(CallError, match="2 columns named 'text'"):
        detect(str(_written(tmp_path / "a.csv", f"text,label,text\n{rows}")))
    with pytest.raises(CallError, match="2 columns named 'text'"):
        api.check("languages", {"data.train": str(tmp_path / "a.csv")})
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    cells = pyarrow.array(["a", "b"] * 9)
    parquet.write_table(pyarrow.Table.from_arrays([cells] * 3, ["text", "label", "text"]), tmp_path / "a.parquet")
    with pytest.raises(CallError, match="2 columns named 'text'"):
        detect(str(tmp_path / "a.parquet"))


def test_tables_train_test_and_predict_row_by_row(tmp_path: Path) -> None:
    """The columns of training are found in any table, whatever the order of its columns."""
    frame, small = _frame(_reviews()), {"model": {"width": 8, "embedding": 8}, "max_steps": 2}
    run = api.train(frame, data={"valid": frame[:20]}, time_limit=2, output=tmp_path / "a", **small)
    new = frame[["said", "review", "n"]].sample(frac=1, random_state=0)[:7]
    found = run.predict(new)
    assert [one.input for one in found] == new["review"].tolist()
    assert [one.input for one in run.predict(new["review"])] == new["review"].tolist()
    for number, data in enumerate((frame, (frame["review"], frame["said"]), (frame[["review"]], frame["said"]))):
        scores = run.evaluate(data) if number else run.evaluate(test=data)
        assert scores.values["examples"] == 60
    with pytest.raises(CallError, match="no column 'review', which the model was trained on; it has n, said"):
        run.predict(new[["n", "said"]])
    with pytest.raises(CallError, match="row 1 of the table has no text"):
        run.predict(_frame({"review": ["a", None]}))
    with pytest.raises(CallError, match="the table has no rows"):
        run.evaluate(frame[:0])
    assert run.predict(frame[:0]) == []
    calls: list[dict[str, Any]] = [
        {"recipe": "languages", "data": {"train": frame, "valid": frame, "text": "review", "label": "said"}},
        {"recipe": "languages", "data": _frame({"text": frame["review"], "label": frame["said"]})},
        {"data": {"train": frame, "valid": frame}},
        {"recipe": {"train": frame, "test": frame}},
        {"X": frame["review"], "y": frame["said"]},
    ]
    for number, call in enumerate(calls):
        trained = api.train(**call, time_limit=2, output=tmp_path / str(number), **small)
        assert trained.job.output.recipe.job == "classify"
        assert trained.predict("a good film").text in ("bad", "good")
    with pytest.raises(CallError, match="X and y belong together"):
        api.train(X=frame["review"], output=tmp_path / "z")


# ------------------------------------------------------------------------------------------------ two parallel files
def _sides(folder: Path, *named: str, lines: int = 40) -> list[str]:
    for at, name in enumerate(named):
        _written(folder / name, "".join(f"{'this is' if not at else 'das ist'} {n} .\n" for n in range(lines)))
    return [str(folder / name) for name in named]


@pytest.mark.parametrize(
    "names", [("a.en", "a.de"), ("a.sme", "b.x-klingon"), ("left", "right"), ("a[1].en", "a[1].de")]
)
def test_two_parallel_files_are_two_arguments(names: tuple[str, str], tmp_path: Path, capsys: Any) -> None:
    files, out = _sides(tmp_path, *names), tmp_path / "run"
    small = ["training.max_steps=2", "model.width=8", "data.test_share=0.25"]
    cli.main(["train", *files, *small, "--time-limit", "3s", "-o", str(out)], standalone_mode=False)
    said = capsys.readouterr().err
    assert f"line i of {names[0]} belongs to line i of {names[1]}" in said
    assert "40 examples" in said
    assert api.load(out).summary()["test"]["all"] == 10
    cli.main(["evaluate", str(out)], standalone_mode=False)
    run = api.train(files, output=tmp_path / "python", max_steps=2, time_limit=3, model={"width": 8})
    assert run.recipe.data.train == ",".join(files)
    cli.main(["check", *files], standalone_mode=False)


def test_two_files_that_are_no_parallel_texts_are_refused(tmp_path: Path) -> None:
    one, two = _sides(tmp_path, "a.en", "a.de")
    (short,) = _sides(tmp_path, "b.de", lines=37)
    (table,) = (str(_written(tmp_path / f"{part}.csv", "text,label\n")) for part in ["test"])
    for files, says in (
        ((one, short), "a.en has 40 lines and .*b.de 37: in parallel files"), ((one, two, short), "3 files: give one"),
        ((table, one), "test.csv is a table .*data.test="),
    ):  # fmt: skip
        with pytest.raises(CallError, match=says):
            cli.main(["train", *files, "-o", str(tmp_path / "run")], standalone_mode=False)
        with pytest.raises(CallError, match=says):
            api.train([*files], output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_languages_of_any_code_are_parallel_in_a_folder(tmp_path: Path) -> None:
    _sides(tmp_path, "train.sme", "train.fkv", "test.sme", "test.fkv")
    found = detect(str(tmp_path)).data
    assert [Path(one).name for one in found["test"].split(",")] == ["test.fkv", "test.sme"]


# -------------------------------------------------------------------------------------- folders of several data sets
def test_a_folder_of_several_data_sets_is_refused_with_a_command_for_each(tmp_path: Path) -> None:
    """Nothing is trained on one of them by chance."""
    pairs_with_semicolons(tmp_path)
    labeled_without_header(tmp_path)
    questions(tmp_path)
    _written(tmp_path / "asked2.json", (tmp_path / "asked.json").read_text(encoding="utf-8"))
    with pytest.raises(CallError, match="holds several data sets; name one") as refused:
        make_recipe(str(tmp_path), tmp_path / "run", seconds=1)
    listed = [line.split()[2:] for line in str(refused.value).splitlines()[1:]]
    kinds = {"asked.json": "question → span", "asked2.json": "question → span"}
    kinds |= {"said.tsv": "text → label", "verbs.csv": "text → text"}
    assert listed == [[str(tmp_path / name), *kind.split()] for name, kind in kinds.items()]
    assert not (tmp_path / "run").exists()


def test_data_sets_that_each_have_their_parts_are_listed_with_them(tmp_path: Path) -> None:
    for name in ("a_train.csv", "a_test.csv", "b_train.csv", "b_dev.csv"):
        _written(tmp_path / name, "text,label\n" + "".join(f"film {n} was so long,{n % 2}\n" for n in range(40)))
    with pytest.raises(CallError) as refused:
        detect(str(tmp_path))
    assert str(refused.value).splitlines()[1:] == [
        f"  regard train {tmp_path}/a_train.csv data.test={tmp_path}/a_test.csv",
        f"  regard train {tmp_path}/b_train.csv data.valid={tmp_path}/b_dev.csv",
    ]


@pytest.mark.parametrize(
    ("names", "role"),
    [
        ("train.csv wnut17train.conll ECG200_TRAIN.ts RestaurantsTrain.xml traindata.tsv en-ud-train.conllu", "train"),
        ("dev.tsv emerging.dev.conll val2017 eng.testa my_validation_set.csv newsdev2016.de", "valid"),
        ("test.csv emerging.test.annotated eng.testb newstest2014.en testset.csv ECG200_TEST.ts", "test"),
        ("latest.csv contest.csv device.csv evaluate.csv train_test.csv trains.csv data.csv values.csv", None),
    ],
)
def test_names_speak_of_parts(names: str, role: str | None) -> None:
    assert {name: role_of(name) for name in names.split()} == dict.fromkeys(names.split(), role)


def test_one_list_of_pictures_of_several_is_not_taken_by_chance(tmp_path: Path) -> None:
    place = captioned(tmp_path)
    _written(place / "kinds.csv", "file,kind\n" + "".join(f"{n}.jpg,{'ab'[n % 2]}\n" for n in range(40)))
    with pytest.raises(CallError, match=r"regard train .*kinds.csv +image → label\n.*list.csv +image → text"):
        detect(str(place))


@pytest.mark.parametrize(("seconds", "limit"), [([3.0] * 40 + [300.0], 30.0), ([60.0] * 41, 72.5)])
def test_a_batch_holds_the_longest_recording_that_training_hears(seconds: list[float], limit: float) -> None:
    facts = [(8000, one) for one in seconds]
    sample = Sample(41, facts, ["one two three"] * 40 + ["four"], 20.0)
    spoken, labeled = (
        decide(("sound", output), sample) for output, decide in (("text", writing.transcribe), ("label", labels.decide))
    )
    chosen = [{one.key: one.value for one in found.decisions} for found in (spoken, labeled)]
    assert [one["data.max_seconds"] for one in chosen] == [limit, 10.0]
    for found, one in zip((spoken, labeled), chosen, strict=True):
        slowest = one["data.max_seconds"] / min(one["data.augment.speeds"])
        assert found.usual >= found.batch >= 100 * slowest


def test_a_batch_holds_the_longest_series(tmp_path: Path) -> None:
    for number in range(12):
        file = tmp_path / "data" / ("up", "down")[number % 2] / f"{number}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        steps = 6000 if number == 11 else 20
        file.write_text("value\n" + "".join(f"{step % 7}.5\n" for step in range(steps)))
    found = detect(str(tmp_path / "data"))
    assert found.kinds == ("series", "label")
    made = labels.decide(found.kinds, Sample(found.count, found.inputs, found.targets, 20.0))
    assert made.usual >= made.batch >= 6002
    rows = "".join(
        f"s{n},{'a' if n % 2 else 'b'},{step}.5\n" for n in range(12) for step in range(5000 if n == 3 else 9)
    )
    (tmp_path / "rows.csv").write_text("id,label,value\n" + rows)
    (facts,) = detect(str(tmp_path / "rows.csv")).inputs
    assert (facts.steps, facts.longest) == (9, 5000)


@pytest.mark.parametrize(
    ("own", "requested", "epochs", "steps"),
    [
        ({}, {}, 500, 2000),  # 2,000 steps at least, if there is time
        ({"max_epochs": 5}, {}, 5, 20),  # a pretrained model needs few passes, and then less warmup
        ({"max_epochs": 5}, {"training.max_epochs": 2}, 2, 8),
        ({}, {"training.max_steps": 3}, 500, 3),
    ],
)
def test_the_schedule_is_that_of_the_steps_that_will_be_made(
    own: dict[str, Any], requested: dict[str, Any], epochs: int, steps: int
) -> None:
    size = Size("any", {"width": 8}, 6.0, 0, own)
    found = {one.key: one for one in of_size(size, set(), Measured(0.01, 4), 600.0, requested)}
    if not own:
        assert found["training.max_epochs"].value == epochs
        assert f"about {steps:,} steps" in found["training.max_epochs"].why
    warmup, every = found["training.warmup"], found["training.validate_every"]
    assert warmup.value == {2000: 100, 20: 10, 8: 4, 3: 1}[steps]
    assert warmup.why == {2000: "a twentieth of the steps", 20: "10 at the least"}.get(
        steps, f"half of about {steps} steps"
    )
    assert every.why == f"about {max(1, steps // every.value)} validation{'s' if steps >= 20 else ''}"
