"""The score that ends a training: intervals, simple baselines, verdicts, and test data that nothing else has seen."""

from collections import Counter
from itertools import pairwise
from math import log2
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from command_line import regard as command
from recipe_runs import small_corpora
from regard import api, config, jobs
from regard.commands.compare import Comparison, ComparisonRow, ScoreVerdict
from regard.data.files import PairSource
from regard.data.prepare import PrepareCache, find_splits, find_test
from regard.data.settings import Testing
from regard.inputs.prompt.files import TextDataSettings, text_for_test, text_parts
from regard.inputs.question.windows import QuestionContext
from regard.job import make_job
from regard.metrics.intervals import bootstrap, middle, wilson
from regard.metrics.text import bleu, bleu_counts, bleu_of
from regard.tasks.final_score import (
    LETTERS_A_SECOND,
    affordable,
    compare_scores,
    labels_by_words,
    most_frequent,
    nearest_inputs,
    nearest_means,
    ngram_bits,
    within,
)
from regard.tasks.result import Measure, Tally
from regard.tasks.span.output import nearby_words

HITS = Measure("accuracy", of_hits=True)


# ----------------------------------------------------------------------------------------------------------- intervals
@pytest.mark.parametrize(
    ("hits", "count", "low", "high"), [(8, 10, 0.490, 0.943), (0, 10, 0, 0.278), (10, 10, 0.722, 1), (0, 0, 0, 1)]
)
def test_wilson(hits: float, count: int, low: float, high: float) -> None:
    assert wilson(float(hits), count) == pytest.approx((low, high), abs=1e-3)


def test_the_bootstrap_is_near_the_normal_interval_and_always_the_same() -> None:
    table = np.random.default_rng(3).normal(5, 2, (400, 1))
    draws = [bootstrap([table], lambda some: float(some.mean())) for _ in range(2)]
    assert (draws[0] == draws[1]).all()
    error = 1.96 * table.std() / 20
    assert middle(draws[0][:, 0]) == pytest.approx((table.mean() - error, table.mean() + error), abs=0.03)


def test_sums_of_sentences_are_corpus_bleu() -> None:
    said, right = (
        ["the cat sat here", "a dog", "yes it is so , sir"],
        ["the cat sat there", "a big dog", "yes it is so"],
    )
    assert bleu_of(bleu_counts(said, right).sum(0)) == pytest.approx(bleu(said, right).score)


# ------------------------------------------------------------------------------------------------------------ verdicts
@pytest.mark.parametrize(
    ("model", "baseline", "count", "verdict"),
    [
        (0.9, 0.5, 200, "better"), (0.52, 0.5, 200, "unclear"), (0.5, 0.5, 200, "worse"), (0.2, 0.5, 200, "worse"),
        (1.0, 0.5, 2, "few"),
    ],
)  # fmt: skip
def test_a_model_is_compared_with_its_best_baseline(model: float, baseline: float, count: int, verdict: str) -> None:
    def hits(share: float, seed: int) -> Tally:
        found = np.arange(count) < share * count
        return Tally.of_hits(np.random.default_rng(seed).permutation(found))

    found = compare_scores(HITS, hits(model, 1), {"easy": hits(baseline, 2), "worst": hits(0, 3)}, count, count)
    assert found.verdict == verdict
    assert found.best == "easy"
    assert f"{100 * model:.1f}%" in found.words()
    assert ("too few to judge" in found.words()) == (verdict == "few")
    assert ("not better than easy" in found.words()) == (verdict == "worse")


def test_of_errors_less_is_better() -> None:
    measure = Measure("mse", higher_is_better=False, percent=False)
    low, high = (Tally.of_shares([(error + n % 3, 1) for n in range(60)]) for error in (1, 5))
    assert compare_scores(measure, low, {"one": high}, 60, 60).verdict == "better"
    assert compare_scores(measure, high, {"one": low}, 60, 60).verdict == "worse"
    assert compare_scores(measure, high, {}, 60, 60).verdict == "alone"


# ----------------------------------------------------------------------------------------------------------- baselines
def test_labels_by_words() -> None:
    train = [(f"{word} film number {n}",) for n in range(20) for word in ("good", "bad", "odd")]
    right = np.tile(np.eye(3, dtype=bool), (20, 1))
    said = labels_by_words(train, right, [("a bad day",), ("good",), ("so odd",)], several=False)
    assert said is not None
    assert said.argmax(1).tolist() == [1, 0, 2]
    both = labels_by_words(train, right | right[:, [1, 0, 2]], [("a good day",), ("odd",)], several=True)
    assert both is not None
    assert both.tolist() == [[True, True, False], [False, False, True]]
    assert labels_by_words([("!",), ("?",)], np.eye(2, dtype=bool), [(".",)], several=False) is None


