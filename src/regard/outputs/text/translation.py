"""Translation: BLEU by length, gold alignments, unknown words replaced from the source."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch

from regard.corpora.pair import Pair
from regard.data.check import are_labels
from regard.data.examples import Example, Examples
from regard.decoding.protocol import Hypothesis
from regard.errors import CallError
from regard.inputs.text.input import TextInput, TextItem
from regard.metrics.alignment import Gold
from regard.metrics.text import bleu, bleu_counts, bleu_of
from regard.metrics.text_scores import text_scores
from regard.models.seq2seq import Seq2Seq
from regard.outputs.base import TYPICAL, Planned
from regard.outputs.baselines import NEAREST, ROWS, has_tfidf, nearest_inputs
from regard.outputs.result import Measure, Prediction, Scores, Tally
from regard.outputs.text.gold_links import add_alignment_error, alignment_errors, gold_of_test, gold_pairs
from regard.outputs.text.output import TextOutput
from regard.outputs.text.seen import CrossAttention
from regard.outputs.text.settings import TranslateRecipe
from regard.outputs.text.unknown_words import with_source_words
from regard.parts import build_seq2seq
from regard.special_tokens import UNK


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

    def pieces(self, one: Any) -> list[tuple[Any, Any]]:
        return [(item.text, item) for item in self.input.windows(one)]

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
        whole = with_source_words(self.tokenizer, tokens, seen, self.input.tokenizer, item.text)
        return replace(found, n_best=[replace(found.n_best[0], text=whole), *found.n_best[1:]])

    # ----------------------------------------------------------------------------------------------------- evaluation
    def scores(self, model: Seq2Seq, said: Sequence[str], examples: Sequence[Example], alignments: bool) -> Scores:
        """Return BLEU, chrF, TER, exact match, BLEU by length (spelling: error rates); alignment error, if gold is
        known.
        """
        found = text_scores([one.input for one in examples], said, [one.texts[0] for one in examples])
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

    def _valid_gold(self) -> list[tuple[Pair, Gold]]:
        return gold_pairs(self.recipe.data.valid or self.recipe.data.train, "valid")
