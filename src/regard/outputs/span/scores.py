"""Scores of a reader: loss on stored questions, and answers against the right ones."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import torch

from regard.cost.units import count, memory
from regard.data.pairs import Bad
from regard.errors import CallError, RegardError
from regard.inputs.question.files import Question
from regard.inputs.question.prepare import PreparedQuestions
from regard.inputs.question.source import QuestionSource
from regard.inputs.question.store import QuestionStore
from regard.inputs.question.windows import WindowBatches
from regard.metrics.answers import AnswerScore, answer_score, best_threshold, mean_score
from regard.models.reader import Reader
from regard.old_job import Scores
from regard.outputs.span.build import build_reader
from regard.outputs.span.reading import Ask, Found, Texts, find
from regard.outputs.span.settings import AnswerRecipe, RecurrentReaderSettings
from regard.settings.encoder import EncoderSettings

WORDS = ("what", "who", "whose", "when", "where", "which", "why", "how")
ALL = 10**9  # spans of a window: as many as there are


def batches(recipe: AnswerRecipe, store: QuestionStore, pad: int) -> WindowBatches:
    data, training = recipe.data, recipe.training
    return WindowBatches(
        store, training.max_tokens, max_length=data.max_length, overlap=data.overlap, pad=pad, seed=training.seed
    )


@torch.inference_mode()
def loss(model: Reader, batches: WindowBatches) -> dict[str, float]:
    """Cross-entropy a pointer, and the share of windows with both pointers right."""
    device = next(model.parameters()).device
    total, windows, right = 0.0, 0, 0
    for batch in batches.epoch(0):
        assert batch is not None
        found = model(batch.to(device))
        total, windows, right = total + float(found.total), windows + found.count, right + int(found.correct)
    return {"loss": total / max(1, windows), "accuracy": right / max(1, windows)}


def estimates(
    recipe: AnswerRecipe, sizes: RecurrentReaderSettings | EncoderSettings, prepared: PreparedQuestions
) -> dict[str, str]:
    """The size of the model, counted before anything is built, and how the data falls into batches."""
    with torch.device("meta"):
        model = build_reader(sizes, prepared.tokenizer)
    parameters = sum(weight.numel() for weight in model.parameters())
    planned = batches(recipe, prepared.train, 0)
    return {
        "parameters": count(parameters),
        "weights, gradients and optimizer": memory(16 * parameters),
        "windows in an epoch": f"{len(planned):,} of {len(prepared.train):,} questions",
        "batches in an epoch": f"{planned.len_epoch(0):,}, {planned.fill():.0%} full",
    }


def score(said: Sequence[str], items: Sequence[Question], no_answer: bool) -> AnswerScore:
    """The mean, in per cent."""
    pairs = zip(said, items, strict=True)
    return mean_score([answer_score(text, item.texts, no_answer=no_answer) for text, item in pairs])


def evaluate(
    test: QuestionSource,
    recipe: AnswerRecipe,
    ask: Callable[[Sequence[Ask]], list[Found]],
    say: Callable[[Found], str],
) -> Scores:
    """Of all questions of the test data. One that occurs several times has several right answers."""
    items, bad = _read_all(test)
    found = ask([Ask(item.question, item.document) for item in items])
    no_answer = recipe.data.no_answer
    said = [say(one) for one in found]
    scores = [answer_score(text, item.texts, no_answer=no_answer) for text, item in zip(said, items, strict=True)]
    whole = mean_score(scores)
    values = {"exact_match": whole.exact, "f1": whole.f1, "questions": float(len(items))}
    if no_answer:
        has = [bool(item.answers) for item in items]
        for name, wanted in (("has_answer", True), ("no_answer", False)):
            part = [one for one, has_one in zip(scores, has, strict=True) if has_one == wanted]
            if part:
                mean = mean_score(part)
                values |= {f"{name}_exact_match": mean.exact, f"{name}_f1": mean.f1, f"{name}_questions": len(part)}
        spoken = [
            answer_score(one.text(one.spans[0]) if one.spans else "", item.texts, no_answer=True).f1
            for one, item in zip(found, items, strict=True)
        ]
        best = best_threshold([one.odds for one in found], spoken, [float(not has_one) for has_one in has])
        values |= {"best_f1": best.f1, "best_threshold": best.value}
    notes = {"skipped": f"{bad} of {test.where} that cannot be used (see regard check)"} if bad else {}
    return Scores(values, notes, {"by first word": _by_word(items, scores)})


def _read_all(test: QuestionSource) -> tuple[list[Question], int]:
    """The questions, and how many cannot be used. In a table, lines that ask the same give one question its answers."""
    items, bad = dict[tuple[str, ...], Question](), 0
    for item in test.read():
        if isinstance(item, Bad):
            bad += item.kind != "blank"
            continue
        key = (str(item.line),) if test.lists_answers else (item.question, item.document)
        known = items.get(key)
        items[key] = item if known is None else known._replace(answers=(*known.answers, *item.answers))
    if not items:
        raise RegardError(f"data.test={test.where}: there is not one question in it")
    return list(items.values()), bad


def _by_word(items: Sequence[Question], scores: Sequence[AnswerScore]) -> list[dict[str, str | int | float]]:
    """What, who, when: the word that says what is asked for."""
    groups: dict[str, list[AnswerScore]] = {}
    for item, one in zip(items, scores, strict=True):
        words = [word.strip("?,.").lower() for word in item.question.split()]
        groups.setdefault(next((word for word in words if word in WORDS), "other"), []).append(one)
    rows: list[dict[str, str | int | float]] = []
    for word, part in sorted(groups.items(), key=lambda group: -len(group[1])):
        mean = mean_score(part)
        rows.append({"asks": word, "questions": len(part), "exact_match": mean.exact, "f1": mean.f1})
    return rows


def given(
    model: Reader, texts: Texts, asks: Sequence[Ask], answers: Sequence[str], recipe: AnswerRecipe
) -> list[tuple[float, tuple[int, int]]]:
    """log p of each given answer, at the best of the places where it stands in the document, and that place."""
    how = recipe.decoding.model_copy(update={"n_best": ALL})
    results = []
    for number, (ask, answer, found) in enumerate(zip(asks, answers, find(model, texts, asks, how), strict=True), 1):
        total = np.logaddexp(found.total, found.none) if recipe.data.no_answer else found.total
        places = [place.start() for place in re.finditer(re.escape(answer), ask.document)] if answer else []
        wanted = {found.document.tokens_of(start, start + len(answer)) for start in places}
        best = next((span for span in found.spans if (span.first, span.last) in wanted), None)
        if best is None:
            reason = (
                f"has more than decoding.max_length={how.max_length} tokens" if places else "is not in the document"
            )
            raise CallError(f"output {number}: {answer!r} {reason}")
        results.append((float(best.score - total), found.chars(best)))
    return results
