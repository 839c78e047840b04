"""How well a language model tells a text: loss a token, perplexity, bits per byte.

    loss = −(1/n) Σ_t log p(y_t | y_{t−c} … y_{t−1})    perplexity = e^loss    bits per byte = n · loss / (ln 2 · bytes)

Bits per byte can be compared between vocabularies: the text has as many bytes however it is cut.

A model looks back at `context` tokens. Windows that lie side by side leave the first tokens of each with little to look
back at; windows that overlap (they move by `stride` tokens, and only what is new is counted) give every token a past
of at least context − stride tokens, for context/stride times the work. Press et al. 2020, section 3 (arXiv:2012.15832).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.cost.hardware import here
from regard.cost.passes import model_cost
from regard.cost.units import count, duration, memory
from regard.data.check_report import CheckReport, Finding
from regard.data.tables import Role
from regard.layers.loss import fused_cross_entropy
from regard.models.language_model import NO_TOKEN, LanguageModel
from regard.outputs.text.generate_settings import GenerateRecipe
from regard.outputs.text.plain_batches import TextWindows
from regard.outputs.text.plain_prepare import PreparedText
from regard.outputs.text.plain_store import TextStore

FEW_WINDOWS = 20  # of training text; below this a model can only learn by heart
MANY_UNKNOWN = 0.001


@dataclass(frozen=True)
class TextLoss:
    """Sums over the tokens that were predicted: all but the very first."""

    total: float
    tokens: int
    correct: int
    bytes: int

    def values(self) -> dict[str, float]:
        loss = self.total / max(1, self.tokens)
        return {
            "loss": loss,
            "accuracy": self.correct / max(1, self.tokens),
            "perplexity": math.exp(min(loss, 700.0)),
            "bits_per_byte": self.total / math.log(2) / max(1, self.bytes),
        }


@torch.inference_mode()
def text_loss(model: LanguageModel, store: TextStore, *, context: int, stride: int, rows: int) -> TextLoss:
    """The loss of a whole store, each token counted once."""
    device = next(model.parameters()).device
    total, tokens, correct = 0.0, 0, 0
    for window, counted in sliding(store, context, stride, rows):
        features = model.features(window[:, :-1].to(device))
        chosen = counted.to(device)
        found = fused_cross_entropy(
            features[chosen], model.output.weight, None, window[:, 1:].to(device)[chosen], pad=NO_TOKEN
        )
        assert found.correct is not None
        total, tokens, correct = total + float(found.total), tokens + found.count, correct + int(found.correct)
    return TextLoss(total, tokens, correct, store.counts.bytes)


def sliding(
    store: TextStore, context: int, stride: int, rows: int
) -> Iterator[tuple[Int[Tensor, "B T"], Bool[Tensor, "B t"]]]:
    """Windows of context + 1 tokens, and which of the last `context` are counted; the last window may be shorter."""
    predicted = len(store) - 1
    width = min(context, predicted)
    starts = np.arange(0, predicted - width + 1, min(stride, width))
    groups = [starts[place : place + rows] for place in range(0, len(starts), rows)]
    ends = int(starts[-1]) + width
    if ends < predicted:  # one more, up to the very end
        groups.append(np.array([predicted - width]))
    done = 0  # tokens counted so far
    for group in groups:
        window = torch.from_numpy(store.ids[group[:, None] + np.arange(width + 1)].astype(np.int64))
        last = np.minimum(group + width, predicted)
        first = np.concatenate([[done], last[:-1]])
        place = group[:, None] + np.arange(width)
        yield window, torch.from_numpy((place >= first[:, None]) & (place < last[:, None]))
        done = int(last[-1])


def check_report(recipe: GenerateRecipe, prepared: PreparedText, model: LanguageModel) -> CheckReport:
    """What is wrong with the text, what there is of it, and what the model will cost. `model` is on the meta device."""
    findings: list[Finding] = []
    table = []
    for role, store in prepared.stores.items():
        counts = store.counts
        table.append(
            {
                "split": role, "documents": counts.documents, "characters": counts.characters, "bytes": counts.bytes,
                "tokens": counts.tokens, "bytes a token": f"{counts.bytes / max(1, counts.tokens):.2f}",
                "unknown": counts.unknown, "lines lost": counts.bad,
            }
        )  # fmt: skip
        findings += _findings(recipe, role, store)
    findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.severity))
    vocabulary = {"text": prepared.tokenizer.size}
    return CheckReport({}, vocabulary, findings, _estimates(recipe, prepared, model), {"text": table})


def _findings(recipe: GenerateRecipe, role: Role, store: TextStore) -> Iterator[Finding]:
    counts, context = store.counts, recipe.model.context
    if counts.bad:
        first, too_many = counts.first_bad[0], counts.bad_share > recipe.data.max_bad
        advice = "convert the file to UTF-8: iconv -f LATIN1 -t UTF-8 FILE > NEW; these lines are skipped"
        if too_many:
            advice += f"; {counts.bad_share:.1%} of all lines are bad, data.max_bad allows {recipe.data.max_bad:.1%}"
        lines = [bad.line for bad in counts.first_bad if bad.file == first.file]
        what = f"{counts.bad:,} line{'s' if counts.bad != 1 else ''} not readable as text: {first.reason}"
        yield Finding("error" if too_many else "warning", role, what, counts.bad, first.file, lines, advice)
    if counts.unknown > MANY_UNKNOWN * counts.tokens:
        what = f"{counts.unknown:,} of {counts.tokens:,} tokens are not in the vocabulary"
        advice = "raise data.tokenizer.size, or use data.tokenizer.kind=byte or bpe, which know every text"
        yield Finding("warning", role, what, counts.unknown, store.name, [], advice)
    if len(store) <= context:
        what = f"{len(store):,} tokens are less than one window of model.context={context}"
        yield Finding("warning", role, what, len(store), store.name, [], "lower model.context, or give more text")
    elif role == "train" and len(store) < FEW_WINDOWS * context:
        what = f"{len(store):,} tokens are only {len(store) // context} windows of model.context={context}"
        yield Finding("note", role, what, len(store), store.name, [], "the model will learn the text by heart")


def _estimates(recipe: GenerateRecipe, prepared: PreparedText, model: LanguageModel) -> dict[str, str]:
    training, context = recipe.training, recipe.model.context
    rows = max(1, training.max_tokens // context)
    batches = TextWindows(prepared.train, context, rows, seed=training.seed)
    cost = model_cost(model, batch=rows, length=context, hardware=here(0.3))
    assert cost.time is not None
    seconds = len(prepared.train) / cost.time.training_tokens_per_second
    return {
        "parameters": count(cost.parameters),
        "memory for training": memory(cost.memory.training),
        "time for an epoch": f"about {duration(seconds)} at {cost.time.utilization:.0%} of this machine's peak",
        "batches in an epoch": f"{batches.len_epoch(0):,} of {rows} × {context} tokens",
    }
