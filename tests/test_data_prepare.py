"""Stores and their preparation: what is read comes back, once is enough, and what was lost is counted."""

import os
import re
import threading
import time
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from regard.data.files import PairSource
from regard.data.labels import Spread, evenly
from regard.data.pairs import Pair, ReadReport, SkippedLine
from regard.data.prepare import PrepareCache, Split, built_once
from regard.data.settings import TokenizerSettings
from regard.data.store import Store, text_hash
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.files.lines import estimate_lines
from regard.inputs.text.pairs import write_pairs
from regard.inputs.text.settings import PairDataSettings
from regard.work import showing_progress, with_progress
from translate_example import prepared as prepare

NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def sentence(number: int) -> str:
    return " ".join(NUMBERS[int(digit)] for digit in str(number))


@pytest.fixture
def made(tmp_path):
    """Settings for 300 training pairs (a number in words; its digits) and 7 validation pairs."""
    for name, numbers in (("train", range(300)), ("valid", range(300, 307))):
        lines = "".join(f"{sentence(number)}\t{' '.join(str(number))}\n" for number in numbers)
        (tmp_path / f"{name}.tsv").write_text(lines)
    return PairDataSettings(
        train=str(tmp_path / "train.tsv"),
        valid=str(tmp_path / "valid.tsv"),
        tokenizer=TokenizerSettings(kind="word"),
    )


def changed(settings: PairDataSettings, **fields) -> PairDataSettings:
    return PairDataSettings(**(settings.model_dump() | fields))


def steps_of(cache) -> dict[str, int]:
    """The steps that are in the cache, and when each was built."""
    return {path.name: path.stat().st_mtime_ns for path in cache.iterdir()}


def test_what_is_read_comes_back(made, tmp_path):
    prepared = prepare(made, tmp_path / "cache")
    assert prepared.texts() == [(sentence(number), " ".join(str(number))) for number in range(300)]
    assert prepared.texts("valid")[-1] == ("three zero six", "3 0 6")
    assert "test" not in prepared.splits
    store = prepared.store()
    source, target = store.row("source", 123), store.row("target", 123)
    assert (source[-1], target[-1], len(source), len(target)) == (3, 3, 4, 4)
    assert source.dtype == np.uint16
    assert [store.row_lengths(side)[123] for side in ("source", "target")] == [4, 4]
    assert store.lines[123] == 124
    assert store.hashes[7].tolist() == [text_hash("seven"), text_hash("7")]


def test_nothing_is_built_twice_while_nothing_changes(made, tmp_path):
    cache = tmp_path / "cache"
    prepare(made, cache)
    steps = steps_of(cache)
    assert {name.rpartition("-")[0] for name in steps} == {"count", "vocabulary", "targets", "train", "valid"}
    prepare(made, cache)
    assert steps_of(cache) == steps
    prepare(changed(made, max_length=5), cache)
    more = steps_of(cache)
    assert more.items() > steps.items()
    assert {name.rpartition("-")[0] for name in more.keys() - steps} == {"train", "valid"}


@pytest.mark.parametrize("how", ["size", "time"])
def test_a_changed_file_is_read_again(made, tmp_path, how):
    prepare(made, tmp_path / "cache")
    valid = tmp_path / "valid.tsv"
    if how == "size":
        valid.write_text(valid.read_text() + "nine\t9\n")
    else:
        before = valid.stat()
        valid.write_text(valid.read_text().replace("3 0 6", "6 0 3"))
        os.utime(valid, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))
    before = steps_of(tmp_path / "cache")
    prepared = prepare(made, tmp_path / "cache")
    assert len(steps_of(tmp_path / "cache").keys() - before) == 1
    assert prepared.texts("valid")[-1] == (("nine", "9") if how == "size" else ("three zero six", "6 0 3"))


def test_a_store_cut_short_is_built_again(made, tmp_path):
    prepare(made, tmp_path / "cache")
    (folder,) = (tmp_path / "cache").glob("train-*")
    ids = folder / "source"
    ids.write_bytes(ids.read_bytes()[:-2])
    with pytest.raises(RegardError, match="not a valid store of examples"):
        Store(folder)
    assert len(prepare(made, tmp_path / "cache").texts()) == 300


