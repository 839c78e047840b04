"""Translation: BLEU by length, gold alignments, unknown words replaced from the source."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from regard.corpora import PREFIX, load
from regard.corpora.loading import WORD, SentencePair
from regard.data.check import are_labels
from regard.data.examples import Example, Examples
from regard.data.tables import Role
from regard.data.tokenizer import TextSpan, Tokenizer
from regard.errors import CallError
from regard.generation.engine import Hypothesis
from regard.inputs.text.input import TextInput, TextItem
from regard.inputs.text.settings import PairDataSettings
from regard.metrics.alignment import (
    Gold,
    alignment_report,
    argmax_links,
    merge_subwords,
    read_naacl,
    read_pharaoh,
    two_way_links,
)
from regard.metrics.text import bleu, bleu_counts, bleu_of, text_scores
from regard.models.build import build_seq2seq
from regard.models.seq2seq import Seq2Seq
from regard.special_tokens import UNK
from regard.tasks.base import TYPICAL, ModelPlan
from regard.tasks.final_score import NEAREST, ROWS, has_tfidf, nearest_inputs
from regard.tasks.result import Measure, Prediction, Scores, Tally
from regard.tasks.text.output import ForcedOutputs, TextOutput
from regard.tasks.text.settings import TranslateRecipe
from regard.tasks.text.writing import CrossAttentionArrays, with_source_words

# Comparison of a translator's attention with gold alignments of source words and target words.
#
# The *references* are forced through the model, because gold links join their words. Weights between pieces become
# weights between words, from which links are derived in one of several ways (`READINGS`).

#: How links are derived from weights; a decoder may attend to a word's source one step late (`shifted`).
READINGS: dict[str, tuple[Any, bool]] = {
    "argmax": (argmax_links, False),
    "argmax, shifted": (argmax_links, True),
    "two-way": (two_way_links, False),
    "two-way, shifted": (two_way_links, True),
}
BASELINE = "baseline"  # layer name of baselines in `alignment_report`
FIXED = {"layer": "all", "head": "mean", "reading": "argmax"}

Rows = list[dict[str, Any]]  # one row for each layer, head and reading


def alignment_errors(
    forced: Sequence[ForcedOutputs], gold: Sequence[Gold], source: Tokenizer, target: Tokenizer
) -> Rows:
    """Return the errors of every layer, head and baseline, by every reading; empty if the model has no attention."""
    if not forced or not forced[0].seen.weights:
        return []
    texts = [one.example for one in forced]
    spans = [(word_pieces(source.spans(one.input)), word_pieces(target.spans(one.texts[0]))) for one in texts]
    found: Rows = []
    for name, (links, shift) in READINGS.items():
        words = [
            {layer: merge_subwords(weights, *own, shift=shift) for layer, weights in one.seen.weights.items()}
            for one, own in zip(forced, spans, strict=True)
        ]
        rows = alignment_report(words, gold, links)
        found += [{"layer": row.layer, "head": row.head, **asdict(row.score), "reading": name} for row in rows]
    return found


def add_alignment_error(scores: Scores, rows: Rows, valid: Rows, *, details: bool) -> None:
    """Add the error of the layer, head and reading that are best on validation pairs, so that test gold does not
    decide.
    """
    of_model = [row for row in rows if row["layer"] != BASELINE]
    chosen, why = FIXED, "fixed, as validation pairs have no gold links"
    if valid:
        chosen = min((row for row in valid if row["layer"] != BASELINE), key=lambda row: row["aer"])
        why = "the best on validation pairs"
    shown = [row for row in rows if row["reading"] == chosen["reading"]]
    (headline,) = (row for row in shown if (row["layer"], row["head"]) == (chosen["layer"], chosen["head"]))
    scores.values["aer"] = headline["aer"]
    scores.values.update({f"aer_{row['head']}": row["aer"] for row in shown if row["layer"] == BASELINE})
    scores.values["aer_best_on_test"] = min(row["aer"] for row in of_model)
    scores.notes["reading"] = f"aer: {chosen['reading']}, {chosen['layer']}, {chosen['head']}; {why}"
    scores.notes["optimistic"] = f"aer_best_on_test: the best of {len(of_model)} readings, chosen on the test gold"
    if details:
        scores.details["alignment error by layer and head"] = shown


def gold_pairs(where: str, role: Role) -> list[tuple[SentencePair, Gold]]:
    """Return the pairs of an embedded corpus with gold links; empty for other data."""
    pairs = load("pocket", role) if where == f"{PREFIX}pocket" else ()
    return [(pair, Gold(frozenset(pair.alignment), frozenset(pair.possible))) for pair in pairs]


def gold_of_test(data: PairDataSettings, examples: Sequence[Example]) -> list[Gold]:
    """Return the gold alignments of these test pairs, from data.alignments or the corpus; empty if there are none."""
    if data.alignments is None:
        known = {(pair.source, pair.target): gold for pair, gold in gold_pairs(data.test or data.train, "test")}
        return [known[one.input, one.texts[0]] for one in examples] if known else []
    file = Path(data.alignments)
    if not file.is_file():
        raise CallError(f"data.alignments={file}: there is no such file")
    lengths = [(len(WORD.findall(one.input)), len(WORD.findall(one.texts[0]))) for one in examples]
    if data.alignment_format == "naacl" or (data.alignment_format == "auto" and _is_naacl(file)):
        return read_naacl(file, len(examples), lengths)
    return read_pharaoh(file, lengths, first=1 if data.alignment_format == "talp" else 0)


def _is_naacl(file: Path) -> bool:
    """Whether a file has NAACL format (lines begin with three separate numbers), not Pharaoh (numbers joined in
    pairs).
    """
    with file.open(encoding="utf-8", errors="replace") as lines:
        first = next((line.split() for line in lines if line.strip()), [])
    return len(first) >= 3 and all(word.isdigit() for word in first[:3])


def word_pieces(spans: Sequence[TextSpan]) -> list[tuple[int, int]]:
    """Return the pieces (start, stop) of each word, in order."""
    places: dict[int, list[int]] = {}
    for place, span in enumerate(spans):
        places.setdefault(span.word, []).append(place)
    return [(own[0], own[-1] + 1) for _, own in sorted(places.items())]


class Translation(TextOutput[TranslateRecipe, TextInput]):
    takes_gold: ClassVar[bool] = True
    takes_alignments: ClassVar[bool] = True

    def quick_scores(self, hypotheses: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
        return {"bleu": bleu(hypotheses, [example.texts[0] for example in examples]).score}

    def planned(self) -> ModelPlan:
        tokens, data = self.recipe.data.tokenizer, self.recipe.data
        with torch.device("meta"):
            target = tokens.size if tokens.joint else tokens.target_size or tokens.size
            model = build_seq2seq(self.recipe.model, tokens.size, target)
        note = "vocabularies are taken as full (data.tokenizer.size); small data fills less"
        return ModelPlan(model, min(TYPICAL, data.max_length), 2, note)

    def pieces(self, one: Any) -> list[tuple[Any, Any]]:
        return [(item.text, item) for item in self.input.windows(one)]

    # ------------------------------------------------------------------------------------------------- unknown words
    def needs_attention(self, found: Sequence[Sequence[Hypothesis]]) -> bool:
        return self.recipe.decoding.replace_unknown and any(UNK in hypotheses[0].tokens for hypotheses in found)

    def prediction(
        self,
        one: Any,
        item: TextItem,
        hypotheses: list[Hypothesis],
        weights: CrossAttentionArrays | None,
        attention: bool,
    ) -> Prediction:
        found = super().prediction(one, item, hypotheses, weights, attention)
        tokens = hypotheses[0].tokens
        if weights is None or not weights.weights or UNK not in tokens or not self.recipe.decoding.replace_unknown:
            return found
        whole = with_source_words(self.tokenizer, tokens, weights, self.input.tokenizer, item.text)
        return replace(found, n_best=[replace(found.n_best[0], text=whole), *found.n_best[1:]])

    # ----------------------------------------------------------------------------------------------------- evaluation
    def scores(
        self, model: Seq2Seq, hypotheses: Sequence[str], examples: Sequence[Example], alignments: bool
    ) -> Scores:
        """Return BLEU, chrF, TER, exact match, BLEU by length (spelling: error rates); alignment error, if gold is
        known.
        """
        found = text_scores([one.input for one in examples], hypotheses, [one.texts[0] for one in examples])
        details = {"bleu by source length": found.by_length}
        scores = Scores(found.values, {"signature": found.signature}, details, percent=found.percent)
        different = len({one.texts[0] for one in examples})
        if are_labels(len(examples), different):
            labels = f"{different} different targets in {len(examples):,} test pairs: these look like labels"
            scores.notes["targets"] = f"{labels}, not translations; check data.source, data.target"
        gold = gold_of_test(self.recipe.data, examples)
        if alignments and not gold:
            raise CallError("the test pairs have no gold alignments: give data.alignments=FILE")
        rows = self._errors(model, examples, gold) if gold else []
        if rows:
            valid = [(Example(pair.source, (pair.target,)), links) for pair, links in self._valid_gold()]
            ours = self._errors(model, *map(list, zip(*valid, strict=True))) if valid else []
            add_alignment_error(scores, rows, ours, details=alignments)
        return scores

    def measure(self) -> Measure:
        return Measure("bleu", percent=False)

    def baselines(self, train: Examples, examples: Sequence[Example]) -> dict[str, list[str]]:
        """Return the baselines: the source unchanged; the target of the most similar training source."""
        sources = [example.input for example in examples]
        found = {"copy of the source": sources}
        learned = train.sample(ROWS)
        nearest = nearest_inputs([one.input for one in learned], sources) if has_tfidf() else None
        return found | ({} if nearest is None else {NEAREST: [learned[row].texts[0] for row in nearest]})

    def tally(self, answers: Sequence[str], examples: Sequence[Example]) -> Tally:
        counts = bleu_counts(answers, [example.texts[0] for example in examples])
        return Tally(counts, lambda table: bleu_of(table.sum(0)))

    def _errors(self, model: Seq2Seq, examples: Sequence[Example], gold: Sequence[Gold]) -> list[dict[str, Any]]:
        return alignment_errors(self.forced(model, examples), gold, self.input.tokenizer, self.tokenizer)

    def gold(self, example: Example) -> Gold | None:
        return next((gold for pair, gold in self._valid_gold() if pair.source == example.input), None)

    def _valid_gold(self) -> list[tuple[SentencePair, Gold]]:
        return gold_pairs(self.recipe.data.valid or self.recipe.data.train, "valid")
