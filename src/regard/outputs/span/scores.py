"""Exact match and F1 of answers, of all questions and by kind."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from regard.data.examples import Example, Examples
from regard.inputs.question.windows import Asked
from regard.metrics.answers import AnswerScore, answer_score, best_threshold, mean_score
from regard.outputs.baselines import ROWS
from regard.outputs.result import Scores, Tally
from regard.outputs.span.reading import Found

WORD, AROUND = re.compile(r"\w+"), 5  # words on each side for a simple baseline
WORDS = ("what", "who", "whose", "when", "where", "which", "why", "how")


def answer_scores(said: Sequence[str], examples: Sequence[Example], no_answer: bool) -> AnswerScore:
    """Return the mean score, in percent."""
    return mean_score(_each(said, examples, no_answer))


def scores_of(said: Sequence[str], found: Sequence[Found], examples: Sequence[Example], no_answer: bool) -> Scores:
    """Return the scores. With `no_answer`, also those of questions with and without an answer, and by the best
    threshold.
    """
    scores = _each(said, examples, no_answer)
    whole = mean_score(scores)
    values = {"exact_match": whole.exact, "f1": whole.f1, "questions": float(len(examples))}
    if no_answer:
        has = [any(example.texts) for example in examples]
        for name, wanted in (("has_answer", True), ("no_answer", False)):
            part = [one for one, has_one in zip(scores, has, strict=True) if has_one == wanted]
            if part:
                mean = mean_score(part)
                values |= {f"{name}_exact_match": mean.exact, f"{name}_f1": mean.f1, f"{name}_questions": len(part)}
        spoken = [one.text(one.chars(one.spans[0])) if one.spans else "" for one in found]
        f1 = [one.f1 for one in _each(spoken, examples, no_answer)]
        best = best_threshold([one.odds for one in found], f1, [float(not has_one) for has_one in has])
        values |= {"best_f1": best.f1, "best_threshold": best.value}
    percent = [name for name in values if name.endswith(("exact_match", "f1"))]
    return Scores(values, details={"by first word": _by_word(examples, scores)}, percent=percent)


def _each(said: Sequence[str], examples: Sequence[Example], no_answer: bool) -> list[AnswerScore]:
    pairs = zip(said, examples, strict=True)
    return [answer_score(text, example.texts, no_answer=no_answer) for text, example in pairs]


def f1_tally(said: Sequence[str], examples: Sequence[Example], no_answer: bool) -> Tally:
    return Tally.of_shares([(one.f1, 1) for one in _each(said, examples, no_answer)], percent=True)


def simple_answers(train: Examples, examples: Sequence[Example], no_answer: bool) -> dict[str, list[str]]:
    """Return baselines: words of the document near words of the question; no answer, if that is allowed."""
    lengths = [len(one.texts[0].split()) for one in train.sample(ROWS) if one.texts[0]]
    size = int(np.median(lengths)) if lengths else 1
    found = {"words near those of the question": [nearby_words(one.input, size) for one in examples]}
    return found | ({"no answer": [""] * len(examples)} if no_answer else {})


def nearby_words(asked: Asked, size: int) -> str:
    """Return the `size` words with the most words of the question beside them and none among them: a simple baseline
    after the sliding window of Richardson et al. 2013 (MCTest). A word counts less if it is frequent in the document.
    """
    places = list(WORD.finditer(asked.document))
    words = [place[0].lower() for place in places]
    sought, counts = {word.lower() for word in WORD.findall(asked.question)}, Counter(words)
    weights = [1 / counts[word] if word in sought else 0.0 for word in words]
    sums = [0.0, *accumulate(weights)]
    last = max(0, len(words) - size)

    def value(start: int) -> float:
        around = sums[min(len(words), start + size + AROUND)] - sums[max(0, start - AROUND)]
        inside = sums[min(len(words), start + size)] - sums[start]
        return around - 2 * inside

    if not places:
        return ""
    best = max(range(last + 1), key=value)
    return asked.document[places[best].start() : places[min(len(places), best + size) - 1].end()]


def _by_word(examples: Sequence[Example], scores: Sequence[AnswerScore]) -> list[dict[str, str | int | float]]:
    """Return scores by question word: what, who, when."""
    groups: dict[str, list[AnswerScore]] = {}
    for example, one in zip(examples, scores, strict=True):
        words = [word.strip("?,.").lower() for word in example.input.question.split()]
        groups.setdefault(next((word for word in words if word in WORDS), "other"), []).append(one)
    rows: list[dict[str, str | int | float]] = []
    for word, part in sorted(groups.items(), key=lambda group: -len(group[1])):
        mean = mean_score(part)
        rows.append({"asks": word, "questions": len(part), "exact_match": mean.exact, "f1": mean.f1})
    return rows