@pytest.mark.parametrize(
    ("where", "damage", "said"),
    [
        ("train-*/source", lambda file: file.write_bytes(file.read_bytes()[::-1]), "source has changed"),
        ("vocabulary-*/vocabulary.json", lambda file: file.write_text("{"), "vocabulary.json has changed"),
        ("vocabulary-*/vocabulary.json", lambda file: file.unlink(), "vocabulary.json is missing"),
        ("count-*/B2SUMS", lambda file: file.unlink(), "B2SUMS is missing"),
        ("count-*/B2SUMS", lambda file: file.write_bytes(b"\xff"), "it cannot be read"),
        ("count-*/count.json", lambda file: file.with_name("more").write_text(""), "more is none of its files"),
    ],
)
def test_a_damaged_step_is_told_and_built_again(made, tmp_path, capfd, where, damage, said):
    whole = prepare(made, tmp_path / "cache").texts()
    steps = steps_of(tmp_path / "cache")
    (file,) = (tmp_path / "cache").glob(where)
    before = {path.name: path.read_bytes() for path in file.parent.iterdir()}
    damage(file)
    assert prepare(made, tmp_path / "cache").texts() == whole
    built = dict(steps_of(tmp_path / "cache").items() - steps.items())
    assert set(built) == {file.parent.name}, "only the damaged step is built again"
    assert f"{file.parent} is damaged ({said}" in capfd.readouterr().err
    assert {path.name: path.read_bytes() for path in file.parent.iterdir()} == before
    assert not list((tmp_path / "cache").glob(".*"))


def test_the_digests_are_those_of_b2sum(tmp_path):
    folder = built_once(tmp_path, "step", "key", lambda folder: (folder / "letters").write_text("abc"))
    line = (folder / "B2SUMS").read_text()
    assert line.startswith("ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b7")  # of abc: RFC 7693, appendix A
    assert line.endswith("  letters\n")


