"""Scores of a text-to-text model: loss on stored pairs, and text against references."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import torch

from regard.data.batches import TokenBatches
from regard.data.files import PairSource
from regard.data.pairs import Pair
from regard.data.splits import Split
from regard.data.store import PairStore
from regard.errors import RegardError
from regard.metrics.by_length import bleu_by_length
from regard.metrics.errors import sequence_error_rate, token_error_rate
from regard.metrics.text import bleu, chrf, exact_match, ter
from regard.models.seq2seq import Seq2Seq
from regard.tasks.task import Scores


@torch.inference_mode()
def loss(model: Seq2Seq, store: PairStore, max_tokens: int) -> dict[str, float]:
    """Cross-entropy and accuracy a token, without label smoothing."""
    device = next(model.parameters()).device
    total, count, correct = 0.0, 0, 0
    for batch in TokenBatches(store, max_tokens).epoch(0):
        found = model(batch.to(device))
        total, count = total + float(found.total), count + int(found.count)
        correct += int(found.correct)
    return {"loss": total / max(1, count), "accuracy": correct / max(1, count)}


def texts(split: Split, most: int) -> list[Pair]:
    """The first pairs of a split, as text."""
    return list(islice((item for item in split.read() if isinstance(item, Pair)), most))


def read_all(source: PairSource) -> tuple[list[Pair], int]:
    """All pairs, and how many lines are none. Nothing is cut or skipped for its length: a score is of all the data."""
    items = list(source.read())
    pairs = [item for item in items if isinstance(item, Pair)]
    if not pairs:
        raise RegardError(f"data.test={source.where}: there is not one pair in it")
    return pairs, len(items) - len(pairs)


def text_scores(sources: Sequence[str], said: Sequence[str], references: Sequence[str]) -> Scores:
    """Every score of text that the field uses. Pairs with one source are one sentence with several references."""
    answers: dict[str, list[str]] = {}
    for source, reference in zip(sources, references, strict=True):
        answers.setdefault(source, []).append(reference)
    first = {source: place for place, source in reversed(list(enumerate(sources)))}
    order = sorted(first.values())
    hypotheses = [said[place] for place in order]
    right = [answers[sources[place]] for place in order]
    found = [bleu(hypotheses, right), chrf(hypotheses, right), ter(hypotheses, right)]
    tokens, right_tokens = [text.split() for text in hypotheses], [[r.split() for r in several] for several in right]
    values = {
        **{score.name.lower(): score.score for score in found},
        "exact_match": exact_match(hypotheses, right),
        "token_error_rate": token_error_rate(tokens, right_tokens),
        "sequence_error_rate": sequence_error_rate(tokens, right_tokens),
        "sentences": float(len(hypotheses)),
        "mean_length_ratio": float(
            np.mean([len(h) / max(1, len(r[0])) for h, r in zip(tokens, right_tokens, strict=True)])
        ),
    }
    bins = bleu_by_length([sources[place] for place in order], hypotheses, right)
    rows = [{"words": b.label, "sentences": b.count, "bleu": b.bleu} for b in bins]
    return Scores(values, {"signature": found[0].signature}, {"bleu by source length": rows})
