"""Answers against the right ones: exact match and F1, of all questions and by kind."""

from collections.abc import Sequence

from regard.data.examples import Example
from regard.metrics.answers import AnswerScore, answer_score, best_threshold, mean_score
from regard.outputs.result import Scores
from regard.outputs.span.reading import Found

WORDS = ("what", "who", "whose", "when", "where", "which", "why", "how")


def answer_scores(said: Sequence[str], examples: Sequence[Example], no_answer: bool) -> AnswerScore:
    """The mean, in per cent."""
    return mean_score(_each(said, examples, no_answer))


def scores_of(said: Sequence[str], found: Sequence[Found], examples: Sequence[Example], no_answer: bool) -> Scores:
    """With `no_answer`, also of questions with and without an answer apart, and by the threshold that would be best."""
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


def _by_word(examples: Sequence[Example], scores: Sequence[AnswerScore]) -> list[dict[str, str | int | float]]:
    """What, who, when: the word that says what is asked for."""
    groups: dict[str, list[AnswerScore]] = {}
    for example, one in zip(examples, scores, strict=True):
        words = [word.strip("?,.").lower() for word in example.input.question.split()]
        groups.setdefault(next((word for word in words if word in WORDS), "other"), []).append(one)
    rows: list[dict[str, str | int | float]] = []
    for word, part in sorted(groups.items(), key=lambda group: -len(group[1])):
        mean = mean_score(part)
        rows.append({"asks": word, "questions": len(part), "exact_match": mean.exact, "f1": mean.f1})
    return rows
