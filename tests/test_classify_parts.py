"""The parts of classification: labels, files, batches, pooling, losses; scores by hand and as sklearn has them."""

import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard import config
from regard.attention import Additive, Memory, ScaledDot, Trace
from regard.attention.layer import Attention
from regard.corpora import texts
from regard.corpora import texts as corpus
from regard.data.files import PairSource
from regard.data.labels import LabelFormat, Labels
from regard.data.pairs import Pair, SkippedLine
from regard.data.vocabulary import OURS
from regard.errors import CallError, RegardError
from regard.job import make_job
from regard.layers.feed_forward import WordDropout
from regard.layers.loss import class_loss
from regard.layers.pooling import Attended, AttentionPooling, Pooling
from regard.metrics.classes import class_scores, confusion, exact, macro_f1, micro_f1, one_hot, reliability
from regard.models.classifier import Classifier
from regard.settings.training import TrainingSettings
from regard.tasks.labels.settings import TextSettings
from regard.tasks.labels.vocabulary import class_weights
from regard.training.optimizer import Optimizer


# ------------------------------------------------------------------------------------------------------------ scores
def test_scores_of_classes_agree_with_sklearn():
    sklearn = pytest.importorskip("sklearn.metrics", reason="needs sklearn: pip install scikit-learn")
    chance = np.random.default_rng(0)
    gold, said = chance.integers(0, 5, 97), chance.integers(0, 5, 97)
    assert (confusion(gold, said, 5) == sklearn.confusion_matrix(gold, said)).all()
    ours = class_scores(one_hot(gold, 5), one_hot(said, 5), list("abcde"))
    precision, recall, f1, count = sklearn.precision_recall_fscore_support(gold, said)
    for number, score in enumerate(ours):
        assert [score.precision, score.recall, score.f1] == pytest.approx(
            [100 * precision[number], 100 * recall[number], 100 * f1[number]]
        )
        assert score.count == count[number]
    assert macro_f1(ours) == pytest.approx(100 * sklearn.f1_score(gold, said, average="macro"))
    many, told = chance.random((31, 7)) < 0.3, chance.random((31, 7)) < 0.4
    assert micro_f1(many, told) == pytest.approx(100 * sklearn.f1_score(many, told, average="micro"))
    assert exact(many, many) == 100


def test_calibration_error_by_hand():
    probability = np.array([0.95, 0.95, 0.95, 0.95, 0.62, 0.68])
    right = np.array([True, True, True, False, True, False])
    error, bins = reliability(probability, right)
    # four at 95% of which 75% are right, two at 65% of which half are
    assert error == pytest.approx((4 * 20 + 2 * 15) / 6)
    assert [(one.count, one.right) for one in bins] == [(2, 50.0), (4, 75.0)]


def test_a_class_that_nobody_has_and_nobody_says_is_left_out_of_the_mean():
    gold, said = np.array([0, 1, 1]), np.array([0, 1, 1])
    assert macro_f1(class_scores(one_hot(gold, 3), one_hot(said, 3), "abc")) == 100


# ------------------------------------------------------------------------------------------------------------ labels
def test_labels_are_texts_numbers_or_lists():
    one, many = LabelFormat(names=(("0", "bad"), ("1", "good"))), LabelFormat("|")
    assert [one(value) for value in (0, "1", " 1 ", True, "other")] == ["bad", "good", "good", "true", "other"]
    assert many(["b", "a", "b"]) == "a|b" == many("b | a")
    assert [many.labels(str(many(nothing))) for nothing in ([], "", None)] == [()] * 3
    assert one(1.5) == 1.5  # the reader says that it is no text
    assert many('["b", "a"]') == many("['a', 'b']") == many("['b' 'a']") == "a|b"
    assert many("[a|b") == "[a|b"


