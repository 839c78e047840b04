"""The data check: each fault that is put into good data is found, with its lines and its count."""

import io
import json

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import regard
from doc_commands import ROOT
from regard.data.check_report import CheckReport
from regard.data.check_table import check_table
from regard.errors import RegardError
from regard.inputs.text.settings import PairDataSettings
from translate_example import prepared as prepare

SOURCES = [f"n{number} is a number of value {number} today" for number in range(200)]
TARGETS = [f"n{number} ist eine Zahl vom Wert {number} heute" for number in range(200)]


MORE = "give training data that has them"


def checked(tmp_path, pairs, valid=None, **settings) -> CheckReport:
    """The report on training pairs and validation pairs, given as (sources, targets)."""
    valid = valid or (["a number of today"], ["eine Zahl von heute"])
    for name, (sources, targets) in (("train", pairs), ("valid", valid)):
        (tmp_path / f"{name}.en").write_text("".join(f"{text}\n" for text in sources))
        (tmp_path / f"{name}.de").write_text("".join(f"{text}\n" for text in targets))
    options = PairDataSettings(
        **{
            "train": f"{tmp_path / 'train.en'},{tmp_path / 'train.de'}",
            "valid": f"{tmp_path / 'valid.en'},{tmp_path / 'valid.de'}",
            "tokenizer": {"kind": "character"},
            **settings,
        }
    )
    return prepare(options, tmp_path / "cache", strict=False).check()


def found(report):
    return [(finding.severity, finding.split, finding.count, finding.lines) for finding in report.findings]


def changed(texts, **lines):
    """`texts` with other lines: `line_3="..."` is the third."""
    texts = list(texts)
    for name, text in lines.items():
        texts[int(name.removeprefix("line_")) - 1] = text
    return texts


def test_good_data_has_no_findings(tmp_path):
    report = checked(tmp_path, (SOURCES, TARGETS))
    assert report.findings == []
    report.refuse_if_errors()
    train = report.splits["train"]
    assert (train.pairs, train.skipped) == (200, 0)
    assert train.source.tokens == sum(map(len, SOURCES))
    lengths = sorted(len(text) + 1 for text in SOURCES)
    assert train.source.lengths == {50: lengths[99], 90: lengths[179], 99: lengths[197], 100: lengths[199]}


def test_duplicates_and_copies(tmp_path):
    sources = changed(SOURCES, line_5=SOURCES[0], line_9=SOURCES[0], line_100=TARGETS[99])
    targets = changed(TARGETS, line_5=TARGETS[0], line_9=" ".join([*TARGETS[0].split()]))
    report = checked(tmp_path, (sources, targets))
    assert found(report) == [("note", "train", 2, [5, 9]), ("note", "train", 1, [100])]
    assert "2 pairs (1.0%) repeat an earlier one" in report.findings[0].what
    assert "target equal to the source" in report.findings[1].what


def test_validation_pairs_that_training_has_too(tmp_path):
    valid = (["a date", SOURCES[7], SOURCES[8]], ["eine Zahl", TARGETS[7], "heute ist eine Zahl"])
    report = checked(tmp_path, (SOURCES, TARGETS), valid)
    assert found(report) == [("warning", "valid", 1, [2]), ("warning", "valid", 1, [3])]
    assert "training has too" in report.findings[0].what
    assert "with another target" in report.findings[1].what


def test_lengths_and_what_the_limit_does(tmp_path):
    sources = changed(SOURCES, line_20="x" * 90, line_30="y" * 60)
    targets = changed(TARGETS, line_20="x" * 80)
    report = checked(tmp_path, (sources, targets), max_length=80, overlong="cut")
    (finding,) = report.findings
    assert (finding.count, finding.lines, finding.severity) == (1, [20], "note")
    assert finding.advice == "they are cut; data.max_length=91 would keep all"
    assert report.splits["train"].pairs == 200
    skipped = checked(tmp_path, (sources, targets), max_length=50)
    (finding,) = skipped.findings
    assert (finding.count, finding.lines, finding.severity) == (2, [20, 30], "note")
    assert finding.advice == "they are skipped; data.max_length=91 would keep all"
    assert skipped.splits["train"].skipped == 2


def test_sides_of_very_unequal_length(tmp_path):
    report = checked(tmp_path, (SOURCES, changed(TARGETS, line_50="ja")))
    assert found(report) == [("warning", "train", 1, [50])]
    assert "4 times longer than usual" in report.findings[0].what


