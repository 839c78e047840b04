"""Scores of a text-to-text model: loss on stored pairs, and text against references."""

from collections.abc import Sequence
from itertools import islice

import torch

from regard.cost.estimate import Cost
from regard.cost.hardware import here
from regard.cost.passes import model_cost
from regard.cost.units import count, duration, memory
from regard.data.files import PairSource
from regard.data.pairs import Pair
from regard.errors import RegardError
from regard.inputs.text.pair_batches import TokenBatches
from regard.inputs.text.pair_prepare import PreparedPairs
from regard.inputs.text.pair_store import PairStore
from regard.inputs.text.splits import Split
from regard.job import Scores
from regard.metrics.by_length import bleu_by_length
from regard.metrics.error_rates import sequence_error_rate, token_error_rate
from regard.metrics.text import bleu, chrf, exact_match, ter
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text.build import build_seq2seq
from regard.outputs.text.translate_settings import TranslateRecipe


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


def estimates(recipe: TranslateRecipe, prepared: PreparedPairs) -> dict[str, str]:
    """The size of the model, memory, and time for an epoch on this machine, counted before anything is built."""
    batches = TokenBatches(prepared.train, recipe.training.max_tokens, seed=recipe.training.seed)
    length = max(1, round(len(prepared.train.target_ids) / max(1, len(prepared.train))))
    with torch.device("meta"):
        model = build_seq2seq(recipe.model, prepared.source.size, prepared.target.size)
    rows = max(1, recipe.training.max_tokens // (2 * length))
    cost = model_cost(model, batch=rows, length=length, hardware=here(0.3))
    full = f"{batches.len_epoch(0):,}, {batches.fill():.0%} full"
    return {**cost_lines(cost, len(prepared.train.target_ids)), "batches in an epoch": full}


def cost_lines(cost: Cost, tokens: int) -> dict[str, str]:
    """What a check tells of a model's cost, where an epoch has so many tokens."""
    assert cost.time is not None
    seconds = tokens / cost.time.training_tokens_per_second
    return {
        "parameters": count(cost.parameters),
        "memory for training": memory(cost.memory.training),
        "time for an epoch": f"about {duration(seconds)} at {cost.time.utilization:.0%} of this machine's peak",
    }


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
    """Every score of text that the field uses.

    BLEU, chrF and TER are taken line by line, as everybody does, so that they can be compared. Exact match and error
    rates count a line as right if any line of the same source says so: a word may have several pronunciations.
    """
    found = [bleu(said, references), chrf(said, references), ter(said, references)]
    answers: dict[str, dict[str, None]] = {}
    for source, reference in zip(sources, references, strict=True):
        answers.setdefault(source, {})[reference] = None
    output = dict(zip(reversed(sources), reversed(said), strict=True))  # the first of equal sources
    outputs = [output[source] for source in answers]
    right = [list(several) for several in answers.values()]
    tokens, right_tokens = [text.split() for text in outputs], [[r.split() for r in several] for several in right]
    values = {
        **{score.name.lower(): score.score for score in found},
        "exact_match": exact_match(outputs, right),
        "token_error_rate": token_error_rate(tokens, right_tokens),
        "sequence_error_rate": sequence_error_rate(tokens, right_tokens),
        "sentences": float(len(said)),
    }
    rows = [
        {"words": part.label, "sentences": part.count, "bleu": part.bleu}
        for part in bleu_by_length(sources, said, references)
    ]
    return Scores(values, {"signature": found[0].signature}, {"bleu by source length": rows})