def test_a_missing_label_is_no_class():
    missing = (float("nan"), "nan", "NaN", "<NA>", "NaT", "None", "null", " ")
    assert [LabelFormat()(value) for value in missing] == [""] * 8
    assert [LabelFormat("|")(value) for value in missing] == ["|"] * 8
    assert [LabelFormat()(value) for value in ("none", 2.0)] == ["none", "2"]
    assert LabelFormat(names=(("None", "no stance"),))("None") == "no stance"


def test_labels_come_back_from_their_tokens_and_from_their_file(tmp_path):
    labels = Labels.learn_labels(["10", "9", "a|10", "|"], LabelFormat("|"))
    assert labels.names == ("9", "10", "a")
    tokens = labels.encode_batch(["a|10", "|", "new"])
    assert [labels.decode(np.array([*some, 3])) for some in tokens] == [(2, 1), (), (-1,)]
    assert labels.target([(2, 1), ()]).tolist() == [[0, 1, 1], [0, 0, 0]]
    labels.save(tmp_path / "labels.json")
    again = Labels.load(tmp_path / "labels.json")
    assert (again.names, again.writing) == (labels.names, labels.writing)
    with pytest.raises(CallError, match="did you mean"):
        Labels(["positive", "negative"], LabelFormat()).require("positiv")


ROWS = [("a fine day", "good"), ("rain, again", "bad"), ("sun", "good")]


def job(**data: str) -> Any:
    tree = {"job": "classify", "data": data, "model": {"kind": "transformer", "width": 8, "heads": 2}}
    return make_job(config.build(tree))


def read(settings: TextSettings) -> list:
    return list(PairSource.by_role(settings)["train"].read())


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "parquet", "folder"])
def test_every_format_gives_the_same_texts(tmp_path, form):
    file = tmp_path / f"data.{form}"
    if form == "tsv":
        file.write_text("label\tid\ttext\n" + "".join(f"{label}\t7\t{text}\n" for text, label in ROWS))
    elif form == "csv":
        file.write_text("".join(f'"{text}",{label}\n' for text, label in ROWS))
    elif form == "jsonl":
        file.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS))
    elif form == "parquet":
        arrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'regard[parquet]'")
        from pyarrow import parquet

        parquet.write_table(arrow.table({"text": [t for t, _ in ROWS], "label": [b for _, b in ROWS]}), file)
    else:
        for number, (text, label) in enumerate(ROWS):
            (file / label).mkdir(parents=True, exist_ok=True)
            (file / label / f"{number}.txt").write_text(text)
        (file / "good" / ".hidden").write_text("no")
    found = read(TextSettings(train=str(file)))
    assert sorted((pair.source, pair.target) for pair in found) == sorted(ROWS)


def test_what_is_no_labeled_text_says_where_and_why(tmp_path):
    file = tmp_path / "data.jsonl"
    file.write_text(
        '{"text": "a", "label": 1}\n{"text": "b"}\n{"text": "", "label": "x"}\n{"text": "c", "label": null}\n'
    )
    good, *bad = read(TextSettings(train=str(file)))
    assert good == Pair("a", "1", str(file), 1)
    assert [(one.line, one.kind) for one in bad if isinstance(one, SkippedLine)] == [
        (2, "columns"),
        (3, "empty"),
        (4, "unlabeled"),
    ]
    assert "there is no label" in bad[2].reason
    (tmp_path / "flat").mkdir()
    with pytest.raises(CallError, match="sub-folder for each class"):
        read(TextSettings(train=str(tmp_path / "flat")))


