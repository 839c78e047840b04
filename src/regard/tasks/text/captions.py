"""Scores of captions: several references, and the pointing game for nouns with known boxes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from regard.data.examples import Example, Examples
from regard.errors import CallError
from regard.inputs.joint import JointInput
from regard.metrics.captions import SIGNATURE, caption_bleu, cider, plain_words, pointing_scores, points_at_box
from regard.metrics.classes import AnswerScore, answer_score, mean_score
from regard.metrics.text import bleu_counts, bleu_of, exact_match
from regard.models.seq2seq import Seq2Seq
from regard.tasks.final_score import ROWS
from regard.tasks.result import Measure, Scores, Tally
from regard.tasks.text.output import TextOutput
from regard.tasks.text.picture_settings import AskRecipe, CaptionRecipe


class Captions(TextOutput[CaptionRecipe, Any]):
    def quick_scores(self, hypotheses: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
        references = [example.texts for example in examples]
        return {"bleu4": caption_bleu(hypotheses, references)["bleu4"], "exact_match": _exact(hypotheses, references)}

    def scores(
        self, model: Seq2Seq, hypotheses: Sequence[str], examples: Sequence[Example], alignments: bool
    ) -> Scores:
        """Return BLEU-1 to 4, CIDEr-D and exact match against all references; the pointing game, if boxes are known."""
        references = [example.texts for example in examples]
        values = {**caption_bleu(hypotheses, references), "cider": cider(hypotheses, references)}
        values |= {"exact_match": _exact(hypotheses, references), "pictures": float(len(examples))}
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
                found.append(points_at_box(seen.mean[last], source.grid, source.image.shape[:2], [noun.box]))
        return pointing_scores(found)


def _exact(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return exact match in percent, without case and punctuation, as for BLEU."""
    plain = [[" ".join(plain_words(text)) for text in given] for given in references]
    return exact_match([" ".join(plain_words(text)) for text in hypotheses], plain)


# Scores of answers to questions about a picture: correct or wrong, and correct without the picture.
#
#     blind    the most frequent answer to the same question in the training data (to any, for a new question)
#
# Only a score above that shows use of the picture: Goyal et al. 2017 (arXiv:1612.00837) found that questions alone
# determine a good part of the answers.

BEGIN = 2  # first words that define the kind of a question


class VisualQuestionAnswering(TextOutput[AskRecipe, JointInput]):
    def quick_scores(self, hypotheses: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
        return {"exact_match": mean_score(_scores(hypotheses, examples)).exact}

    def scores(
        self, model: Seq2Seq, hypotheses: Sequence[str], examples: Sequence[Example], alignments: bool
    ) -> Scores:
        """Return exact match and F1, also by the questions alone; the pointing game, if boxes are known."""
        found = _scores(hypotheses, examples)
        blind: list[AnswerScore] = []
        with suppress(CallError):  # the training data may be missing
            guess = _most_frequent(self.input.training_pairs())
            blind = _scores([guess(example.input[1]) for example in examples], examples)
        mean = mean_score(found)
        values = {"exact_match": mean.exact, "f1": mean.f1, "questions": float(len(examples))}
        values |= {"blind": mean_score(blind).exact} if blind else {}
        details = {"exact match by how the question begins": _by_kind(examples, found, blind)}
        percent = ("exact_match", "f1", "blind", "pointing", "pointing_uniform")
        return Scores(values | self._pointing_game(model, examples), details=details, percent=percent)

    def measure(self) -> Measure:
        return Measure("exact_match", of_hits=True)

    def baselines(self, train: Examples, examples: Sequence[Example]) -> dict[str, list[str]]:
        guess = _most_frequent(islice(self.input.training_pairs(), ROWS))
        return {"most frequent answer to the question": [guess(example.input[1]) for example in examples]}

    def tally(self, answers: Sequence[str], examples: Sequence[Example]) -> Tally:
        return Tally.of_hits([one.exact for one in _scores(answers, examples)])

    def _pointing_game(self, model: Seq2Seq, examples: Sequence[Example]) -> dict[str, float]:
        """Return how often the most attended region is in the box of an object of the question.

        The correct answer is forced through the model; weights are the mean over heads, layers and tokens.
        """
        found = []
        for example, item, _, seen in self.forced(model, [example for example in examples if example.gold]):
            axis = self.input.axis(item)
            if seen.weights and axis.grid is not None:
                found.append(points_at_box(seen.mean.mean(0)[axis.upon()], axis.grid, (1, 1), example.gold))
        return pointing_scores(found)


def _scores(hypotheses: Sequence[str], examples: Sequence[Example]) -> list[AnswerScore]:
    return [answer_score(text, example.texts) for text, example in zip(hypotheses, examples, strict=True)]


def _most_frequent(pairs: Iterable[tuple[str, str]]) -> Any:
    """Return a function from a question's text to its most frequent training answer."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for question, answer in pairs:
        answers[question][answer] += 1
    of_all = sum(answers.values(), Counter[str]())

    def guess(question: str) -> str:
        return answers.get(question, of_all).most_common(1)[0][0]

    return guess


def _by_kind(
    examples: Sequence[Example], found: Sequence[AnswerScore], blind: Sequence[AnswerScore]
) -> list[dict[str, Any]]:
    """Return scores by the most frequent first words of questions."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for number, example in enumerate(examples):
        kinds[" ".join(str(example.input[1]).lower().split()[:BEGIN])].append(number)
    most = sorted(kinds.items(), key=lambda item: -len(item[1]))[:20]
    return [
        {"begins": begin, "questions": len(rows), "exact match": mean_score([found[row] for row in rows]).exact}
        | ({"blind": mean_score([blind[row] for row in rows]).exact} if blind else {})
        for begin, rows in most
    ]
