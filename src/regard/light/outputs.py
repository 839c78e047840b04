"""Outputs of graphs: `regard.tasks.base.Output` without training, scores and explanation methods."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, ClassVar

import numpy as np

from regard.data.labels import Labels
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.inputs.question.windows import QuestionReader, WindowItem
from regard.inputs.series.item import SeriesItem
from regard.inputs.text.word_pieces import WordsItem, WordsReader, words_axis
from regard.light.inputs import LightInput, LightText, TextItem, padded_ids
from regard.light.record import Between, record_of
from regard.light.search import normalizer
from regard.light.session import Arrays, Description, OnnxSession, seen_in
from regard.look.axis import Axis, whole
from regard.look.placing import pooled_placement, rows_at
from regard.look.records import AttentionRecord
from regard.settings.recipe import Recipe
from regard.tasks.labels.answers import candidate, log_probabilities, looked_at, output_view, predict_labels
from regard.tasks.result import Candidate, Prediction, Vector, group_by_length, mean_of_windows
from regard.tasks.span.reading import WindowReader, axes_of, shown_window, text_boundary
from regard.tasks.tags.answers import chosen_tags, in_windows, mark_spans, predict_tags, tags_axis
from regard.tasks.values.forecasting import UNSCORED, Forecasting, record_input, windows_at_once


class LightOutput(ABC):
    takes_prefix: ClassVar[bool] = False
    gives_attention: ClassVar[bool] = False
    writes_text: ClassVar[bool] = False
    takes_prompt: ClassVar[bool] = False
    takes_instead: ClassVar[bool] = False
    gives_vectors: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    draws_alone: ClassVar[bool] = False
    gives: ClassVar[str] = "text"

    def __init__(self, about: Description, input: Any) -> None:
        self.recipe: Any = about.recipe
        self.input, self.roles, self.says = input, about.attentions, about.says

    @property
    def takes_gold(self) -> bool:
        """Whether gold links can join its words to those of the input."""
        return False

    def with_recipe(self, recipe: Recipe) -> Any:
        """Return a copy under a changed recipe."""
        changed = copy(self)
        changed.recipe, changed.input = recipe, self.input.with_recipe(recipe)
        return changed

    def given(self, words: Sequence[str]) -> list[str]:
        """Parse given outputs."""
        return list(words)

    @abstractmethod
    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]: ...

    def stream(self, one: Any, on_text: Callable[[str, str], None], *, prefix: str = "") -> Prediction:
        raise CallError("this model writes nothing that could be streamed")

    @abstractmethod
    def score_outputs(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        """Return the log-probability of each given output."""

    @abstractmethod
    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        """Return the records of the best output, or the given one, and of the other hypotheses."""


LABELS = "labels.json"


class LightLabels(LightOutput):
    """Labels with the graph `model`."""

    gives: ClassVar[str] = "a label"

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self.labels = Labels.load(about.folder / LABELS)
        self._model = OnnxSession(about.folder / "model.onnx")

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        names = [self.input.name(one) for one in inputs]
        rows = self._log_probabilities(inputs)
        return [
            predict_labels(name, row, self.labels, self.recipe.decoding) for name, row in zip(names, rows, strict=True)
        ]

    def _log_probabilities(self, inputs: Sequence[Any]) -> np.ndarray:
        def ask(items: list[Any]) -> list[np.ndarray]:
            def work(numbers: list[int]) -> list[np.ndarray]:
                return list(self._model(self.input.collate([items[number] for number in numbers]))["logits"])

            return group_by_length([self.input.length(item) for item in items], self.recipe.decoding.batch_tokens, work)

        logits = mean_of_windows(self.input, inputs, ask)
        return log_probabilities(np.array(logits).reshape(len(inputs), len(self.labels)), self.labels)

    def score_outputs(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        wanted = [self.labels.require(label) for label in outputs]
        rows = self._log_probabilities(inputs)
        return [candidate(number, row, self.labels) for number, row in zip(wanted, rows, strict=True)]

    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        item = self.input.item_of(one)
        found = self._model(self.input.collate([item]), watch=True)
        (row,) = log_probabilities(found["logits"], self.labels)
        seen = {name: weights[0] for name, weights in seen_in(found).items()}
        shown, source = output_view(row, self.labels), self.input.axis(item)
        records = []
        for number in looked_at(row, self.labels, self.recipe.decoding, output):
            name = self.labels.names[number]
            between = Between({"target": whole(name), "source": source})
            records.append(
                record_of(
                    seen,
                    self.roles,
                    between,
                    pooled_placement(self.says["first"]),
                    output=name,
                    score=float(np.exp(row[number])),
                    scores=(float(row[number]),),
                    said=shown,
                )
            )
        return records


class LightWords(WordsReader, LightText):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A tag for each word, with the graph `model`."""

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
        self._model = OnnxSession(about.folder / "model.onnx")

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        items = [self.input.whole(one) for one in inputs]
        names = [self.input.name(one) for one in inputs]
        words, tables = [item.words for item in items], self._log_probabilities(items)
        return [predict_tags(*one, self.labels.names) for one in zip(names, words, tables, strict=True)]

    def _log_probabilities(self, items: Sequence[WordsItem]) -> list[np.ndarray]:
        def ask(windows: list[WordsItem]) -> list[np.ndarray]:
            def work(numbers: list[int]) -> list[np.ndarray]:
                return list(self._model(self.input.collate([windows[number] for number in numbers]))["logits"])

            tables = group_by_length(
                [self.input.length(item) for item in windows], self.recipe.decoding.batch_tokens, work
            )
            return [self._known(table, item) for table, item in zip(tables, windows, strict=True)]

        return in_windows(self.input, items, ask)

    def _known(self, logits: np.ndarray, item: WordsItem) -> np.ndarray:
        logits = logits[: len(item.words)]
        return logits - normalizer(logits)[:, None]

    def score_outputs(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
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
            said=mark_spans(item.words, names, self.labels.names),
        )]  # fmt: skip


