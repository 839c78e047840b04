"""What a translation has beside other texts: BLEU by length, gold alignments, unknown words put in from the source."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from regard.corpora import PREFIX, load
from regard.corpora.pair import WORD, Pair
from regard.data.examples import Example
from regard.data.tables import Role
from regard.data.tokenizer import Span
from regard.decoding.protocol import Hypothesis
from regard.decoding.unknown import replace_unknown
from regard.errors import CallError
from regard.inputs.text.input import TextInput, TextItem
from regard.metrics.alignment import Gold, read_naacl, read_pharaoh
from regard.metrics.alignment_links import alignment_report, argmax_links, merge_subwords, two_way_links
from regard.metrics.text import bleu
from regard.metrics.text_scores import text_scores
from regard.models.seq2seq import Seq2Seq
from regard.outputs.base import TYPICAL, Planned
from regard.outputs.result import Prediction, Scores
from regard.outputs.text.cross_attention import CrossAttention, cross_attention
from regard.outputs.text.output import TextOutput
from regard.outputs.text.settings import TranslateRecipe
from regard.parts import build_seq2seq
from regard.special_tokens import SPECIAL_TOKENS, UNK

#: How links are read off weights; a decoder may look at a word's source one step late (`shifted`).
READINGS: dict[str, tuple[Any, bool]] = {
    "argmax": (argmax_links, False),
    "argmax, shifted": (argmax_links, True),
    "two-way": (two_way_links, False),
    "two-way, shifted": (two_way_links, True),
}
BASELINE = "baseline"  # what `alignment_report` calls the layer of what did not look
FIXED = {"layer": "all", "head": "mean", "reading": "argmax"}


class Translation(TextOutput[TranslateRecipe, TextInput]):
    takes_gold: ClassVar[bool] = True
    takes_alignments: ClassVar[bool] = True

    def quick_scores(self, said: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
        return {"bleu": bleu(said, [example.texts[0] for example in examples]).score}

    def planned(self) -> Planned:
        tokens, data = self.recipe.data.tokenizer, self.recipe.data
        with torch.device("meta"):
            target = tokens.size if tokens.joint else tokens.target_size or tokens.size
            model = build_seq2seq(self.recipe.model, tokens.size, target)
        note = "vocabularies are taken as full (data.tokenizer.size); small data fills less"
        return Planned(model, min(TYPICAL, data.max_length), 2, note)

    # ------------------------------------------------------------------------------------------------- unknown words
    def needs_attention(self, found: Sequence[Sequence[Hypothesis]]) -> bool:
        return self.recipe.decoding.replace_unknown and any(UNK in hypotheses[0].tokens for hypotheses in found)

    def prediction(
        self, one: Any, item: TextItem, hypotheses: list[Hypothesis], seen: CrossAttention | None, attention: bool
    ) -> Prediction:
        found = super().prediction(one, item, hypotheses, seen, attention)
        tokens = hypotheses[0].tokens
        if seen is None or not seen.weights or UNK not in tokens or not self.recipe.decoding.replace_unknown:
            return found
        whole = self.tokenizer.decode(tokens, self._replacements(item, tokens, seen))
        return replace(found, n_best=[replace(found.n_best[0], text=whole), *found.n_best[1:]])

    def _replacements(self, item: TextItem, tokens: Sequence[int], seen: CrossAttention) -> list[str]:
        """For each unknown token of the output, the source word most attended to (PosUnk: arXiv:1410.8206)."""
        spans = self.input.tokenizer.spans(item.text)
        words = _words(spans)
        whole = [item.text[spans[words[span.word][0]].start : spans[words[span.word][1] - 1].end] for span in spans]
        marked = [SPECIAL_TOKENS[UNK] if token == UNK else "" for token in tokens]
        found = replace_unknown(marked, torch.from_numpy(seen.mean), whole)
        return [word for word, token in zip(found, tokens, strict=True) if token == UNK]

    # ----------------------------------------------------------------------------------------------------- evaluation
    def scores(self, model: Seq2Seq, said: Sequence[str], examples: Sequence[Example], alignments: bool) -> Scores:
        """BLEU, chrF, TER, exact match, BLEU by length (spelling: error rates); alignment error, if gold is known."""
        found = text_scores([one.input for one in examples], said, [one.texts[0] for one in examples])
        details = {"bleu by source length": found.by_length}
        scores = Scores(found.values, {"signature": found.signature}, details, percent=found.percent)
        gold = self._test_gold(examples)
        if gold is None and alignments:
            raise CallError("there are no gold alignments of the test pairs: give data.alignments=FILE")
        rows = [] if gold is None else self._alignment_errors(model, examples, gold)
        if rows:
            chosen, why = self._chosen(model)
            ours = [row for row in rows if row["layer"] != BASELINE]
            shown = [row for row in rows if row["reading"] == chosen["reading"]]
            (headline,) = (row for row in shown if (row["layer"], row["head"]) == (chosen["layer"], chosen["head"]))
            scores.values["aer"] = headline["aer"]
            scores.values.update({f"aer_{row['head']}": row["aer"] for row in shown if row["layer"] == BASELINE})
            scores.values["aer_best_on_test"] = min(row["aer"] for row in ours)
            scores.notes["reading"] = f"aer: {chosen['reading']}, {chosen['layer']}, {chosen['head']}; {why}"
            scores.notes["optimistic"] = f"aer_best_on_test: the best of {len(ours)} readings, chosen on the test gold"
            if alignments:
                scores.details["alignment error by layer and head"] = shown
        return scores

    def _chosen(self, model: Seq2Seq) -> tuple[dict[str, Any], str]:
        """The layer, head and reading that the headline is of, which the test gold must not decide; and why these."""
        pairs = _corpus(self.recipe.data.valid or self.recipe.data.train, "valid")
        if not pairs:
            return FIXED, "fixed, as no gold of validation pairs is known"
        examples = [Example(pair.source, (pair.target,)) for pair in pairs]
        rows = self._alignment_errors(model, examples, [_gold(pair) for pair in pairs])
        ours = [row for row in rows if row["layer"] != BASELINE]
        return min(ours, key=lambda row: row["aer"]), "the best on validation pairs"

    def _alignment_errors(
        self, model: Seq2Seq, examples: Sequence[Example], gold: Sequence[Gold]
    ) -> list[dict[str, Any]]:
        """Of every layer and head and of the baselines, by every reading; nothing, if the model does not attend.

        The *references* are forced through the model, since it is their words that gold links.
        """
        items = [self.input.read(example.input) for example in examples]
        targets = [self.tokenizer.encode(example.texts[0]) for example in examples]
        looked = cross_attention(model, self.input, items, targets)
        if not looked or not looked[0].weights:
            return []
        source, target = self.input.tokenizer, self.tokenizer
        spans = [(_words(source.spans(one.input)), _words(target.spans(one.texts[0]))) for one in examples]
        found: list[dict[str, Any]] = []
        for name, (links, shift) in READINGS.items():
            words = [
                {layer: merge_subwords(weights, *spans[n], shift=shift) for layer, weights in looked[n].weights.items()}
                for n in range(len(examples))
            ]
            rows = alignment_report(words, gold, links)
            found += [{"layer": row.layer, "head": row.head, **asdict(row.score), "reading": name} for row in rows]
        return found

    def gold(self, example: Example) -> Gold | None:
        pairs = _corpus(self.recipe.data.valid or self.recipe.data.train, "valid")
        return next((_gold(pair) for pair in pairs if pair.source == example.input), None)

    def _test_gold(self, examples: Sequence[Example]) -> list[Gold] | None:
        """The gold alignments of the test pairs, from data.alignments or from the corpus itself; None: nobody knows."""
        data = self.recipe.data
        if data.alignments is None:
            return [_gold(pair) for pair in _corpus(data.test or data.train, "test")] or None
        file = Path(data.alignments)
        if not file.is_file():
            raise CallError(f"data.alignments={file}: there is no such file")
        lengths = [(len(WORD.findall(one.input)), len(WORD.findall(one.texts[0]))) for one in examples]
        if data.alignment_format == "naacl" or (data.alignment_format == "auto" and _is_naacl(file)):
            return read_naacl(file, len(examples), lengths)
        return read_pharaoh(file, lengths, first=1 if data.alignment_format == "talp" else 0)


def _corpus(where: str, role: Role) -> list[Pair]:
    """The pairs of an embedded corpus that knows gold links; none of anything else."""
    return list(load("pocket", role)) if where == f"{PREFIX}pocket" else []


def _gold(pair: Pair) -> Gold:
    return Gold(frozenset(pair.alignment), frozenset(pair.possible))


def _is_naacl(file: Path) -> bool:
    """NAACL lines begin with three numbers apart; Pharaoh lines have their numbers joined in pairs."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        first = next((line.split() for line in lines if line.strip()), [])
    return len(first) >= 3 and all(word.isdigit() for word in first[:3])


def _words(spans: Sequence[Span]) -> list[tuple[int, int]]:
    """The pieces (start, stop) of each word, in order."""
    count = max((span.word for span in spans), default=-1) + 1
    pieces: list[list[int]] = [[] for _ in range(count)]
    for place, span in enumerate(spans):
        pieces[span.word].append(place)
    return [(places[0], places[-1] + 1) for places in pieces if places]
