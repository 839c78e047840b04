"""The final score: of the final weights on test data, with n, a 95% interval and simple baselines.

    answers of the model      ─┐
    answers of each baseline  ─┴→ tally (of the output)    → score, interval, difference on the same examples

One function scores the model and the baselines on the same examples. An output defines `measure`, `answers`,
`baselines` and `tally`; the rest is here.
"""

import time
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import nn

from regard.metrics.intervals import Interval, bootstrap, middle, wilson
from regard.tasks.result import Measure, Tally, readable
from regard.work import showing_progress

# Simple baselines for a trained model: each is fitted in seconds and needs no neural network.
#
# labels of texts            the most frequent label; TF-IDF and logistic regression
# labels of other inputs     the most frequent label; the nearest mean
# texts for texts            the input itself; the target of the nearest training input
# plain text                 n-grams, smoothed as Witten and Bell 1991 (method C; Chen and Goodman 1998, section 2.6)
#
#   p(y | h) = (c(h, y) + T(h) p(y | h′)) / (c(h) + T(h))       h′: h without its first token; T(h): what followed h

T = TypeVar("T", bound=Hashable)

ROWS = 20_000  # maximum training examples of a baseline
FEW_ROWS = 3000  # maximum for pictures and recordings, which take longer to read
COSTLY = 400_000  # maximum rows × classes of a logistic regression; beyond it, fewer rows are used
FEWEST_ROWS = 2000  # minimum rows
MANY_CLASSES = 200  # with more classes, the nearest mean is used
LETTERS_A_SECOND = 1_000_000  # characters of training texts for TF-IDF and logistic regression
PHRASES = 100_000  # maximum words and pairs of words of TF-IDF
LETTERS_A_WORD = 15  # longer words mean a script without spaces: use letters
AT_ONCE = 256  # texts compared with all others in one batch
TOKENS, LONGEST = 1_000_000, 5  # n-grams: training tokens, and the largest n
TFIDF, NEAREST_MEAN = "TF-IDF + logistic regression", "nearest mean"
NEAREST, MAJORITY = "nearest training input", "most frequent label"

_seconds: ContextVar[float] = ContextVar("regard_seconds_of_baselines", default=60.0)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit each baseline in this block to the texts that it can read in about `seconds`."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


def most_frequent(values: Iterable[T]) -> T:
    """Return the most frequent value; of equally frequent ones, the first."""
    return Counter(values).most_common(1)[0][0]


# --------------------------------------------------------------------------------------------------------------- texts
def has_tfidf() -> bool:
    """Whether scikit-learn is installed (extra `train`)."""
    return find_spec("sklearn") is not None


def tfidf(train: Sequence[Sequence[str]], test: Sequence[Sequence[str]]) -> tuple[Any, Any] | None:
    """Return TF-IDF vectors (sparse rows of length 1) of inputs of one text or more; None if they contain no word.

    Features are words and pairs of words, or letters in scripts without spaces.
    """
    vectorizer = import_module("sklearn.feature_extraction.text").TfidfVectorizer
    stack = import_module("scipy.sparse").hstack
    found: list[tuple[Any, Any]] = []
    for side in range(len(train[0]) if train else 0):
        ours, theirs = [one[side] for one in train], [one[side] for one in test]
        words = sum(map(len, ours)) <= LETTERS_A_WORD * sum(text.count(" ") + 1 for text in ours)
        how: dict[str, Any] = {"ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b"} if words else {}
        how = how or {"analyzer": "char", "ngram_range": (1, 3)}
        learned = vectorizer(sublinear_tf=True, max_features=PHRASES, dtype=np.float32, **how)
        try:
            found.append((learned.fit_transform(ours), learned.transform(theirs)))
        except ValueError:  # only stop words and punctuation
            return None
    return (stack([one for one, _ in found]).tocsr(), stack([one for _, one in found]).tocsr()) if found else None