def test_a_build_that_dies_leaves_no_result(made, tmp_path, monkeypatch):
    def killed(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.inputs.text.input.write_pairs", killed)
    with pytest.raises(KeyboardInterrupt):
        prepare(made, tmp_path / "cache")
    assert {path.name.split("-")[0] for path in (tmp_path / "cache").iterdir()} == {"count", "vocabulary", "targets"}


def test_processes_that_build_at_the_same_time_do_not_disturb_each_other(made, tmp_path):
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(prepare(made, tmp_path / "cache").texts())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(result == results[0] for result in results)
    assert not list((tmp_path / "cache").glob(".*"))


def test_vocabularies_joint_separate_and_given(made, tmp_path):
    separate = prepare(made, tmp_path / "cache")
    assert separate.source.size == separate.target.size == 4 + 10
    joint = prepare(changed(made, tokenizer={"kind": "word", "joint": True}), tmp_path / "cache")
    assert joint.source is joint.target
    assert joint.source.size == 4 + 20
    mixed = {"kind": "character", "target_kind": "space"}
    spelling = prepare(changed(made, tokenizer=mixed), tmp_path / "cache")
    assert (spelling.source.kind, spelling.target.kind) == ("character", "space")
    given = prepare(made, tmp_path / "cache", tokenizers=(joint.source, joint.target))
    assert given.ids()[5][1] == joint.ids()[5][1]


def test_a_vocabulary_may_be_learned_from_an_even_choice(made, tmp_path):
    few = prepare(changed(made, tokenizer={"kind": "word", "learn_from": 3}), tmp_path / "cache")
    # 300 pairs, every hundredth: 0, 100, 200
    assert set(few.target.pieces(range(4, few.target.size))) == {"0", "1", "2"}


@pytest.mark.parametrize(("overlong", "pairs"), [("skip", 100), ("cut", 300)])
def test_overlong_pairs_are_skipped_or_cut_and_counted(made, tmp_path, overlong, pairs):
    prepared = prepare(changed(made, max_length=3, overlong=overlong, valid=made.train), tmp_path / "cache")
    store = prepared.store()
    assert len(store) == pairs
    assert (store.counts.odd["overlong"].count, store.counts.odd["overlong"].lines) == (200, [101, 102, 103, 104, 105])
    assert store.counts.sides[0].lengths == {2: 10, 3: 90, 4: 200}  # before anything is cut
    assert max(len(source) for source, _ in prepared.ids()) == 3
    assert {source[-1] for source, _ in prepared.ids()} == {3}
    assert store.lines[99] == 100


def test_examples_of_a_sorted_split_are_of_all_of_it(made, tmp_path):
    """Scores during training are of a part of the validation data: here 200 of 5,000 pairs, sorted by their kind."""
    valid = tmp_path / "sorted.tsv"
    valid.write_text("".join(f"{'one two' if row < 2500 else 'one two three'}\t{row}\n" for row in range(5000)))
    split = prepare(changed(made, valid=str(valid)), tmp_path / "cache").splits["valid"]
    found = split.examples(200)
    assert len({one.texts[0] for one in found}) == 200
    assert [one.input for one in found] == ["one two"] * 100 + ["one two three"] * 100
    assert split.examples(200) == found


def test_a_choice_is_spread_over_what_comes():
    for count in (0, 1, 5, 8, 9, 1000):
        chosen = Spread.of(range(count), 8)
        assert chosen[:1] == [0][:count]
        assert count < 5 or 4 <= len(chosen) <= 8
        steps = {after - before for before, after in pairwise([*chosen, count])}
        assert len(steps) <= 2  # the last one may be shorter
    assert evenly(range(399), 200)[-1] == 397
    assert evenly(range(3), 200) == [0, 1, 2]
    texts = Spread[str](100, len, 10)
    for text in ["aaaa"] * 9:
        texts.add(text)
    assert sum(map(len, texts.items)) <= 10


def test_a_limit_that_leaves_nothing_is_an_error(made, tmp_path):
    with pytest.raises(RegardError, match=r"data.train=.*all 7 are longer than data.max_length=3; raise it"):
        prepare(changed(made, max_length=3, train=made.valid), tmp_path / "cache")


def test_held_out_pairs_never_meet_the_training_pairs(made, tmp_path):
    train = tmp_path / "train.tsv"
    train.write_text(train.read_text() * 3)  # every source three times
    prepared = prepare(changed(made, valid=None, valid_share=0.2), tmp_path / "cache")
    kept, held = set(prepared.texts()), set(prepared.texts("valid"))
    assert not kept & held
    assert len(kept | held) == 300
    assert len(prepared.store()) + len(prepared.store("valid")) == 900
    assert 30 < len(held) < 90
    few = splits_of(changed(made, valid=None, valid_share=0.2, valid_most=45), tmp_path / "cache")
    assert few["valid"].share == 0.05
    with pytest.raises(RegardError, match=r"nothing was held out by data.valid_share=0.0001"):
        prepare(changed(made, valid=None, valid_share=0.0001), tmp_path / "cache")


def splits_of(settings, cache) -> dict[str, Split]:
    return PrepareCache(settings, cache, strict=False).splits(PairSource.by_role(settings))


def test_corpora_bring_their_own_splits(made, tmp_path):
    splits = splits_of(PairDataSettings(train="corpus:pocket"), tmp_path)
    assert [(role, split.source.role, split.part) for role, split in splits.items()] == [
        ("train", "train", "all"),
        ("valid", "valid", "all"),
        ("test", "test", "all"),
    ]
    assert "test" not in splits_of(changed(made, valid=None), tmp_path)


def test_too_many_bad_lines_stop_and_the_first_are_listed(made, tmp_path):
    train = tmp_path / "train.tsv"
    lines = train.read_text().splitlines()
    lines[4], lines[6:9] = "only one column", ["\t1", "two\t", "three\t3\t3"]
    train.write_text("\n".join(lines) + "\n\n\n")
    with pytest.raises(RegardError) as refused:
        prepare(made, tmp_path / "cache")
    message = str(refused.value)
    assert "4 of 300 lines (1.3%) cannot be used, more than data.max_bad=0.01 allows" in message
    assert f"{train}:5: 1 column where the first line has 2: 'only one column'" in message
    assert f"{train}:8: the target is empty: 'two'" in message
    tolerant = prepare(changed(made, max_bad=0.02), tmp_path / "cache").store().counts.read
    assert (tolerant.pairs, tolerant.bad) == (296, 4)
    assert tolerant.lost == {"columns": 2, "empty": 2, "blank": 2}
    assert prepare(made, tmp_path / "cache", strict=False).store().counts.read == tolerant


def test_files_that_do_not_pair_up_stop_however_few_lines_it_are(tmp_path):
    (tmp_path / "a").write_text("x\n" * 2000)
    (tmp_path / "b").write_text("y\n" * 1999)
    settings = PairDataSettings(train=f"{tmp_path / 'a'},{tmp_path / 'b'}")
    with pytest.raises(RegardError, match=r"a has 2,000 lines, .*b has 1,999: lines do not pair up"):
        prepare(settings, tmp_path / "cache")


def test_files_without_any_pair_stop(tmp_path):
    (tmp_path / "empty.tsv").write_text("\n\n")
    with pytest.raises(RegardError, match=r"empty.tsv: contains no usable examples$"):
        prepare(PairDataSettings(train=str(tmp_path / "empty.tsv")), tmp_path / "cache")
    (tmp_path / "bad.jsonl").write_text('{"en": "a"}\n')
    with pytest.raises(RegardError, match=r"no column is left for data.target: the first line has 1 column: 'en'"):
        prepare(PairDataSettings(train=str(tmp_path / "bad.jsonl")), tmp_path / "cache", strict=False)


def test_large_vocabularies_take_wider_ids(tmp_path):
    words = [f"w{number}" for number in range(70_000)]
    tokenizer = Tokenizer.train([" ".join(words)], "space", size=100_000)
    pair = Pair("w69999 w3", "w5", "made", 1)
    write_pairs(tmp_path, [pair], tokenizer, tokenizer, name="made", max_length=9, overlong="skip")
    ids = Store(tmp_path).row("source", 0)
    assert ids.dtype == np.uint32
    assert tokenizer.decode(ids.tolist()) == "w69999 w3"


def test_an_empty_store_can_be_opened(tmp_path):
    tokenizer = Tokenizer.train(["a"], "word")
    bad = SkippedLine("made", 1, "empty", "the source is empty")
    write_pairs(tmp_path, [bad], tokenizer, tokenizer, name="made", max_length=9, overlong="skip")
    assert len(Store(tmp_path)) == 0
    assert Store(tmp_path).counts.read == ReadReport(0, Counter(empty=1), {"empty": [bad]})
    assert [len(Store(tmp_path).row_lengths(side)) for side in ("source", "target")] == [0, 0]


def test_splits_have_names(made, tmp_path):
    assert str(splits_of(changed(made, valid=None), tmp_path)["valid"]) == f"{made.train} (held out)"
    assert str(Split(PairSource("a.tsv"))) == "a.tsv"


def test_the_check_of_very_many_pairs_takes_a_sample_and_says_so(made, tmp_path, monkeypatch):
    """Chosen by the source: what is given twice is in it twice, or not at all."""
    train = tmp_path / "train.tsv"
    train.write_text(train.read_text() * 2)
    monkeypatch.setattr("regard.data.prepare.MANY", 599)
    monkeypatch.setattr("regard.data.prepare.SAMPLE", 200)
    prepared = prepare(made, tmp_path / "cache", strict=False)
    seen = prepared.texts()
    assert 120 < len(seen) < 280
    assert len(seen) == 2 * len(set(seen))
    (said,) = [one for one in prepared.check().findings if "sample" in one.what and one.split == "train"]
    assert said.what == "33.3% of all pairs were looked at: a sample"
    assert len(prepare(made, tmp_path / "cache").texts()) == 600


def test_long_work_says_how_far_it_is_and_short_work_says_nothing(capsys, monkeypatch):
    assert list(with_progress(range(600), "reading x")) == list(range(600))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("regard.work.PATIENCE", 0.0)
    assert list(with_progress(range(600), "reading x")) == list(range(600))
    out, err = capsys.readouterr()
    assert (out, err) == ("", "reading x: 256 in 0 s\nreading x: 600 in 0 s\n")
    assert list(with_progress(range(600), "reading x", total=640)) == list(range(600))
    said = capsys.readouterr().err
    assert said == "reading x: 256 of about 640 in 0 s, about 0 s left\nreading x: 600 in 0 s\n"


def test_work_that_counts_nothing_reports_its_time(capsys, monkeypatch):
    monkeypatch.setattr("regard.work.PATIENCE", 0.05)
    monkeypatch.setattr("regard.work.EVERY_IN_FILES", 0.05)
    with showing_progress("fitting baselines", seconds=60):
        time.sleep(0.5)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"fitting baselines: 0 s, about (59|60) s left", first)
    assert re.fullmatch(r"fitting baselines: took [01] s", last)
    monkeypatch.setattr("regard.work.PATIENCE", 60)
    with showing_progress("fitting baselines"):
        pass
    assert capsys.readouterr().err == ""


