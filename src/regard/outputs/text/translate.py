"""Text to text: translation, spelling, any file of pairs.

pairs → token ids → batches → encoder → Memory → decoder → loss        (training)
text  → token ids → encoder → Memory → search → token ids → text       (prediction)
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.check_report import CheckReport
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.decoding.protocol import Hypothesis
from regard.errors import CallError
from regard.inputs.text.pair_batches import TokenBatches
from regard.inputs.text.pair_check import check
from regard.inputs.text.pair_prepare import PreparedPairs, prepare
from regard.inputs.text.splits import pair_source
from regard.job import PLAIN, Output, Picture, Prediction, Scores, Wish
from regard.look import AttentionRecord, heat_map
from regard.metrics.text import bleu
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text import aligning, looking, scoring
from regard.outputs.text.build import build_seq2seq
from regard.outputs.text.search import log_probabilities, search
from regard.outputs.text.translate_settings import TranslateRecipe
from regard.settings.recipe import Recipe
from regard.special_tokens import UNK

PICTURES, WIDEST = 6, 40  # alignments in the report, and the most columns one may have
MEAN = "Attention of the decoder over the source, the mean of all its heads. Rows: written; columns: read."
QUICK = 200  # validation sentences that are translated, greedily, while training goes on


class Translate:
    """The job, under one recipe. `prepare` (training) or `restore` (prediction) brings the tokenizers."""

    takes_prefix = True  # see Looks

    def __init__(self, recipe: Recipe, tokenizers: tuple[Tokenizer, Tokenizer] | None = None) -> None:
        assert isinstance(recipe, TranslateRecipe)
        self.recipe = recipe
        self._tokenizers = tokenizers
        self._prepared: PreparedPairs | None = None

    def under(self, recipe: Recipe) -> "Translate":
        """The same tokenizers under another recipe: other test data, another way of decoding."""
        return Translate(recipe, self._tokenizers)

    # ------------------------------------------------------------------------------------------------------ training
    def prepare(self, cache: Path) -> None:
        self._prepared = prepare(self.recipe.data, cache, tokenizers=self._tokenizers)
        self._tokenizers = (self._prepared.source, self._prepared.target)

    def check(self, cache: Path) -> CheckReport:
        """What is wrong with the data, and what the model will cost on it."""
        prepared = prepare(self.recipe.data, cache, tokenizers=self._tokenizers, strict=False)
        report = check(self.recipe.data, prepared)
        return replace(report, estimates=scoring.estimates(self.recipe, prepared))

    def build(self) -> Seq2Seq:
        torch.manual_seed(self.recipe.training.seed)
        return build_seq2seq(self.recipe.model, self.source.size, self.target.size)

    def batches(self) -> TokenBatches:
        training = self.recipe.training
        return TokenBatches(self.data.train, training.max_tokens, seed=training.seed)

    def fingerprint(self) -> str:
        return self.data.train.digest()

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Loss and accuracy a token of all validation pairs; BLEU, greedily, of the first few."""
        assert isinstance(model, Seq2Seq)
        scores = scoring.loss(model, self.data.valid, self.recipe.training.max_tokens)
        pairs = scoring.texts(self.data.splits["valid"], most=QUICK)
        found = self._search(model, [pair.source for pair in pairs], beam=1)
        said = [self.target.decode(hypotheses[0].tokens) for hypotheses in found]
        return {**scores, "bleu": bleu(said, [pair.target for pair in pairs]).score}

    def sample(self, model: nn.Module) -> str:
        """A validation sentence of middling length, and what the model makes of it now."""
        pairs = sorted(scoring.texts(self.data.splits["valid"], most=QUICK), key=lambda pair: len(pair.source))
        pair = pairs[len(pairs) // 2]
        said = self.target.decode(self._search(model, [pair.source], beam=1)[0][0].tokens)
        return f"{pair.source}\n→ {said}\n= {pair.target}"

    def watch(self, model: nn.Module, most: int) -> list[AttentionRecord]:
        """Validation pairs of middling length; of a model that does not attend, nothing."""
        assert isinstance(model, Seq2Seq)
        pairs = sorted(scoring.texts(self.data.splits["valid"], most=QUICK), key=lambda pair: len(pair.source))
        start = max(0, (len(pairs) - most) // 2)
        records = []
        for pair in pairs[start : start + most]:
            gold = aligning.gold_of_valid(self.recipe.data, pair.source)
            with suppress(CallError):
                record = looking.look(model, self.source, self.target, pair.source, self.target.encode(pair.target))
                records.append(replace(record, gold=gold))
        return records

    def pictures(self, model: nn.Module) -> list[Picture]:
        """Alignments of a few validation sentences, short to long."""
        pairs = sorted(scoring.texts(self.data.splits["valid"], most=QUICK), key=lambda pair: len(pair.source))
        some = pairs[:: max(1, len(pairs) // PICTURES)][:PICTURES]
        pictures = []
        for found in self.predict(model, [pair.source for pair in some], attention=True):
            if found.alignment is not None and len(found.alignment.columns) <= WIDEST:
                svg = heat_map(found.alignment.mean, found.alignment.rows, found.alignment.columns, found.text)
                pictures.append(Picture(f"{found.input} → {found.text}", svg, MEAN))
        return pictures

    # ---------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        if self.source is self.target:
            return self.source.save(folder / TOKENIZER)
        self.source.save(folder / "tokenizer.source.json")
        self.target.save(folder / "tokenizer.target.json")

    def restore(self, folder: Path) -> None:
        """One file for both sides; or two, which may share a vocabulary and yet cut text in their own ways."""
        one = (folder / TOKENIZER).is_file()
        names = [TOKENIZER] if one else ["tokenizer.source.json", "tokenizer.target.json"]
        found = [Tokenizer.of_run(folder, name) for name in names]
        self._tokenizers = (found[0], found[-1])

    # ---------------------------------------------------------------------------------------------------- prediction
    def inputs(self, words: Sequence[str]) -> list[str]:
        return list(words)

    def predict(
        self, model: nn.Module, inputs: Sequence[str], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        assert isinstance(model, Seq2Seq)
        found = self._search(model, inputs, prefix=prefix)
        best = [hypotheses[0].tokens for hypotheses in found]
        replaces = self.recipe.decoding.replace_unknown and any(UNK in tokens for tokens in best)
        looked = None
        if (attention or replaces) and inputs:
            looked = aligning.forced(model, [self.source.encode(text) for text in inputs], best)
        predictions = []
        for number, (text, hypotheses) in enumerate(zip(inputs, found, strict=True)):
            outputs = [Output(self.target.decode(h.tokens), h.score, h.log_probability) for h in hypotheses]
            alignment = None
            if looked is not None:
                alignment = aligning.labeled(looked[number], self.source, self.target, text, best[number])
                if replaces and alignment is not None:
                    words = aligning.replacements(alignment, self.source, text, best[number])
                    outputs[0] = replace(outputs[0], text=self.target.decode(best[number], words))
            predictions.append(Prediction(text, outputs, alignment if attention else None))
        return predictions

    def look(self, model: nn.Module, text: str, wish: Wish = PLAIN) -> AttentionRecord:
        """Where the model looks when it writes its own output, or the given one; n-best alternatives with it."""
        assert isinstance(model, Seq2Seq)
        look = partial(looking.look, model, self.source, self.target, text, method=wish.method, name=wish.name)
        if wish.output is not None:
            tokens, score, others = self.target.encode(wish.output), None, []
        else:
            with looking.evaluating(model):
                best, *others = self._search(model, [text], prefix=wish.prefix)[0]
            tokens, score = best.tokens, best.score
        record = replace(look(tokens), score=score, gold=wish.gold)
        record = looking.evidence(model, self.source, tokens, record, wish.layer, wish.head)
        return replace(record, beams=tuple(replace(look(other.tokens), score=other.score) for other in others))

    def _search(
        self, model: nn.Module, texts: Sequence[str], *, prefix: str = "", **how: Any
    ) -> list[list[Hypothesis]]:
        assert isinstance(model, Seq2Seq)
        decoding = self.recipe.decoding.model_copy(update=how)
        sources = [self.source.encode(text) for text in texts]
        return search(model, sources, decoding, self.target.encode(prefix))

    def score(self, model: nn.Module, inputs: Sequence[str], outputs: Sequence[str]) -> list[Prediction]:
        """log p(output | input), the end symbol included: what decoding calls the log-probability of a hypothesis."""
        assert isinstance(model, Seq2Seq)
        sources, targets = map(self.source.encode, inputs), map(self.target.encode, outputs)
        totals = log_probabilities(model, list(sources), list(targets))
        return [
            Prediction(text, [Output(said, total, total)])
            for text, said, total in zip(inputs, outputs, totals, strict=True)
        ]

    # ---------------------------------------------------------------------------------------------------- evaluation
    def evaluate(self, model: nn.Module, *, alignments: bool = False) -> Scores:
        """BLEU, chrF, TER, exact match and BLEU by length on the test data (spelling: error rates)."""
        assert isinstance(model, Seq2Seq)
        test = pair_source(self.recipe.data, "test")
        if test is None:
            raise CallError("the recipe has no test data: give data.test=FILE")
        pairs, bad = scoring.read_all(test)
        said = [found[0].text for found in (p.n_best for p in self.predict(model, [pair.source for pair in pairs]))]
        scores = scoring.text_scores([pair.source for pair in pairs], said, [pair.target for pair in pairs])
        if bad:
            scores.notes["skipped"] = f"{bad} lines of {test.where} that are no pairs"
        if alignments or aligning.has_gold(self.recipe.data):
            rows = aligning.report(model, self.source, self.target, pairs, aligning.gold(self.recipe.data, len(pairs)))
            scores.values.update(aligning.best(rows))
            if alignments:
                scores.details["alignment error by layer and head"] = rows
        return scores

    @property
    def source(self) -> Tokenizer:
        return self._both()[0]

    @property
    def target(self) -> Tokenizer:
        return self._both()[1]

    @property
    def data(self) -> PreparedPairs:
        assert self._prepared is not None, "prepare comes first"
        return self._prepared

    def _both(self) -> tuple[Tokenizer, Tokenizer]:
        assert self._tokenizers is not None, "prepare or restore comes first"
        return self._tokenizers
