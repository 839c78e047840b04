"""Questions about pictures: the user's lists, and the corpus whose answers the pixels show."""

import itertools
import json
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest

import regard
from ask_example import COLUMNS, rows, tree, write_questions, written
from regard import config
from regard.corpora.loading import load_asked
from regard.corpora.shapes import shapes_questions
from regard.corpora.shapes_seen import _direction, detect_things
from regard.data.pairs import SkippedLine
from regard.data.prepare import find_splits
from regard.errors import CallError, RegardError
from regard.inputs.joint import JointRow, JointSource
from regard.job import make_job
from regard.metrics.captions import Pointed, points_at_box


# ----------------------------------------------------------------------------------------------------------- the list
@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
def test_lists_of_every_form_are_the_same(tmp_path, form):
    found = list(JointSource(str(write_questions(tmp_path, form)), "train", columns=COLUMNS).read())
    assert [(row.first, row.second, row.target) for row in found if isinstance(row, JointRow)] == list(rows())
    other = tmp_path / f"other.{form}"
    other.write_text((tmp_path / f"list.{form}").read_text().replace("question", "q").replace("answer", "a"))
    named = replace(COLUMNS, wanted={"image": None, "question": "q", "answer": "a"})
    assert [row[1:4] for row in JointSource(str(other), "train", columns=named).read()] == [row[1:4] for row in found]


def test_an_answer_may_be_a_number_and_a_column_may_tell_splits_apart(tmp_path):
    file = tmp_path / "list.jsonl"
    lines = [("a.png", "how many?", 2, "train"), ("b.png", "how many?", 3, "val"), ("c.png", "who?", True, "train")]
    names = ("image", "question", "answer", "part")
    file.write_text("".join(json.dumps(dict(zip(names, line, strict=True))) + "\n" for line in lines))
    parts = replace(COLUMNS, split="part")
    one, bad = JointSource(str(file), "train", columns=parts).read()
    assert (one.first, one.target) == ("a.png", "2")
    assert isinstance(bad, SkippedLine)
    assert "the answer is bool" in bad.reason
    (valid,) = JointSource(str(file), "valid", columns=parts).read()
    assert valid.first == "b.png"
    with pytest.raises(CallError, match=r"no line of .* has 'test'; it has train, val"):
        list(JointSource(str(file), "test", columns=parts).read())


def test_what_is_held_out_is_asked_about_other_pictures(tmp_path):
    source = JointSource(str(write_questions(tmp_path)), "train", columns=COLUMNS)
    parts = find_splits({"train": source}, lambda one: 36, valid_share=0.4, valid_most=1000)
    pictures = [{row.first for row in part.good()} for part in parts.values()]
    assert pictures[0]
    assert pictures[1]
    assert not pictures[0] & pictures[1]
    assert len(pictures[0] | pictures[1]) == 12


def test_a_list_too_small_to_hold_a_picture_out_says_so(tmp_path):
    file = write_questions(tmp_path, "tsv")
    file.write_text("\n".join(file.read_text().splitlines()[:3]) + "\n")  # both of the same picture
    made = tree(file)
    made["data"] |= {"valid": None, "test": None}
    said = r"data.valid=.*list.tsv \(held out\): nothing was held out by data.valid_share=0.05; raise it"
    with pytest.raises(RegardError, match=said):
        regard.check(written(file, made))


def test_long_questions_are_left_out_of_training_and_of_no_score(tmp_path):
    recipe = tree(write_questions(tmp_path))
    recipe["data"] |= {"max_length": 5}
    job = make_job(config.build(recipe))
    job.prepare(tmp_path / "cache")
    assert [len(job.splits[role]) for role in ("train", "valid")] == [12, 36]  # "is there red?", and all
    bound = job.bound(job.build())
    assert np.isfinite(bound.validate()["loss"])
    scores = bound.evaluate()
    assert scores.values["questions"] == 36
    assert scores.notes["longer inputs"].startswith("24 of 36 are longer than data.max_length=5 tokens")


def test_a_batch_has_questions_of_several_kinds(tmp_path):
    job = make_job(config.build(tree(write_questions(tmp_path)), "recipe"))
    job.prepare(tmp_path / "cache")
    batches = list(job.output.batches(job.splits["train"], 480).epoch(0))
    assert len(batches) > 3
    assert all(len(set((one.source.second > 0).sum(1).tolist())) > 1 for one in batches if len(one.target) > 5)