def test_work_around_counted_items_leaves_the_messages_to_them(capsys, monkeypatch):
    monkeypatch.setattr("regard.work.PATIENCE", 0.2)
    with showing_progress("learning"):
        for _ in with_progress(range(50), "reading x", every=1, total=60):
            time.sleep(0.01)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("reading x: ") for line in lines)


def test_lines_are_estimated_from_the_start_of_a_file(tmp_path):
    text = tmp_path / "a.tsv"
    text.write_text("ein Hund\ta dog\n" * 100_000)
    assert 99_000 < estimate_lines([text]) < 101_000
    assert 199_000 < estimate_lines([text, text]) < 202_000
    (tmp_path / "a.parquet").write_bytes(b"\n" * 100)
    assert estimate_lines([tmp_path / "a.parquet"]) == 0
    assert estimate_lines([tmp_path / "missing.tsv"]) == 0


def test_each_step_of_preparing_estimates_the_time_left(made, tmp_path, monkeypatch, capsys):
    """Also of a validation file, whose rows are not counted."""
    monkeypatch.setattr("regard.work.PATIENCE", 0.0)
    for role, count in (("train", 600), ("valid", 600)):
        lines = (f"wort {n} {role}\tword {n} {role}\n" for n in range(count))
        (tmp_path / f"{role}.tsv").write_text("".join(lines))
    prepare(made, tmp_path / "cache")
    said = capsys.readouterr().err
    names = ("counting .*train.tsv", "learning the vocabulary", "reading .*train.tsv", "reading .*valid.tsv")
    for name in names:
        assert re.search(rf"{name}.*: [\d,]+ of about [\d,]+ in \d+ s, about \d+ s left", said), name
