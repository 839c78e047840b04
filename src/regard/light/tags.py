"""A tag for each word, with the graph `model`."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.labels import Labels
from regard.inputs.text.word_pieces import WordsItem, WordsReader, words_axis
from regard.light.description import Description
from regard.light.inputs import padded_ids
from regard.light.labels import LABELS
from regard.light.outputs import LightOutput
from regard.light.record import Between, record_of
from regard.light.rules import normalizer
from regard.light.session import Arrays, Session, seen_in
from regard.light.texts import LightText
from regard.look.axis import Axis
from regard.look.pooled_attention import rows_at
from regard.look.records import AttentionRecord
from regard.outputs.groups import grouped
from regard.outputs.result import Candidate, Prediction
from regard.outputs.tags.answers import chosen_tags, in_windows, marked, tagged, tags_axis


class LightWords(WordsReader, LightText):  # pyright: ignore[reportIncompatibleMethodOverride]
    def collate(self, items: Sequence[Any]) -> Arrays:
        tokens = self.padded([[piece.id for piece in item.pieces] for item in items])
        return {"tokens": tokens, "places": padded_ids([self.row_of_words(item) for item in items], 0)}

    def axis(self, item: Any) -> Axis:
        return words_axis(self.tokenizer, item, self.reads["first"], self.reads["end"])

    def row_of_words(self, item: WordsItem) -> list[int]:
        """Return the position of each word's first piece on the axis."""
        return [(self.reads["first"] is not None) + place for place in item.places]


class LightTags(LightOutput):
    gives: ClassVar[str] = "tags"

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self.labels = Labels.load(about.folder / LABELS)
        self._model = Session(about.folder / "model.onnx")

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        items = [self.input.whole(one) for one in inputs]
        names = [self.input.name(one) for one in inputs]
        words, tables = [item.words for item in items], self._log_probabilities(items)
        return [tagged(*one, self.labels.names) for one in zip(names, words, tables, strict=True)]

    def _log_probabilities(self, items: Sequence[WordsItem]) -> list[np.ndarray]:
        def ask(windows: list[WordsItem]) -> list[np.ndarray]:
            def work(numbers: list[int]) -> list[np.ndarray]:
                return list(self._model(self.input.collate([windows[number] for number in numbers]))["logits"])

            tables = grouped([self.input.length(item) for item in windows], self.recipe.decoding.batch_tokens, work)
            return [self._known(table, item) for table, item in zip(tables, windows, strict=True)]

        return in_windows(self.input, items, ask)

    def _known(self, logits: np.ndarray, item: WordsItem) -> np.ndarray:
        logits = logits[: len(item.words)]
        return logits - normalizer(logits)[:, None]

    def given_candidates(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        items = [self.input.whole(one) for one in inputs]
        tables = self._log_probabilities(items)
        return [
            Candidate(tags, chosen_tags(item.words, table, self.labels, tags).total)
            for item, table, tags in zip(items, tables, outputs, strict=True)
        ]

    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        """Explain the tags: each row is a tag, with the attention of its word's vector."""
        item = self.input.item_of(one)
        found = self._model(self.input.collate([item]), watch=True)
        table = self._known(found["logits"][0], item)
        chosen = chosen_tags(item.words, table, self.labels, output)
        names = [self.labels.names[number] for number in chosen.classes]
        between = Between({"target": tags_axis(names), "source": self.input.axis(item)})
        return [record_of(
            {name: weights[0] for name, weights in seen_in(found).items()}, self.roles, between,
            rows_at(self.input.row_of_words(item)), output=" ".join(names), score=chosen.total,
            scores=tuple(table[np.arange(len(names)), chosen.classes].tolist()),
            said=marked(item.words, names, self.labels.names),
        )]  # fmt: skip
