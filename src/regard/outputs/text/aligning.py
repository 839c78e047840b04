"""Where a text-to-text model looked: weights of a forced pass, for pictures, unknown words and alignment error.

Decoding is never traced. The output (or a reference) is forced through the model once more under a trace, which gives
the weights that decoding had, for the winner of a beam search as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.attention import Trace
from regard.corpora import PREFIX, load
from regard.data.pairs import Pair
from regard.data.tokenizer import Span, Tokenizer
from regard.decoding.unknown import replace_unknown
from regard.errors import CallError
from regard.inputs.text.settings import PairDataSettings
from regard.job import Alignment
from regard.metrics.alignment import Gold, read_naacl, read_pharaoh
from regard.metrics.reading import alignment_report, argmax_links, merge_subwords, two_way_links
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text.search import GROUP, Ids, in_groups, to_tensor
from regard.special_tokens import SPECIAL_TOKENS, UNK

Weights = dict[str, np.ndarray]  # name of the attention → heads × target tokens × source tokens, end symbols included

#: How links are read off weights; a decoder may look at a word's source one step late (`shifted`).
READINGS: dict[str, tuple[Callable[..., Any], bool]] = {
    "argmax": (argmax_links, False),
    "argmax, shifted": (argmax_links, True),
    "two-way": (two_way_links, False),
    "two-way, shifted": (two_way_links, True),
}


@torch.inference_mode()
def forced(model: Seq2Seq, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Weights]:
    """The decoder's attention over the source, for each pair; empty for a model that does not attend."""
    device = next(model.parameters()).device
    training = model.training
    model.eval()

    def look(numbers: list[int]) -> list[Weights]:
        source = to_tensor([sources[number] for number in numbers], device)
        target = to_tensor([targets[number] for number in numbers], device)
        with Trace(model) as seen:
            model.features(model.encode(source), target)
        weights = {name: seen[name].float().cpu().numpy() for name in over_the_source(seen)}
        return [
            {name: w[row, :, : len(targets[n]) + 1, : len(sources[n]) + 1] for name, w in weights.items()}
            for row, n in enumerate(numbers)
        ]

    lengths = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    found = dict(in_groups(range(len(sources)), lengths, GROUP, look))
    model.train(training)
    return [found[number] for number in range(len(sources))]


def over_the_source(seen: Trace) -> list[str]:
    """A Transformer block calls its attention over the memory `cross`; a recurrent decoder has one attention only."""
    try:
        return [name for name in seen.names if name.endswith(".cross") or name == "decoder.attention"]
    except RuntimeError:  # nothing attends in this model
        return []


def labeled(weights: Weights, source: Tokenizer, target: Tokenizer, text: str, tokens: Ids) -> Alignment | None:
    """The weights with the tokens that they stand between; None for a model that does not attend."""
    if not weights:
        return None
    rows, columns = target.labels([*tokens, 3]), source.labels([*source.encode(text), 3])
    return Alignment(rows, columns, weights)


def replacements(alignment: Alignment, source: Tokenizer, text: str, tokens: Ids) -> list[str]:
    """For each unknown token of the output, the source word most attended to (PosUnk: arXiv:1410.8206)."""
    spans = source.spans(text)
    words = _words(spans)
    whole = [text[spans[words[span.word][0]].start : spans[words[span.word][1] - 1].end] for span in spans]
    marked = [SPECIAL_TOKENS[UNK] if token == UNK else "" for token in tokens]
    found = replace_unknown(marked, torch.from_numpy(alignment.mean), whole)
    return [word for word, token in zip(found, tokens, strict=True) if token == UNK]


# ---------------------------------------------------------------------------------------------------- against gold
def has_gold(data: PairDataSettings) -> bool:
    """Are there gold word alignments of the test pairs?"""
    return data.alignments is not None or (data.test or data.train) == f"{PREFIX}pocket"


def gold_of_valid(data: PairDataSettings, source: str) -> Gold | None:
    """Of a validation pair, by its source, if the corpus knows."""
    if (data.valid or data.train) != f"{PREFIX}pocket":
        return None
    found = (Gold(frozenset(p.alignment), frozenset(p.possible)) for p in load("pocket", "valid") if p.source == source)
    return next(found, None)


def gold(data: PairDataSettings, pairs: int) -> list[Gold]:
    """The gold alignments of the test pairs, from data.alignments or from the corpus itself."""
    if data.alignments is None:
        if not has_gold(data):
            raise CallError("there are no gold alignments of the test pairs: give data.alignments=FILE")
        return [Gold(frozenset(p.alignment), frozenset(p.possible)) for p in load("pocket", "test")]
    file = Path(data.alignments)
    if not file.is_file():
        raise CallError(f"data.alignments={file}: there is no such file")
    found = read_naacl(file, pairs) if _is_naacl(file) else read_pharaoh(file)
    if len(found) != pairs:
        raise CallError(f"data.alignments={file} has {len(found)} sentences, but there are {pairs} test pairs")
    return found


def _is_naacl(file: Path) -> bool:
    """NAACL lines begin with three numbers apart; Pharaoh lines have their numbers joined in pairs."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        first = next((line.split() for line in lines if line.strip()), [])
    return len(first) >= 3 and all(word.isdigit() for word in first[:3])


def report(
    model: Seq2Seq, source: Tokenizer, target: Tokenizer, pairs: Sequence[Pair], gold: Sequence[Gold]
) -> list[dict[str, Any]]:
    """Alignment error of every layer and head, each by the reading that serves it best, and of the baselines.

    The *references* are forced through the model, since it is their words that gold links.
    """
    sides = [(source.encode(pair.source), target.encode(pair.target)) for pair in pairs]
    looked = forced(model, [one for one, _ in sides], [other for _, other in sides])
    if not looked or not looked[0]:
        return []
    spans = [(_words(source.spans(p.source)), _words(target.spans(p.target))) for p in pairs]
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for name, (links, shift) in READINGS.items():
        words = [
            {layer: merge_subwords(weights, *spans[n], shift=shift) for layer, weights in looked[n].items()}
            for n in range(len(pairs))
        ]
        for row in alignment_report(words, gold, links):
            found = {"layer": row.layer, "head": row.head, **asdict(row.score), "reading": name}
            key = (row.layer, row.head)
            if key not in best or found["aer"] < best[key]["aer"]:
                best[key] = found
    return list(best.values())


def best(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The least alignment error of any head or mean, and the baselines, as scores."""
    if not rows:
        return {}
    ours = [row["aer"] for row in rows if row["layer"] != "baseline"]
    baselines = {f"aer_{row['head']}": row["aer"] for row in rows if row["layer"] == "baseline"}
    return {"aer": min(ours), **baselines}


def _words(spans: Sequence[Span]) -> list[tuple[int, int]]:
    """The pieces (start, stop) of each word, in order."""
    count = max((span.word for span in spans), default=-1) + 1
    pieces: list[list[int]] = [[] for _ in range(count)]
    for place, span in enumerate(spans):
        pieces[span.word].append(place)
    return [(places[0], places[-1] + 1) for places in pieces if places]