def test_bad_lines_and_pictures_are_named_and_refused(tmp_path):
    file = write_questions(tmp_path, "tsv")
    (tmp_path / "cut.png").write_bytes((tmp_path / "1.png").read_bytes()[:60])
    wrong = ["cut.png\twhat is it?\tred", "gone.png\twhat is it?\tred", "1.png\t\tred", "odd line"]
    file.write_text(file.read_text() + "\n".join(wrong) + "\n")
    recipe = written(file, tree(file))
    report = regard.check(recipe)
    found = {line: finding.what for finding in report.errors for line in finding.lines if finding.split == "train"}
    assert set(found) == {38, 39, 40, 41}
    assert "cannot be used" in found[38]
    assert "the question is empty" in found[40]
    assert "1 column where the first line has 3" in found[41]
    assert any("that training has too" in finding.what for finding in report.findings)
    assert report.splits["train"].source.lengths[100] == 15 + 6
    with pytest.raises(RegardError, match="the data cannot be trained on"):
        regard.train(recipe, output=tmp_path / "run")
    with pytest.raises(CallError, match="unknown format"):
        list(JointSource(str(tmp_path / "1.png"), "train", columns=COLUMNS).read())


# -------------------------------------------------------------------------------------------------------- the pointing
def test_the_pointing_game_by_hand():
    weights = np.array([0.1, 0.2, 0.6, 0.1])  # of 2 × 2 regions of 10 × 20 pixels, the third: bottom left
    assert points_at_box(weights, (2, 2), (10, 20), [(5.0, 0.0, 10.0, 10.0)]) == Pointed(True, 0.25)
    assert points_at_box(weights, (2, 2), (10, 20), [(0.0, 0.0, 5.0, 10.0), (0.0, 10.0, 5.0, 20.0)]) == Pointed(
        False, 0.5
    )


# ----------------------------------------------------------------------------------------------------------- the corpus
def answer_by_pixels(question, things):
    """What a reader of the picture would say, who knows nothing of how it was made."""
    words = question.rstrip("?").split()
    match words:
        case ["what", "color", "is", "the", shape]:
            (thing,) = [thing for thing in things if thing.shape == shape]
            return thing.color
        case ["what", "shape", "is", "the", color, "thing"]:
            (thing,) = [thing for thing in things if thing.color == color]
            return thing.shape
        case ["how", "many", color, "things", "are", "there"]:
            return str(sum(thing.color == color for thing in things))
        case ["how", "many", shapes, "are", "there"]:
            return str(sum(shapes.removesuffix("s").removesuffix("e") in (t.shape, t.shape[:-1]) for t in things))
        case ["what", "is", "in", "the", "picture"] | ["what", "do", "you", "see"]:
            return " and ".join(t.name for t in sorted(things, key=lambda t: (int(t.row // 16), t.column)))
        case ["is", "there", "a", color, shape]:
            return "yes" if (color, shape) in {(thing.color, thing.shape) for thing in things} else "no"
    relation = next(name for name in ("above", "below", "left of", "right of") if name in question)
    before, after = (part.replace("the ", "").split() for part in question.rstrip("?").split(f" {relation} "))
    (place,) = [thing for thing in things if set(after) <= {thing.color, thing.shape}]

    def stands(thing):
        return _direction(np.array([place.row - thing.row, place.column - thing.column])) == relation

    if words[0] == "is":
        (one,) = [thing for thing in things if set(before[1:]) <= {thing.color, thing.shape}]
        return "yes" if stands(one) else "no"
    near = [
        t
        for t in things
        if t is not place and stands(t) and min(abs(t.row - place.row), abs(t.column - place.column)) < 6
    ]
    (one,) = near
    return one.name


def test_answers_are_what_the_pixels_show():
    kinds = set()
    for one in shapes_questions("test", 60):
        things = detect_things(one.first)
        assert answer_by_pixels(one.second, things) == one.target, one.second
        assert all(
            any(abs(t.row - 24 * (b[0] + b[2])) < 2 and abs(t.column - 24 * (b[1] + b[3])) < 2 for t in things)
            for b in one.gold
        )
        assert bool(one.gold) == (one.target not in ("0", "no") or " the " in one.second)
        kinds.add(" ".join(one.second.split()[:2]))
    assert kinds == {"what do", "what color", "what shape", "how many", "what is", "is there", "is the"}


def test_the_corpus_is_balanced_and_its_splits_are_apart():
    splits = {split: list(shapes_questions(split, 150)) for split in ("train", "valid", "test")}
    pictures = [{one.first.tobytes() for one in rows} for rows in splits.values()]
    assert sum(map(len, pictures)) == len(set.union(*pictures)) == 450
    answers = defaultdict(Counter)
    for one in splits["train"]:
        answers[" ".join(one.second.split()[:2])][one.target] += 1
    for kind, counted in answers.items():
        share = counted.most_common(1)[0][1] / counted.total()
        assert share < {"is": 0.62, "how": 0.45, "what": 0.28}[kind.split()[0]], (kind, share)
    again = itertools.islice(load_asked("corpus:shapes-questions", "valid"), 5)
    assert [one.second for one in again] == [one.second for one in splits["valid"][:5]]
    with pytest.raises(CallError, match="no split 'dev'"):
        load_asked("shapes-questions", "dev")
