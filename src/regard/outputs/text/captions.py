"""Scores of captions: several references, and the pointing game for nouns with known boxes."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

from regard.data.examples import Example, Examples
from regard.metrics.captions import SIGNATURE, caption_bleu, cider, plain_words
from regard.metrics.pointing import pointed, pointing_scores
from regard.metrics.text import bleu_counts, bleu_of, exact_match
from regard.models.seq2seq import Seq2Seq
from regard.outputs.baselines import ROWS
from regard.outputs.result import Measure, Scores, Tally
from regard.outputs.text.output import TextOutput
from regard.outputs.text.picture_settings import CaptionRecipe


class Captions(TextOutput[CaptionRecipe, Any]):
    def quick_scores(self, said: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
        references = [example.texts for example in examples]
        return {"bleu4": caption_bleu(said, references)["bleu4"], "exact_match": _exact(said, references)}

    def scores(self, model: Seq2Seq, said: Sequence[str], examples: Sequence[Example], alignments: bool) -> Scores:
        """Return BLEU-1 to 4, CIDEr-D and exact match against all references; the pointing game, if boxes are known."""
        references = [example.texts for example in examples]
        values = {**caption_bleu(said, references), "cider": cider(said, references)}
        values |= {"exact_match": _exact(said, references), "pictures": float(len(examples))}
        percent = ("exact_match", "pointing", "pointing_uniform")
        return Scores(values | self._pointing_game(model, examples), {"words": SIGNATURE}, percent=percent)

    def measure(self) -> Measure:
        return Measure("bleu4", percent=False)

    def baselines(self, train: Examples, examples: Sequence[Example]) -> dict[str, list[str]]:
        """Return one caption for every picture: the most frequent one; of equally frequent ones, the one with the
        most frequent words.
        """
        captions = [text for text, _ in islice(train.targets_read(), ROWS)]
        words = Counter(word for text in captions for word in plain_words(text))
        counts = Counter(captions)

        def usual(text: str) -> tuple[int, float]:
            own = plain_words(text)
            return counts[text], sum(words[word] for word in own) / max(1, len(own))

        return {"most frequent caption": [max(counts, key=usual)] * len(examples)}

    def tally(self, answers: Sequence[str], examples: Sequence[Example]) -> Tally:
        said = [" ".join(plain_words(text)) for text in answers]
        right = [[" ".join(plain_words(text)) for text in example.texts] for example in examples]
        counts = bleu_counts(said, right, tokenizer="none")
        return Tally(counts, lambda table: bleu_of(table.sum(0), smoothing="none"))

    def _pointing_game(self, model: Seq2Seq, examples: Sequence[Example]) -> dict[str, float]:
        """Return how often the most attended region is in the box of the named object, in percent.

        A reference caption is forced through the model. For each noun, the center of the region with the largest weight
        (the mean over heads and layers) must be in its box. `pointing_uniform` is the chance of a random pick.
        """
        found = []
        for example, item, _, seen in self.forced(model, [example for example in examples if example.gold]):
            source, of_word = self.input.axis(item), [span.word for span in self.tokenizer.spans(example.texts[0])]
            for noun in example.gold[0] if seen.weights else ():
                last = max(place for place, word in enumerate(of_word) if word == noun.word)
                found.append(pointed(seen.mean[last], source.grid, source.image.shape[:2], [noun.box]))
        return pointing_scores(found)


def _exact(said: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return exact match in percent, without case and punctuation, as for BLEU."""
    plain = [[" ".join(plain_words(text)) for text in given] for given in references]
    return exact_match([" ".join(plain_words(text)) for text in said], plain)
