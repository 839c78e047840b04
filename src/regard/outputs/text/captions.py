"""What a caption has beside other texts: several references, and nouns whose boxes may be known."""

from collections.abc import Sequence
from typing import Any

from regard.data.examples import Example
from regard.metrics.captions import SIGNATURE, caption_bleu, cider, plain_words
from regard.metrics.pointing import pointed, pointing_scores
from regard.metrics.text import exact_match
from regard.models.seq2seq import Seq2Seq
from regard.outputs.result import Scores
from regard.outputs.text.output import TextOutput
from regard.outputs.text.picture_settings import CaptionRecipe


class Captions(TextOutput[CaptionRecipe, Any]):
    def quick_scores(self, said: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
        references = [example.texts for example in examples]
        return {"bleu4": caption_bleu(said, references)["bleu4"], "exact_match": _exact(said, references)}

    def scores(self, model: Seq2Seq, said: Sequence[str], examples: Sequence[Example], alignments: bool) -> Scores:
        """BLEU-1 to 4, CIDEr-D and exact match against all references; the pointing game, where boxes are known."""
        references = [example.texts for example in examples]
        values = {**caption_bleu(said, references), "cider": cider(said, references)}
        values |= {"exact_match": _exact(said, references), "pictures": float(len(examples))}
        percent = ("exact_match", "pointing", "pointing_uniform")
        return Scores(values | self._pointing_game(model, examples), {"words": SIGNATURE}, percent=percent)

    def _pointing_game(self, model: Seq2Seq, examples: Sequence[Example]) -> dict[str, float]:
        """How often the most attended region lies in the box of what the noun names, in percent.

        A reference caption is forced through the model; of each noun the middle of the region with the largest weight
        (the mean over heads and layers) has to lie in its box. `pointing_uniform` is the chance of a blind pick.
        """
        found = []
        for example, item, _, seen in self.forced(model, [example for example in examples if example.gold]):
            source, of_word = self.input.axis(item), [span.word for span in self.tokenizer.spans(example.texts[0])]
            for noun in example.gold[0] if seen.weights else ():
                last = max(place for place, word in enumerate(of_word) if word == noun.word)
                found.append(pointed(seen.mean[last], source.grid, source.image.shape[:2], [noun.box]))
        return pointing_scores(found)


def _exact(said: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """In percent; case and punctuation do not count, as for BLEU."""
    plain = [[" ".join(plain_words(text)) for text in given] for given in references]
    return exact_match([" ".join(plain_words(text)) for text in said], plain)