def test_baselines_learn_from_no_more_texts_than_their_time_allows() -> None:
    """Of long documents, 20,000 took longer than all of a minute. The odd rows say the contrary of the even ones."""
    words, number = ("good", "bad"), 40
    train = [(f"{words[row % 2]} " * (LETTERS_A_SECOND // 500 // number),) for row in range(number)]
    right = np.eye(2, dtype=bool)[[row % 2 for row in range(number)]]
    with within(0.002):
        few = affordable(train)
        assert 5 <= len(few) <= 20
        assert {*np.diff(few)} == {few[1] - few[0]}  # evenly spread
        said = labels_by_words(train, right, [("good",), ("bad",)], several=False)
        near = nearest_inputs([text for (text,) in train], ["good"])
    assert len(affordable(train)) == number
    assert said is not None
    assert near is not None
    assert {*near} <= {*few}
    assert 0 < said.sum() <= 2


def test_two_texts_and_scripts_without_spaces_have_features_too() -> None:
    train = [("一个苹果很好吃", "x"), ("今天天气很冷啊", "y")] * 10
    said = labels_by_words(
        train, np.tile(np.eye(2, dtype=bool), (10, 1)), [("苹果好", "x"), ("天气", "y")], several=False
    )
    assert said is not None
    assert said.argmax(1).tolist() == [0, 1]


def test_nearest_inputs_means_and_words() -> None:
    near = nearest_inputs(["the red house", "a cat sleeps", "we eat"], ["my cat sleeps", "that red car"])
    assert near is not None
    assert near.tolist() == [1, 0]
    train = np.array([[0.0, 9], [1, 9], [10, 9], [11, 9]])
    assert nearest_means(train, np.array([2, 2, 5, 5]), np.array([[3.0, 9], [8, 9]])).tolist() == [2, 5]
    text = "One two three four five six seven. Built by Gustave Eiffel, the tower stands in Paris."
    assert "Gustave" in nearby_words(QuestionContext("Who built the tower?", text), 2)
    assert nearby_words(QuestionContext("Who?", "..."), 2) == ""
    assert most_frequent(["a", "b", "b", "a", "c"]) == "a"


def test_n_grams_are_witten_bells() -> None:
    train, test, size = [1, 2, 1, 2, 3, 1, 2], [1, 2, 3, 4], 6

    def p(history: tuple[int, ...], token: int) -> float:
        grams = [tuple(train[i : i + len(history) + 1]) for i in range(len(train) - len(history))]
        below = p(history[1:], token) if history else 1 / size
        after = Counter(gram[-1] for gram in grams if gram[:-1] == history)
        return (after[token] + len(after) * below) / (after.total() + len(after)) if after else below

    wanted = [-log2(p(tuple(test[max(0, at - 4) : at]), test[at])) for at in range(1, len(test))]
    assert ngram_bits(np.array(train), np.array(test), size) == pytest.approx(wanted)


# ---------------------------------------------------------------------------------------------------------------- data
@pytest.mark.parametrize("given", [(), ("valid",), ("test",), ("valid", "test")])
def test_parts_are_apart_and_equal_inputs_are_in_one(tmp_path: Path, given: tuple[str, ...]) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("".join(f"text {n % 150}\tlabel {n}\n" for n in range(600)), encoding="utf-8")
    roles: Any = ("train", *given)
    sources: Any = {role: PairSource(str(file), role) for role in roles}
    splits = find_splits(sources, lambda source: 600, valid_share=0.2, valid_most=10**6, test_share=0.2)
    rows = {role: {pair.line for pair in split.good()} for role, split in splits.items() if role not in given}
    assert all(rows.values())
    texts = [{line % 150 for line in some} for some in rows.values()]
    assert sum(map(len, texts)) == 150, "each text is in one part"
    assert sum(map(len, rows.values())) == 600, "and no row is lost"
    assert ("test" in rows) == ("test" not in given)
    if "test" in rows:
        assert rows["test"] == {pair.line for pair in find_test(sources, 0.2).good()}


def test_text_is_cut_into_three_parts_that_follow_each_other(tmp_path: Path) -> None:
    whole = "".join(f"line {n} of a book\n" for n in range(900))
    (tmp_path / "book.txt").write_text(whole, encoding="utf-8")
    for documents in ("file", "line"):
        settings = TextDataSettings.model_validate(
            {"train": str(tmp_path / "book.txt"), "test_share": 0.1, "documents": documents}
        )
        steps = PrepareCache.of(settings, tmp_path / "cache")
        parts = [*text_parts(settings, steps).values(), text_for_test(settings, steps)]
        texts = ["".join(piece.text for piece in part.good()) for part in parts if part is not None]
        assert "".join(texts) == (whole if documents == "file" else whole.replace("\n", ""))
        assert [round(10 * len(text) / sum(map(len, texts))) for text in texts] == [8, 1, 1]


def test_little_data_is_not_divided() -> None:
    assert Testing().share(40) == 0
    counts = [100, 1000, 10_000, 1_000_000]
    held = [count * Testing().share(count) for count in counts]
    assert held == pytest.approx([15, 100, 1000, 2000], rel=0.01)
    assert all(one <= other for one, other in pairwise(held))


# ---------------------------------------------------------------------------------------------------------- a training
def _labels(file: Path, rows: int = 200) -> Path:
    lines = [
        f"I {'like' if n % 2 else 'hate'} what I saw on day {n}\t{'good' if n % 2 else 'bad'}" for n in range(rows)
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


SMALL = {"max_steps": 2, "validate_every": 2, "looks": 0}


def test_the_command_ends_with_the_test_score_and_evaluate_needs_no_file(tmp_path: Path) -> None:
    data, run = _labels(tmp_path / "said.tsv"), tmp_path / "run"
    settings = [f"training.{name}={value}" for name, value in SMALL.items()]
    said = command("train", str(data), "-o", str(run), "--time-limit", "5s", *settings)
    last = said.stderr.strip().splitlines()[-1]
    assert last.startswith("test accuracy ")
    assert "(95% interval" in last
    assert "baselines: most frequent label" in last
    assert "the model is not better than TF-IDF + logistic regression" in last
    assert "What may help: " in last
    assert "validation data chose these weights" in said.stderr
    card, report = ((run / name).read_text(encoding="utf-8") for name in ("README.md", "report.html"))
    assert ".\nValidation scores, by which the weights were chosen: loss " in card
    assert "Test accuracy" in card
    assert "baseline: TF-IDF + logistic regression" in report
    assert "validation accuracy" in report
    test = api.load(run).summary()["test"]
    scores = command("evaluate", str(run), "--json").stdout
    assert f'"examples": {test["count"]:.1f}' in scores
    page = tmp_path / "scores.html"
    assert command("evaluate", str(run), "-o", str(page)).stdout.startswith("test scores")
    assert "Test scores" in page.read_text(encoding="utf-8")


def test_scores_of_several_runs_name_their_part() -> None:
    assert ScoreVerdict("lag", "mse", 1.0, 0.0, 0.5, "min").sentence() == "lag: test mse 0.5, promised 1 ± 0: holds"
    row = ComparisonRow("a", {}, "runs/a", {"bleu": 3.0}, 10, 1, 1.0, 1, [], [])
    assert "variants, test scores" in str(Comparison("ladder", [row], Path("compare.html"), ()).table().title)


def test_no_row_of_the_test_part_is_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in batches, nor in the vocabulary, nor by baselines; a run that is resumed keeps its parts and score."""
    data, run = _labels(tmp_path / "said.tsv"), tmp_path / "run"
    read: list[str] = []
    learn = jobs.load_object("regard.tasks.final_score:labels_by_words")

    def seen(train: Any, *rest: Any, **options: Any) -> Any:
        read.extend(text for (text,) in train)
        return learn(train, *rest, **options)

    monkeypatch.setattr("regard.tasks.labels.output.labels_by_words", seen)
    share: Any = {"data": {"test_share": 0.2}}
    trained = api.train(data, output=run, time_limit=2, training=SMALL, **share)
    held = {example.input for example in trained.job.output.test()[0]}
    assert 20 < len(held) < 60
    job = make_job(trained.recipe)
    job.prepare(run / "cache")
    known = {one.input for role in ("train", "valid") for one in job.splits[role].sample(1000)}
    assert read
    assert held.isdisjoint(known | set(read))
    assert len(held | known) == 200
    vocabulary = set((run / "tokenizer.json").read_text(encoding="utf-8").split('"'))
    assert not {text.split()[-1] for text in held} <= vocabulary
    before = trained.summary()["test"]
    again = api.train(run / "recipe.yaml", output=run)
    assert {example.input for example in again.job.output.test()[0]} == held
    assert again.summary()["test"] == before


@pytest.mark.parametrize(("rows", "share", "words"), [
    (40, {}, "no test score: 40 examples are not divided"),
    (200, {"test_share": 0}, "no test score: 200 examples are not divided"),
    (100, {"test_share": 0.05}, "too few to judge; give more test data"),
])  # fmt: skip
def test_data_that_is_not_divided_says_why(rows: int, share: dict[str, Any], words: str, tmp_path: Path) -> None:
    options: Any = {"data": share} if share else {}
    data = _labels(tmp_path / "said.tsv", rows)
    run = api.train(data, output=tmp_path / "run", time_limit=2, training=SMALL, **options)
    assert words in run.closing_words().splitlines()[-1]
    assert words in (tmp_path / "run" / "README.md").read_text(encoding="utf-8").replace("No test", "no test")


@pytest.mark.parametrize(("recipe", "settings", "baseline"), [
    ("encode-transformer", {"data.train": "examples/pairs.tsv", "data.test_share": 0.2}, "TF-IDF"),
    ("shapes-match", {}, "chance"),
])  # fmt: skip
def test_recipes_are_scored_if_they_ask_for_it(recipe: str, settings: dict[str, Any], baseline: str) -> None:
    """Of jobs that no data leads to by itself: those are trained in test_auto.py."""
    made = config.read(recipe, [f"{name}={value}" for name, value in settings.items()])
    with small_corpora(), TemporaryDirectory() as cache:
        job = make_job(made)
        job.prepare(Path(cache))
        bound = job.bound(job.build().eval())
        found = bound.final_score(600.0)
        assert found is not None
        assert [*found.baselines] == [baseline]
        assert bound.evaluate().values[found.metric] == pytest.approx(found.value, abs=1e-6)
        assert bound.evaluate().notes["data"].startswith("test data, ")