def test_unknown_words(tmp_path):
    valid = (["1 2 xxx", "yyy 3"], ["1 2", "3"])
    tokenizer = {"kind": "word", "min_frequency": 2}
    report = checked(tmp_path, (["1 2 3", "1 2 3"], ["1 2 3", "2 3 1"]), valid, tokenizer=tokenizer)
    unknown = [finding for finding in report.findings if "vocabulary" in finding.what]
    assert [finding.what for finding in unknown] == ["2 of 5 source tokens (40.0%) are not in the vocabulary"]
    (advice,) = [finding.advice for finding in unknown]
    assert "tokenizer.size" not in advice, "the vocabulary is not full"
    assert advice == "lower data.tokenizer.min_frequency, or use data.tokenizer.kind=bpe, or " + MORE
    full = checked(tmp_path, (["1 2 3 4 5", "1 2"], ["1 2 3", "2 3 1"]), valid, tokenizer={"kind": "word", "size": 8})
    (advice,) = [one.advice for one in full.findings if "source tokens" in one.what and one.split == "valid"]
    assert advice == "raise data.tokenizer.size, or use data.tokenizer.kind=bpe, or " + MORE
    assert report.splits["valid"].source.unknown_rate == 0.4
    assert report.splits["valid"].target.unknown_rate == 0


def test_bad_lines_are_warnings_until_they_are_too_many(tmp_path):
    (tmp_path / "bad.tsv").write_bytes(b"a\tb\nc\td\n\xfft\tx\n\nonly\n" + b"e\t \n")
    train = str(tmp_path / "bad.tsv")
    report = checked(tmp_path, (SOURCES, TARGETS), train=train, max_bad=0.9)
    assert [item for item in found(report) if item[1] == "train"] == [
        ("warning", "train", 1, [3]),
        ("warning", "train", 1, [5]),
        ("warning", "train", 1, [6]),
        ("note", "train", 1, [4]),
    ]
    assert "1 pair cannot be used: byte 1 (0xff) is not UTF-8" in report.findings[0].what
    assert "iconv" in report.findings[0].advice
    strict = checked(tmp_path, (SOURCES, TARGETS), train=train)
    assert [finding.severity for finding in strict.errors] == ["error"] * 3
    assert "60.0% of all are bad, data.max_bad allows 1.0%" in strict.errors[0].advice
    with pytest.raises(RegardError, match=r"cannot be trained on:\n .*bad.tsv: 1 pair cannot be used"):
        strict.refuse_if_errors()


def test_files_that_do_not_pair_up(tmp_path):
    report = checked(tmp_path, (SOURCES, TARGETS[:-3]))
    (error,) = report.errors
    assert (error.count, error.lines, error.file) == (3, [198], str(tmp_path / "train.en"))
    assert "train.en has 200 lines" in error.what
    assert "train.de has 197" in error.what


def test_the_report_as_json_and_as_a_table(tmp_path):
    folder = tmp_path / "[bold]odd"  # a name that rich would take for mark-up
    folder.mkdir()
    report = checked(folder, (changed(SOURCES, line_5=SOURCES[0]), changed(TARGETS, line_5=TARGETS[0])))
    read = json.loads(json.dumps(report.as_dict()))
    assert read["ok"] is True
    assert read["findings"][0]["lines"] == [5]
    assert read["splits"]["train"]["source"]["lengths"]["50"] > 20
    screen = io.StringIO()
    Console(file=screen, width=400).print(check_table(report))
    assert f"{folder / 'train.en'},{folder / 'train.de'}, line 5" in screen.getvalue()
    assert "note    train: 1 pair (0.5%) repeats an earlier one" in screen.getvalue()


def test_what_a_recipe_fixes_and_the_data_contradicts_is_found(tmp_path):
    chance = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(12):
            pixels = chance.integers(0, 255, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{number}.png")
    photos = f"data.train={tmp_path / 'photos'}"
    pairs = f"data.train={ROOT / 'examples' / 'pairs.tsv'}"

    def warned(recipe, *overrides):
        return [one.what for one in regard.check(recipe, overrides).findings if one.severity == "warning"]

    small = ("data.height=8", "data.width=8", "data.channels=1")
    found = warned("digits-vit", photos, *small, "training.max_tokens=18")
    assert "pictures are 32×32 color, the recipe makes them 8×8 gray" in found
    assert "1 image a step: training.max_tokens=18 holds no more" in found
    fitting = warned("digits-vit", photos, "training.max_tokens=9999")  # whose sizes are auto
    assert not [what for what in fitting if "recipe makes" in what or "a step" in what]
    short = warned("translate-transformer", pairs, "decoding.max_length=3")
    assert any("longer than decoding.max_length=3 tokens" in what for what in short)
    assert not any("longer than decoding" in what for what in warned("translate-transformer", pairs))
    lines = [f"S1,2024-01-{day:02d},{day}.5" for day in range(1, 29)]
    (tmp_path / "sold.csv").write_text("\n".join(lines), encoding="utf-8")
    unnamed = warned("stocks-forecast", f"data.train={tmp_path / 'sold.csv'}", "data.look_back=4", "data.horizon=2")
    assert any("the first row of data became column names: 1.5" in what for what in unnamed), unnamed
    named = warned("stocks-forecast", f"data.train={ROOT / 'examples' / 'series.csv'}", "data.look_back=4")
    assert not any("became column names" in what for what in named)