def test_the_check_finds_what_is_wrong_with_labels(tmp_path):
    train = [f"word{i} text\t{'a' if i % 2 else 'b'}" for i in range(40)]
    train += ["word1 text\tb", "rare\tc", "no label\t"]
    (tmp_path / "train.tsv").write_text("\n".join(train) + "\n")
    (tmp_path / "test.tsv").write_text("word3 text\ta\nnew text\tz\n")
    file, test = str(tmp_path / "train.tsv"), str(tmp_path / "test.tsv")
    report = job(train=file, valid=test, test=test).check(tmp_path / "cache")
    said = [(finding.severity, finding.split, finding.what, finding.lines) for finding in report.findings]

    def found(severity: str, role: str, words: str, lines: list[int]) -> bool:
        return any(s == severity and r == role and words in w and at == lines for s, r, w, at in said)

    assert found("warning", "train", "1 text has no label", [43])  # left out, though one of 43 is more than 1%
    assert found("warning", "test", "training has too", [1])
    assert found("warning", "test", "a label that is not in the training data: 'z' (1)", [2])
    assert found("warning", "train", "with another label", [41])
    assert found("warning", "train", "fewer than 10 texts: 'c' (1)", [])
    assert found("note", "train", "'c' has 1", [])
    counts = {row["class"]: row["train"] for row in report.tables["texts of each class"]}
    assert counts == {"a": 20, "b": 21, "c": 1}


def test_one_class_cannot_be_learned(tmp_path):
    (tmp_path / "train.tsv").write_text("a b\tx\nc d\tx\ne f\tx\n")
    file = str(tmp_path / "train.tsv")
    with pytest.raises(RegardError, match="at least two classes; found 'x'"):
        job(train=file, valid=file).prepare(tmp_path / "cache")


# ----------------------------------------------------------------------------------------------------------- batches
@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    chance = np.random.default_rng(1)
    lines = [
        f"{' '.join(f'w{n}' for n in chance.integers(0, 20, chance.integers(1, 9)))} end{i}\t{i % 3}\n"
        for i in range(71)
    ]
    (folder / "train.tsv").write_text("".join(lines))
    file = str(folder / "train.tsv")
    made = job(train=file, valid=file)
    made.prepare(folder / "cache")
    return made


def test_batches_go_on_where_they_stopped_and_share_out_every_text(prepared):
    batches = prepared.output.batches(prepared.splits["train"], 60, seed=3)
    whole = list(batches.epoch(2))
    assert len(whole) == batches.len_epoch(2) > 3
    for one, other in zip(whole[2:], batches.epoch(2, start=2), strict=True):
        assert torch.equal(one.source, other.source) and torch.equal(one.target, other.target)  # noqa: PT018
    assert sum(len(batch.target) for batch in whole) == 71
    halves = [list(batches.epoch(2, rank=rank, world=2)) for rank in range(2)]
    for one, left, right in zip(whole, *halves, strict=True):
        real = torch.cat([left.target[left.target >= 0], right.target[right.target >= 0]])
        assert sorted(real.tolist()) == sorted(one.target.tolist())
    assert (whole[0].source[:, 0] == OURS.start).all()


def test_a_process_without_a_share_counts_nothing(prepared):
    batch = prepared.output.batches(prepared.splits["train"], 60).batch(np.array([], np.int64))
    loss = class_loss(torch.randn(1, 3), batch.target)
    assert (float(loss.total), int(loss.count)) == (0.0, 0)


# ------------------------------------------------------------------------------------------------------------ models
def test_loss_is_that_of_torch_and_any_split_gives_the_same_sum():
    torch.manual_seed(0)
    logits, labels, weights = torch.randn(7, 5), torch.tensor([0, 4, 2, -1, 1, 3, 3]), torch.rand(5) + 0.5
    loss = class_loss(logits, labels, weights=weights, smoothing=0.1)
    known = labels >= 0
    expected = F.cross_entropy(logits[known], labels[known], weights, reduction="sum", label_smoothing=0.1)
    assert float(loss.total) == pytest.approx(float(expected), rel=1e-6)
    assert int(loss.count) == 6
    parts = [
        class_loss(logits[rows], labels[rows], weights=weights, smoothing=0.1) for rows in ([0, 1, 2], [3, 4, 5, 6])
    ]
    assert sum(float(part.total) for part in parts) == pytest.approx(float(loss.total), rel=1e-6)