class LightValues(LightOutput):
    """Forecasts with the graph `model`: past and known future columns → values of each step, target and quantile."""

    gives: ClassVar[str] = "numbers"

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self._model = OnnxSession(about.folder / "model.onnx")

    @property
    def _asked(self) -> Forecasting:
        return Forecasting(self.recipe, self.input, self._values)

    def _values(self, items: Sequence[SeriesItem]) -> np.ndarray:
        groups = windows_at_once(items, self.input)
        return np.concatenate([self._model(self.input.collate(some))["values"] for some in groups])

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        return [self._asked.forecast(one) for one in inputs]

    def score_outputs(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Candidate]:
        raise CallError(UNSCORED)

    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        asked = self._asked
        looked_at, text, found = asked.line(one, output)
        item, target = looked_at
        seen = seen_in(self._model(self.input.collate([item]), watch=True))
        row = target if self.says["patches"] else 0  # the patches of each target are a separate row of the batch
        return [record_of(
            {name: weights[row] for name, weights in seen.items()}, self.roles,
            Between(asked.axes(looked_at)), output=text, scores=tuple(found.values[:, target].tolist()),
            said=found.said(target), input=record_input(item, self.input),
        )]  # fmt: skip


class LightVectors(LightOutput):
    """One vector for each text, with the graph `model`."""

    gives: ClassVar[str] = "a vector"
    gives_vectors: ClassVar[bool] = True

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self._model = OnnxSession(about.folder / "model.onnx")

    def predict(self, inputs: Sequence[str], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        return [Vector.of(text, vector) for text, vector in zip(inputs, self._vectors(inputs), strict=True)]

    def score_outputs(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[Candidate]:
        """Return the cosine of the two vectors of each input and output."""
        sides = [np.array(self._vectors(side)) for side in (inputs, outputs)]
        one, other = (side / np.maximum(np.linalg.norm(side, axis=-1, keepdims=True), 1e-12) for side in sides)
        return [
            Candidate(said, score=float(cosine)) for said, cosine in zip(outputs, (one * other).sum(-1), strict=True)
        ]

    def look(self, one: str, output: str | None, prefix: str) -> list[AttentionRecord]:
        """Explain self-attention of the text; with another one, of the text and its pooled vector."""
        if output is not None and self.says["joins"]:
            raise CallError("this model reads two texts as one pair, but an export reads one at a time: use the run")
        item = self._item(self.input.item_of(one).text)
        seen = seen_in(self._model(self.input.collate([item]), watch=True))
        tables, axes = {name: weights[0] for name, weights in seen.items()}, {"source": self.input.axis(item)}
        if output is None:
            return [record_of(tables, self.roles, Between(axes))]
        score = self.score_outputs([one], [output])[0].score
        between = Between({**axes, "target": whole(output)})
        told = {"output": output, "score": score, "scores": (score,)}
        return [record_of(tables, self.roles, between, pooled_placement(self.says["first"]), **told)]

    def _vectors(self, texts: Sequence[str]) -> list[np.ndarray]:
        items = [self._item(text) for text in texts]

        def work(numbers: list[int]) -> list[np.ndarray]:
            return list(self._model(self.input.collate([items[number] for number in numbers]))["vector"])

        lengths = [self.input.length(item) for item in items]
        return group_by_length(lengths, self.recipe.vectors.batch_tokens, work)

    def _item(self, text: str) -> TextItem:
        """Return the item of a text: truncated at the model's limit, or an error."""
        item, most = self.input.read(text), self.recipe.data.max_length - 1
        if len(item.ids) > most and self.recipe.data.overlong != "cut":
            raise CallError(f"the text {text[:40]!r} has {len(item.ids)} tokens, more than the model's limit of {most}")
        return item._replace(ids=item.ids[:most])


class LightQuestion(QuestionReader, LightInput):
    """Question answering with the graph `model`: two pointers for each window of a document."""

    kind: ClassVar[str] = "text"

    def __init__(self, about: Description) -> None:
        super().__init__(about)
        self.tokenizer, self.marked = Tokenizer.of_run(about.folder), self.reads["marked"]

    def collate(self, items: Sequence[WindowItem]) -> Arrays:
        pad = self.reads["pad"]
        sides = {"question": [item.question for item in items], "document": [item.document for item in items]}
        return {name: padded_ids([ids or [pad] for ids in side], pad) for name, side in sides.items()}


class LightSpans(LightOutput):
    gives: ClassVar[str] = "a position in the text"

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self._model = OnnxSession(about.folder / "model.onnx")

    @property
    def _span_reader(self) -> WindowReader:
        return WindowReader(self._point, self.input, self.recipe)

    def _point(self, items: Sequence[WindowItem]) -> tuple[np.ndarray, np.ndarray]:
        found = self._model(self.input.collate(items))
        return found["start_logits"], found["end_logits"]

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        asking = self._span_reader
        return [asking.prediction(*one) for one in zip(inputs, asking.answers(inputs), strict=True)]

    def score_outputs(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        return [*self._span_reader.given(inputs, outputs)]

    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        document, records = self.input.document(one).text, []
        for answer in self._span_reader.looked_at(one, output):
            shown = shown_window(self.input, one, answer.span)
            found = self._model(self.input.collate([shown.item]), watch=True)
            tables = {name: weights[0] for name, weights in seen_in(found).items()}
            pointers = zip((found["start_logits"][0], found["end_logits"][0]), shown[1:], strict=True)
            score = sum(float(logits[place] - normalizer(logits)) for logits, place in pointers)
            records.append(record_of(
                tables, self.roles, Between(axes_of(self.input, shown, answer.text)),
                text_boundary(*self.input.sides(shown.item)), output=answer.text, score=answer.score, scores=(score,),
                said=answer.marked(document),
            ))  # fmt: skip
        return records