def labels_by_words(
    train: Sequence[Any], right: Bool[np.ndarray, "N C"], test: Sequence[Any], *, several: bool
) -> Bool[np.ndarray, "M C"] | None:
    """Predict labels of inputs of one text or more by TF-IDF and logistic regression; with `several`, one regression
    per label.
    """
    keep = _spread_evenly(len(train), max(FEWEST_ROWS, COSTLY // max(1, right.shape[1])))
    keep = keep[affordable([train[int(row)] for row in keep])]
    vectors = tfidf([train[int(row)] for row in keep], test)
    if vectors is None:
        return None
    (ours, theirs), right = vectors, right[keep]
    found = np.zeros((len(test), right.shape[1]), bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence is not needed
        if several:
            for label in np.flatnonzero(right.any(0)):
                found[:, label] = (
                    True if right[:, label].all() else _fit_centroids(ours, right[:, label]).predict(theirs)
                )
            return found
        classes = right.argmax(1)
        if len(np.unique(classes)) < 2:
            said = np.full(len(test), classes[0])
        elif right.shape[1] > MANY_CLASSES:
            said = _nearest_centroid(ours, classes, theirs)
        else:
            said = _fit_centroids(ours, classes).predict(theirs)
    found[np.arange(len(test)), said] = True
    return found


def _fit_centroids(vectors: Any, classes: NDArray[Any]) -> Any:
    regression = import_module("sklearn.linear_model").LogisticRegression
    return regression(C=10.0, max_iter=100).fit(vectors, classes)


def _nearest_centroid(ours: Any, classes: NDArray[Any], theirs: Any) -> Int[np.ndarray, " M"]:
    present, number = np.unique(classes, return_inverse=True)
    csr = import_module("scipy.sparse").csr_matrix
    member = csr((np.ones(len(number), np.float32), (number, np.arange(len(number)))), (len(present), len(number)))
    means = import_module("sklearn.preprocessing").normalize(member @ ours)
    return np.concatenate(
        [present[(part @ means.T).toarray().argmax(1)] for part in _parts(theirs)] or [np.empty(0, int)]
    )


def nearest_inputs(train: Sequence[str], test: Sequence[str]) -> Int[np.ndarray, " M"] | None:
    """Return the most similar training text of each test text, by TF-IDF cosine."""
    keep = affordable([[one] for one in train])
    vectors = tfidf([[train[int(row)]] for row in keep], [[one] for one in test])
    if vectors is None:
        return None
    ours, theirs = vectors
    return keep[np.concatenate([np.asarray((part @ ours.T).toarray()).argmax(1) for part in _parts(theirs)])]


def _parts(rows: Any) -> Iterable[Any]:
    return (rows[start : start + AT_ONCE] for start in range(0, rows.shape[0], AT_ONCE))


def affordable(texts: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Return evenly spread rows: as many texts as a baseline can learn from in its time limit (`within`)."""
    letters = sum(len(text) for one in texts for text in one)
    share = min(1.0, LETTERS_A_SECOND * _seconds.get() / max(1, letters))
    return _spread_evenly(len(texts), max(1, round(share * len(texts))))


def _spread_evenly(count: int, most: int) -> NDArray[np.int64]:
    return np.arange(count)[:: max(1, -(-count // most))]


# -------------------------------------------------------------------------------------------------------- other inputs
def nearest_means(
    train: Float[np.ndarray, "N D"], classes: Int[np.ndarray, " N"], test: Float[np.ndarray, "M D"]
) -> Int[np.ndarray, " M"]:
    """Return the class with the nearest mean, over columns scaled to deviation 1 on the training examples."""
    deviation = train.std(0)
    scale = np.where(deviation > 0, deviation, 1.0)
    train, test = train / scale, test / scale
    present = np.unique(classes)
    means = np.stack([train[classes == one].mean(0) for one in present])
    distance = (means**2).sum(1)[None] - 2 * test @ means.T
    return present[distance.argmin(1)]


# ------------------------------------------------------------------------------------------------------------- n-grams
def ngram_bits(train: NDArray[Any], test: NDArray[Any], vocabulary: int) -> Float[np.ndarray, " T"]:
    """Return −log₂ p of each test token but the first, by an n-gram model of the last training tokens."""
    ours, theirs = (np.asarray(ids, np.uint64) for ids in (train[-TOKENS:], test))
    chance = np.full(len(theirs), 1.0 / max(1, vocabulary))
    mix = np.uint64(0x9E3779B97F4A7C15)
    history, asked = np.zeros(len(ours), np.uint64), np.zeros(len(theirs), np.uint64)
    with np.errstate(over="ignore"):
        for size in range(1, LONGEST + 1):
            grams = _hash_values(history * mix + ours + np.uint64(1))
            wanted = _hash_values(asked * mix + theirs + np.uint64(1))
            seen, first, counts = np.unique(grams[size - 1 :], return_index=True, return_counts=True)
            heads, follow = np.unique(history[size - 1 :][first], return_counts=True)  # distinct next tokens
            _, all_heads = np.unique(history[size - 1 :], return_counts=True)
            if not len(seen):
                break
            together = _looked_up(seen, counts, wanted)
            kinds, total = _looked_up(heads, follow, asked), _looked_up(heads, all_heads, asked)
            mixed = (together + kinds * chance) / np.maximum(1, total + kinds)
            known = (total > 0) & (np.arange(len(theirs)) >= size - 1)
            chance = np.where(known, mixed, chance)
            history, asked = _before(ours, size, mix), _before(theirs, size, mix)
    return -np.log2(chance[1:])


def _before(ids: NDArray[np.uint64], size: int, mix: np.uint64) -> NDArray[np.uint64]:
    """Return a hash of the `size` tokens before each position; the first positions have fewer tokens and are not
    used.
    """
    found = np.zeros(len(ids), np.uint64)
    for back in range(size, 0, -1):
        shifted = np.zeros(len(ids), np.uint64)
        shifted[back:] = ids[: max(0, len(ids) - back)] + np.uint64(1)
        found = _hash_values(found * mix + shifted)
    return found


def _hash_values(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return values ^ (values >> np.uint64(29))


def _looked_up(keys: NDArray[Any], values: NDArray[Any], wanted: NDArray[Any]) -> NDArray[Any]:
    """Return the value of each wanted key; 0 for missing keys."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0)


MOST = 2000  # test examples scored at the end of training
FEW = 20  # fewer test examples give no verdict
TRIED = 16  # one in this many examples is answered first, to estimate the time for all


@dataclass(frozen=True)
class FinalScore:
    """Final score over `count` of `all` test examples. `verdict`, against the best baseline: better, unclear (the
    difference may be chance), worse, few (too few examples to judge), or alone (no baseline).
    """

    metric: str
    value: float
    low: float
    high: float
    count: int
    all: int
    percent: bool
    higher_is_better: bool
    baselines: Mapping[str, float]
    verdict: str
    overlong: str = ""  # how many exceed the model's limit, and how they are treated

    @property
    def best(self) -> str:
        """Return the name of the best baseline; empty if there is none."""
        choose = max if self.higher_is_better else min
        return choose(self.baselines, key=self.baselines.__getitem__, default="")

    @property
    def not_beaten(self) -> list[str]:
        """Return the names of the baselines that are at least as good as the model."""
        sign = 1 if self.higher_is_better else -1
        return [name for name, value in self.baselines.items() if sign * self.value <= sign * value]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def words(self) -> str:
        """Return the score in one line."""
        of = f"n = {self.count:,}" if self.count == self.all else f"n = {self.count:,} of {self.all:,}"
        name = self.metric.replace("_", " ")
        long = f"; {self.overlong}" if self.overlong else ""
        between = f"{self._shown(self.low)} to {self._shown(self.high)}"
        said = f"test {name} {self._shown(self.value)} (95% interval {between}, {of})"
        listed = ", ".join(f"{one} {self._shown(value)}" for one, value in self.baselines.items())
        verdicts = {
            "few": f": {_examples(self.count)} {'is' if self.count == 1 else 'are'} too few to judge",
            "better": f": the model is better than its best simple baseline, {self.best}",
            "unclear": f": the model is not clearly better than {self.best}; the difference may be chance",
            "worse": f": the model is not better than {' and '.join(self.not_beaten)}",
        }
        return said + (f"; baselines: {listed}" if listed else "") + verdicts.get(self.verdict, "") + long

    def _shown(self, value: float) -> str:
        return f"{value:.1f}%" if self.percent else readable(value)


def _examples(count: int) -> str:
    return f"{count:,} example{'' if count == 1 else 's'}"


def final_score(output: Any, model: nn.Module, train: Any, *, seconds: float) -> FinalScore | None:
    """Score a model and its baselines on the test data; None if the output has no such score.

    `train` is the training split, for the baselines. `seconds` is the approximate time limit of the model's predictions
    and of each baseline's training. If time is short, evenly spread test examples are scored.
    """
    measure: Measure | None = output.measure()
    if measure is None:
        return None
    examples, _ = output.test()
    with showing_progress("predicting the test data", seconds):
        some = _affordable(output, model, output.spread(examples, MOST), seconds)
        answers = output.answers(model, some)
    tally: Tally = output.tally(answers, some)
    with within(seconds), showing_progress("fitting the baselines", seconds):
        learned: Mapping[str, Any] = output.baselines(train, some)
    others: dict[str, Tally] = {name: output.tally(said, some) for name, said in learned.items()}
    found = compare_scores(measure, tally, others, len(some), len(examples))
    return replace(found, overlong=output.overlong(some))


def _affordable(output: Any, model: nn.Module, examples: Any, seconds: float) -> Any:
    """Return the examples that the model can answer in time; all if they are not a list (a table of windows)."""
    if not isinstance(examples, Sequence) or len(examples) <= FEW:
        return examples
    some = output.spread(examples, max(FEW, len(examples) // TRIED))
    begin = time.perf_counter()
    output.answers(model, some)
    a_second = len(some) / max(1e-6, time.perf_counter() - begin)
    return output.spread(examples, max(FEW, int(a_second * seconds)))


def compare_scores(measure: Measure, model: Tally, baselines: Mapping[str, Tally], count: int, all: int) -> FinalScore:
    """Compare the model's score with the baselines' scores, from each example's contribution."""
    sign = 1 if measure.higher_is_better else -1
    values = {name: one.value(one.table) for name, one in baselines.items()}
    best = max(values, key=lambda name: sign * values[name]) if values else None
    tables = [model.table] if best is None else [model.table, baselines[best].table]
    draws = bootstrap(tables, model.value)
    interval = middle(draws[:, 0])
    if measure.of_hits:
        share = wilson(float(model.table[:, 0].sum()), len(model.table))
        interval = Interval(100 * share.low, 100 * share.high)
    value = model.value(model.table)
    verdict = "alone"
    if count < FEW:
        verdict = "few"
    elif best is not None:
        ahead = sign * (value - values[best])
        sure = float(np.quantile(sign * (draws[:, 0] - draws[:, 1]), 0.025)) > 0
        verdict = "worse" if ahead <= 0 else "better" if sure else "unclear"
    return FinalScore(
        measure.name, value, *interval, count, all, measure.percent, measure.higher_is_better, values, verdict
    )