def test_loss_of_several_labels_by_hand():
    logits = torch.tensor([[0.0, math.log(3.0)], [9.0, 9.0]])
    labels = torch.tensor([[1.0, 0.0], [-1.0, -1.0]])  # the second row is none
    loss = class_loss(logits, labels, weights=torch.tensor([2.0, 5.0]))
    assert float(loss.total) == pytest.approx(2 * math.log(2) + math.log(4), rel=1e-5)  # −2 log ½ − log(1 − ¾)
    assert int(loss.count) == 2


def test_balanced_weights_have_mean_one_and_make_classes_equal():
    labels = Labels(["a", "b", "c"], LabelFormat())
    counts = np.array([6, 3, 1])
    weights = class_weights("balanced", labels, counts, 10, several=False)
    assert weights is not None
    assert (weights * torch.from_numpy(counts)).tolist() == pytest.approx([10 / 3] * 3)
    given = class_weights({"b": 3.0}, labels, counts, 10, several=False)
    assert given is not None
    assert float((given * torch.from_numpy(counts)).sum()) == pytest.approx(10)
    assert float(given[1] / given[0]) == pytest.approx(3)
    several = class_weights("balanced", Labels(["a", "b", "c"], LabelFormat("|")), counts, 10, several=True)
    assert several is not None
    assert several.tolist() == pytest.approx([4 / 6, 7 / 3, 9])


POOLINGS = {
    "mean": lambda: Pooling("mean"),
    "max": lambda: Pooling("max"),
    "attention": lambda: AttentionPooling(Additive(6, 6, 4), 6),
    "attended": lambda: Attended(Attention(ScaledDot(), 6, 6), Pooling("mean")),
}


@pytest.mark.parametrize("kind", POOLINGS)
def test_padding_changes_no_pooling(kind):
    torch.manual_seed(0)
    pooling = POOLINGS[kind]()
    x = torch.randn(2, 5, 6)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    other = x.clone()
    other[1, 3:] = 1e6
    one, two = (pooling(Memory(vectors, mask, vectors[:, 0])) for vectors in (x, other))
    short = pooling(Memory(x[1:, :3], mask[1:, :3], x[1:, 0]))
    assert torch.allclose(one, two)
    assert torch.allclose(one[1:], short, atol=1e-6)
    if kind != "attended":
        nothing = pooling(Memory(x, torch.zeros_like(mask), x[:, 0]))
        assert torch.equal(nothing, torch.zeros(2, 6))


def test_mean_and_max_by_hand():
    x = torch.tensor([[[1.0, 5.0], [3.0, 1.0], [9.0, 9.0]]])
    memory = Memory(x, torch.tensor([[True, True, False]]), x[:, 2])
    assert Pooling("mean")(memory).tolist() == [[2.0, 3.0]]
    assert Pooling("max")(memory).tolist() == [[3.0, 5.0]]
    assert Pooling("cls")(memory).tolist() == [[1.0, 5.0]]
    assert Pooling("last")(memory).tolist() == [[9.0, 9.0]]


def test_attention_pooling_is_the_weighted_sum_that_its_trace_shows():
    torch.manual_seed(0)
    pooling = AttentionPooling(Additive(6, 6, 4), 6).eval()
    x = torch.randn(3, 7, 6)
    memory = Memory(x, torch.arange(7) < torch.tensor([[7], [4], [1]]), x[:, 0])
    with Trace(pooling) as seen:
        looked = pooling(memory)
    weights = seen["attention"]
    assert weights.shape == (3, 1, 7)
    assert torch.allclose(weights.sum(-1), torch.ones(3, 1))
    assert torch.allclose((weights @ x).squeeze(1), looked, atol=1e-6)
    assert torch.allclose(pooling(memory), looked, atol=1e-6)  # looking changes nothing


def test_word_dropout_spares_special_tokens_and_stops_outside_of_training():
    dropout = WordDropout(0.5, unknown=1, keep=[0, 2, 3])
    tokens = torch.tensor([[2, *range(4, 44), 3, 0, 0]])
    dropped = dropout(tokens)
    assert (dropped[0, [0, -3, -2, -1]] == tokens[0, [0, -3, -2, -1]]).all()
    assert 5 < int((dropped == 1).sum()) < 35
    assert torch.equal(dropout.eval()(tokens), tokens)


