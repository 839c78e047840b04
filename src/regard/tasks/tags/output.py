"""Tag output: a tag for each word, such as parts of speech or the first and other words of a name.

p(tags | x) = Π_t softmax(W h_t + b)        h_t: the vector of the first piece of word t
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import pad_rows
from regard.data.check_report import CheckReport, Finding
from regard.data.examples import Example, Examples
from regard.data.labels import UNKNOWN, LabelFormat
from regard.data.pairs import FIRST as SHOWN
from regard.data.tables import Role
from regard.inputs.text.word_pieces import WordsItem
from regard.inputs.text.words import WordsInput
from regard.look.case import ExplainTarget
from regard.look.placing import rows_at
from regard.metrics.classes import (
    class_scores,
    confusion,
    macro_f1,
    marks_spans,
    one_hot,
    span_scores,
    spans,
    violations,
)
from regard.models.build import build_attention
from regard.models.classifier import Tagger, WordBatch
from regard.tasks.base import QUICK, OutputRef
from regard.tasks.batched import device_of, rows_of
from regard.tasks.final_score import ROWS, most_frequent
from regard.tasks.labels.output import CONFUSION, confusion_picture, confusion_rows
from regard.tasks.labels.vocabulary import ClassOutput
from regard.tasks.result import Candidate, LookOptions, Measure, Prediction, Scores, Tally
from regard.tasks.tags.answers import chosen_tags, in_windows, mark_spans, predict_tags, tags_axis
from regard.tasks.tags.settings import RecurrentTaggerSettings, TagRecipe

PERCENT = ("accuracy", "precision", "recall", "f1", "macro_f1", "exact_match")


class TagsOutput(ClassOutput[TagRecipe, WordsInput, Tagger]):
    gives: ClassVar[str] = "tags"
    unit: ClassVar[str] = "words"

    @property
    def writing(self) -> LabelFormat:
        return LabelFormat(" ")

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        """Return a tag for each word; −1 where there is no word or an unknown tag."""
        if not targets:
            return torch.full((1, 1), UNKNOWN)
        return pad_rows([np.array(self.labels.decode(target), np.int64) for target in targets], pad=UNKNOWN)

    # ------------------------------------------------------------------------------------------------------- training
    def build(self) -> Tagger:
        s, encoder = self.recipe.model, self.input.encoder()
        width = int(encoder.memory_width)  # pyright: ignore[reportArgumentType]
        own = isinstance(s, RecurrentTaggerSettings) and s.self_attention
        return Tagger(
            encoder, width, len(self.labels), attention=build_attention(s.score, width) if own else None,  # pyright: ignore[reportAttributeAccessIssue]
            dropout=s.head_dropout, label_smoothing=s.label_smoothing, class_weights=self.class_weights(),
            noise=self.input.noise(), frozen=self.input.frozen,
        )  # fmt: skip

    def quick(self, model: Tagger, valid: Examples) -> dict[str, float]:
        examples = valid.examples(QUICK)
        said = self._tags(model, [example.input for example in examples])
        return self._values([one.texts[0].split() for one in examples], said)

    def check(self, splits: dict[Role, Any]) -> CheckReport:
        report = super().check(splits)
        if not self.marks_spans:
            return report
        found = [finding for role, one in splits.items() for finding in _wrong_beginnings(role, one)]
        return replace(report, findings=[*report.findings, *found])

    @property
    def counted(self) -> str:
        return "word"

    @property
    def several(self) -> bool:
        return False

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: Tagger, inputs: Sequence[Any]) -> list[Prediction]:
        items = [self.input.whole(one) for one in inputs]
        tables = self._log_probabilities(model, items)
        names = [self.input.name(one) for one in inputs]
        return [
            predict_tags(*one, self.labels.names) for one in zip(names, (i.words for i in items), tables, strict=True)
        ]

    def score_outputs(self, model: Tagger, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        """Return log p(tags | words) of given tags, separated by spaces."""
        items = [self.input.whole(one) for one in inputs]
        found = zip(items, self._log_probabilities(model, items), outputs, strict=True)
        return [Candidate(tags, chosen_tags(item.words, table, self.labels, tags).total) for item, table, tags in found]

    def _told(self, model: Tagger, one: Any, output: str | None) -> OutputRef:
        """Return the given tags, or the predicted ones, with their log-probability."""
        item = self.input.read(one)
        (table,) = self._log_probabilities(model, [item])
        chosen = chosen_tags(item.words, table, self.labels, output)
        tags = [self.labels.names[number] for number in chosen.classes]
        return OutputRef(chosen.classes, " ".join(tags), chosen.total, mark_spans(item.words, tags, self.labels.names))

    def _tags(self, model: Tagger, inputs: Sequence[Any]) -> list[list[str]]:
        tables = self._log_probabilities(model, [self.input.whole(one) for one in inputs])
        return [[self.labels.names[number] for number in table.argmax(1)] for table in tables]

    def _log_probabilities(self, model: Tagger, items: Sequence[WordsItem]) -> list[Float[np.ndarray, "W N"]]:
        """Return the log-probabilities of tags for each word; texts longer than the model's limit are read in
        windows.
        """

        def ask(windows: list[WordsItem]) -> list[Float[np.ndarray, "W N"]]:
            tables = rows_of(self.input, model, windows, model.logits, self.recipe.decoding.batch_tokens)
            pairs = zip(windows, tables, strict=True)
            return [table[: len(item.words)].log_softmax(-1).numpy() for item, table in pairs]

        return in_windows(self.input, items, ask)

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Tagger, one: Any, options: LookOptions) -> list[OutputRef]:
        return [self._told(model, one, options.output)]

    def case(self, model: Tagger, one: Any, ref: OutputRef) -> ExplainTarget:
        """Return the case: rows are tags, each with what the vector of its word attended to; columns are words or
        their pieces.
        """
        item = self.item_of(one)
        places, wanted = self.input.row_of_words(item), torch.tensor(ref.target, device=device_of(model))
        names = [self.labels.names[number] for number in ref.target]
        axes = {"target": tags_axis(names), "source": self.input.axis(item)}

        def steps(source: WordBatch) -> Tensor:
            chance = model.logits(source).float().log_softmax(-1)
            other = 0.0 if ref.instead is None else chance[:, :, ref.instead]
            return chance.gather(2, wanted.view(1, -1, 1).expand(len(chance), -1, 1)).squeeze(2) - other

        return self.asked(model, item, steps, axes, place=rows_at(places), places=places)

    # ------------------------------------------------------------------------------------------------------ evaluation
    def measure(self) -> Measure:
        """Return F1 of spans if tags mark them; else the accuracy of words."""
        return Measure("f1" if marks_spans(self.labels.names) else "accuracy")

    def answers(self, model: Tagger, examples: Sequence[Example]) -> list[list[str]]:
        return self._tags(model, [example.input for example in examples])

    def baselines(self, train: Examples, examples: Sequence[Example]) -> dict[str, list[list[str]]]:
        """Return the most frequent training tag of each word; for unknown words, the most frequent tag."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for one in train.sample(ROWS):
            for word, tag in zip(self.input.whole(one.input).words, one.texts[0].split(), strict=False):
                counts[word][tag] += 1
        best = {word: most_frequent(tags.elements()) for word, tags in counts.items()}
        usual = most_frequent(best.values())
        words = (self.input.whole(example.input).words for example in examples)
        return {"most frequent tag of the word": [[best.get(word, usual) for word in some] for some in words]}

    def tally(self, answers: Sequence[Sequence[str]], examples: Sequence[Example]) -> Tally:
        right = [example.texts[0].split() for example in examples]
        pairs = zip(right, answers, strict=True)
        if self.measure().name == "accuracy":
            hits = ([a == b for a, b in zip(one, other, strict=True)] for one, other in pairs)
            return Tally.of_shares([(sum(some), len(some)) for some in hits], percent=True)
        both = ((set(spans(one)), set(spans(other))) for one, other in pairs)
        return Tally.of_shares([(2 * len(one & other), len(one) + len(other)) for one, other in both], percent=True)

    def test_scores(self, model: Tagger, examples: Sequence[Example], alignments: bool) -> Scores:
        """Return accuracy of words and of whole sentences; precision, recall and F1 of spans, if tags mark them."""
        right = [example.texts[0].split() for example in examples]
        said = self._tags(model, [example.input for example in examples])
        names = self.labels.names
        gold, given = (np.array(self.labels.classes(tag for tags in side for tag in tags)) for side in (right, said))
        by_tag = class_scores(one_hot(gold, len(names)), one_hot(given, len(names)), names)
        matrix = confusion(gold, given, len(names))
        rows = {"by tag": [score.as_row() for score in by_tag], CONFUSION: confusion_rows(matrix, names)}
        if self.marks_spans:
            rows["by span"] = [row for row in span_scores(right, said) if row["label"]]
        whole = 100 * float(np.mean([one == other for one, other in zip(right, said, strict=True)]))
        values = {**self._values(right, said), "macro_f1": macro_f1(by_tag), "sentences": float(len(right))}
        unknown = int((gold == UNKNOWN).sum())
        notes = (
            {"unknown tags": f"{unknown} words have a tag that is not in the training data; they count as wrong"}
            if unknown
            else {}
        )
        drawn = confusion_picture(matrix, names, "Test data. Rows: the correct tag")
        return Scores(values | {"exact_match": whole}, notes, rows, drawn, percent=PERCENT)

    def _values(self, right: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
        hits = [a == b for one, other in zip(right, predicted, strict=True) for a, b in zip(one, other, strict=True)]
        found = {"accuracy": 100 * float(np.mean(hits)) if hits else 0.0}
        if not self.marks_spans:  # F1 over all words, each as one span, is the accuracy
            return found | {"f1": found["accuracy"]}
        total = span_scores(right, predicted)[0]
        return found | {name: total[name] for name in ("precision", "recall", "f1")}

    @property
    def marks_spans(self) -> bool:
        """Whether the training tags mark spans."""
        return marks_spans(self.labels.names)


def _wrong_beginnings(role: Role, examples: Examples) -> Iterator[Finding]:
    """Report tags that continue a span that was not begun."""
    lines, count, first = [], 0, ""
    for text, line in examples.targets_read():
        tags = text.split()
        for place in violations(tags):
            count += 1
            first = first or f"{tags[place]} after {tags[place - 1] if place else 'nothing'}, word {place + 1}"
            if line not in lines and len(lines) < SHOWN:
                lines.append(line)
    if count:
        what = f"{count:,} tag{'s' if count != 1 else ''} continue a span that was not begun (the first: {first})"
        advice = "write B- (or S-) where a span begins; they are scored as the beginning of one"
        yield Finding("warning", role, what, count, examples.name, lines, advice)