class _Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Linear(3, 3)
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])


def test_lower_layers_learn_more_slowly():
    model = Classifier(_Stack(), Pooling("mean"), 3, 2, layer_decay=0.5)
    settings = TrainingSettings(learning_rate=0.1, weight_decay=0.0)
    optimizer = Optimizer(model, settings)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    for value in model.parameters():
        value.grad = torch.ones_like(value)
    optimizer.step(0.1, torch.tensor(1.0), torch.tensor(0.0))
    moved = {name: float((before[name] - value.detach()).mean()) for name, value in model.named_parameters()}
    # Adam's first step is as long as the rate
    assert moved["output.weight"] == pytest.approx(0.1, rel=1e-4)
    assert moved["encoder.layers.1.weight"] == pytest.approx(0.05, rel=1e-4)
    assert moved["encoder.layers.0.bias"] == pytest.approx(0.025, rel=1e-4)
    assert moved["encoder.table.weight"] == pytest.approx(0.0125, rel=1e-4)


# ---------------------------------------------------------------------------------------------------------- settings
def test_mistakes_are_told_where_they_are_though_a_column_is_called_text():
    tree = {"job": "classify", "data": {"text": "question", "trian": "x"}, "model": {"kind": "recurrent", "width": 7}}
    with pytest.raises(CallError) as told:
        config.build(tree)
    assert "data.train: is required" in str(told.value)
    assert "data.trian: unknown key, did you mean 'train'" in str(told.value).replace(";", ",")
    tree["data"] = {"train": "a.tsv", "separator": "|"}
    tree["decoding"] = {"n_best": 3}
    with pytest.raises(CallError) as told:
        config.build(tree)
    assert "model.width=7 must be even" in str(told.value)
    assert "decoding.n_best=3 has no meaning" in str(told.value)


# ------------------------------------------------------------------------------------------------------------ corpus
def test_languages_has_no_text_twice_and_nothing_of_the_test_in_training():
    pytest.importorskip("babel", reason="needs babel: pip install 'regard[languages]'")
    splits = {split: corpus.languages(split) for split in corpus.SPLITS}
    texts = {split: {pair.source.casefold() for pair in pairs} for split, pairs in splits.items()}
    assert not texts["train"] & texts["test"]
    assert not texts["valid"] & (texts["train"] | texts["test"])
    everything = [(pair.source.casefold(), pair.target) for pairs in splits.values() for pair in pairs]
    assert len({text for text, _ in everything}) == len(set(everything))  # one right answer each
    assert {pair.target for pair in splits["test"]} == {pair.target for pair in splits["train"]}
    assert len({target for _, target in everything}) == len(corpus.CODES) == 30
    named = {pair.source for pairs in splits.values() for pair in pairs}
    assert {"Schweizer Franken", "franc suisse", "frank szwajcarski"} <= named
    home = {
        split
        for split, pairs in splits.items()
        for pair in pairs
        if pair.source in ("Schweizer Franken", "franc suisse")
    }
    assert len(home) == 1


def test_languages_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "babel", None)
    corpus._names.cache_clear()
    with pytest.raises(CallError, match=r"pip install 'regard\[languages\]'"):
        corpus.languages("test")
    corpus._names.cache_clear()


def test_neither_sentence_of_follows_tells_the_answer_alone():
    splits = {split: texts.follows(split) for split in texts.SIZES}
    assert {split: len({pair.source for pair in pairs}) for split, pairs in splits.items()} == texts.SIZES
    people = {split: {frozenset(pair.source.split()[:5:4]) for pair in pairs} for split, pairs in splits.items()}
    assert not people["train"] & people["test"], "two people of testing are new together"
    for side in (0, 1):
        said = Counter((pair.source.split("\t")[side].split()[2], pair.target) for pair in splits["train"])
        assert all(0.25 < said[how, answer] / 1500 < 0.42 for how in texts.TURNED for answer in texts.ANSWERS)


# --------------------------------------------------------------------------------------------------------- two texts
def _two_texts(tmp_path, **data):
    rows = [f"the dog {n} sees a cat\ta cat {n} runs\t{('yes', 'no')[n % 2]}" for n in range(40)]
    file = tmp_path / "two.tsv"
    file.write_text("\n".join(["premise\thypothesis\tlabel", *rows, "only one\t\tyes"]), encoding="utf-8")
    tree = {
        "job": "classify",
        "data": {"kind": "texts", "train": str(file), "valid": str(file), "max_bad": 0.1, **data},
        "model": {"kind": "transformer", "width": 8, "heads": 2, "feed_forward": 8, "layers": 1},
    }
    job = make_job(config.build(tree))
    job.prepare(tmp_path / "cache")
    return job


@pytest.mark.parametrize(("max_length", "kept"), [(256, (6, 4)), (9, (4, 3)), (5, (2, 1))])
def test_two_texts_are_read_as_one_and_the_longer_in_windows(tmp_path, max_length, kept):
    job = _two_texts(tmp_path, max_length=max_length)
    input, train = job.input, job.splits["valid"]
    assert (len(train), train.counts.bad) == (40, 1), "a row without a second text is told"
    one = input.read(("the dog 3 sees a cat", "a cat 3 runs"))
    assert (len(one.first), len(one.second)) == kept
    stored = [train.source(np.array([row]), 0)[0].tolist() for row in range(len(train))]
    read = input.collate([one])[0].tolist()
    start, end = input.marks
    assert read == [start, *one.first, end, *one.second, end]
    assert read in stored, "the files give the same tokens"
    long = 40 if max_length < 12 else 0
    assert len(train.overlong()) == long
    for which, given in enumerate((one.texts, one.texts[::-1])):
        windows = list(input.windows(given))
        assert windows[0] == input.read(given)
        assert all(len(window.first) + len(window.second) <= max_length - 2 for window in windows)
        assert [len(windows) > 1, input.is_overlong(given), bool(input.look_note(given))] == [bool(long)] * 3
        assert len({tuple(window[2 - which]) for window in windows}) == 1, "the shorter text is in each window"
        whole = input.tokenizer.encode(one.texts[0])
        assert windows[-1][1 + which][-1] == whole[-1]
        assert {number for window in windows for number in window[1 + which]} == set(whole)
    for _, item in train.overlong():
        assert len(list(input.windows(item))) == len(list(input.windows(one.texts)))
    axis = input.axis(one)
    assert [token.text for token in axis.tokens if not token.special] == [
        *["the", "dog", "3", "sees", "a", "cat"][: kept[0]], *["a", "cat", "3", "runs"][: kept[1]]
    ]  # fmt: skip
    assert axis.text[slice(*axis.tokens[kept[0] + 2].span)] == "a", "places are those in both texts"
    assert input.parts(one) == [place for place, token in enumerate(axis.tokens) if not token.special]
    less = input.without(one, {0, kept[0]})
    assert (less.first, less.second) == (one.first[1:], one.second[1:])


@pytest.mark.parametrize("given", ["a\tb", "a\nb", ("a", "b"), {"first": "a", "second": "b"}])
def test_two_texts_are_given_in_any_form(tmp_path, given):
    input = _two_texts(tmp_path).input
    assert input.two(given) == ("a", "b")
    if not isinstance(given, dict):  # rows of a table are pairs
        assert input.parse([given]) == [("a", "b")]
    assert input.is_one(given)
    assert input.word(given) == "a\nb", "a page takes a tab for what stands between two inputs"
    assert not input.is_one([given, given])
    assert not input.is_one(("a\tb", "c\td"))
    assert input.length(input.read(("the dog", "a cat"))) == 5
    assert input.length(input.read(("the dog", ""))) == 0
    with pytest.raises(CallError, match="is not two texts: give both, with a tab or on two lines"):
        input.read("only one")
