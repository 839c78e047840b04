"""Transcription: long recordings in windows, CTC and a language model, times of words.

recording → windows → Memory → search with CTC and a language model → text → times of words
"""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from regard.corpora.tones import Segment
from regard.data.examples import Example, Examples
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.generation.engine import Hypothesis
from regard.inputs.sound.input import SoundInput
from regard.inputs.sound.item import SoundItem
from regard.metrics.speech import edit_distance, error_rates, timing
from regard.models.seq2seq import Seq2Seq, SpeechToText
from regard.tasks.base import LookOptions, OutputRef
from regard.tasks.batched import device_of
from regard.tasks.final_score import ROWS, most_frequent
from regard.tasks.result import Measure, Prediction, Scores, Tally
from regard.tasks.text.output import ForcedOutputs, TextOutput
from regard.tasks.text.search import language_model_voice
from regard.tasks.text.settings import TranscribeRecipe
from regard.tasks.text.transcript import (
    READINGS,
    Edges,
    Transcript,
    by_head,
    in_windows,
    join_windows,
    looked_at,
    note_of,
    readings,
    stream_windows,
    token_times,
)
from regard.tasks.text.writing import CrossAttentionArrays

# Scores of transcripts: error rates, and the time of each piece of a *reference*, if a corpus has gold times.

WORST = 10  # transcripts with the most errors
BY_HEAD = "times by layer and head (inside the gold interval, %; seconds off its middle)"


def transcript_scores(hypotheses: Sequence[str], texts: Sequence[str], times: "Times") -> Scores:
    """Return error rates, timing scores, and the transcripts with the most errors, whose recordings may be
    mislabeled.
    """
    rates = error_rates(hypotheses, texts)
    percent = [*rates, *(f"inside_{name}" for name in READINGS)]
    wrong = [(edit_distance(a.split(), b.split()), a, b) for a, b in zip(hypotheses, texts, strict=True) if a != b]
    furthest = [{"said": a, "text": b, "words wrong": distance} for distance, a, b in sorted(wrong)[::-1][:WORST]]
    values, details = times.scores()
    details["furthest from their texts"] = furthest
    return Scores(rates | {"recordings": float(len(hypotheses))} | values, {}, details, percent=percent)


class Times:
    """Times of all segments of all examples, by every reading; `by_head`: also by every head."""

    def __init__(self, tokenizer: Tokenizer, *, by_head: bool) -> None:
        self._tokenizer, self._by_head = tokenizer, by_head
        self._heard: dict[str, list[float]] = {}
        self._gold: list[tuple[float, float]] = []

    def add(self, one: ForcedOutputs, edges: Edges) -> None:
        """Add an example; the time of a segment is the mean of its tokens' times."""
        text, count = one.example.texts[0], len(one.ids)
        self._gold += [(segment.start, segment.end) for segment in one.example.gold]
        pieces = self._tokenizer.spans(text)
        own = [
            [place for place, piece in enumerate(pieces) if piece.start < end and piece.end > start]
            for start, end in character_spans(text, one.example.gold)
        ]
        found = readings(one.seen, count, edges) | (by_head(one.seen, count, edges) if self._by_head else {})
        for name, times in found.items():
            self._heard.setdefault(name, []).extend(float(np.mean(times[places])) for places in own)

    def scores(self) -> tuple[dict[str, float], dict[str, list[dict[str, Any]]]]:
        """Return the scores over all heads by name, and a table for each."""
        values, rows = {}, []
        for name, times in self._heard.items():
            if len(times) != len(self._gold):  # CTC has no path if a text is too long for its sound
                continue
            found = timing(times, self._gold)
            if name in READINGS:
                values |= {f"inside_{name}": found.inside, f"off_{name}": found.off}
            else:
                rows.append({"attention": name, "inside": found.inside, "off": found.off})
        return values, {BY_HEAD: rows} if rows else {}


def character_spans(text: str, segments: Iterable[Segment]) -> list[tuple[int, int]]:
    """Return the characters of each segment: they follow each other in the text, separated by spaces only."""
    spans, place = [], 0
    for segment in segments:
        start = text.index(segment.text, place)
        place = start + len(segment.text)
        spans.append((start, place))
    return spans


MEASURED = 256  # recordings per batch of measured times


class Transcription(TextOutput[TranscribeRecipe, SoundInput]):
    takes_alignments: ClassVar[bool] = True
    draws_alone: ClassVar[bool] = False  # the windows of all recordings are numbered together

    def helped_by(self, model: Seq2Seq) -> dict[str, Any]:
        how, device = self.recipe.decoding, device_of(model)
        found: dict[str, Any] = {"ctc": how.ctc} if how.ctc and isinstance(model, SpeechToText) and model.ctc else {}
        if (name := how.language_model) is not None:
            found["language"] = language_model_voice(name, how.language_model_weight, self.tokenizer, device)
        return found

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(
        self, model: Seq2Seq, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        def said(items: list[SoundItem], begin: str) -> list[Prediction]:
            return super(Transcription, self).predict(model, items, prefix=begin, attention=attention)

        return [*in_windows(self.input, inputs, self.recipe.decoding, prefix, said)]

    def pieces(self, one: Any) -> list[tuple[Any, Any]]:
        return [(item, item) for item in self.input.pieces(one, self.recipe.decoding.window)]

    def joined(self, predictions: list[Any]) -> Prediction:
        return join_windows(predictions)

    def stream(self, model: Seq2Seq, one: Any, on_text: Callable[[str, str], None], *, prefix: str = "") -> Transcript:
        def of_window(item: SoundItem, told: Any, begin: str) -> Prediction:
            return super(Transcription, self).stream(model, item, told, prefix=begin)

        return stream_windows(self.input.pieces(one, self.recipe.decoding.window), on_text, prefix, of_window)

    def prediction(
        self,
        one: Any,
        item: SoundItem,
        hypotheses: list[Hypothesis],
        weights: CrossAttentionArrays | None,
        attention: bool,
    ) -> Transcript:
        """Return the prediction of one window, with times in the recording."""
        said = super().prediction(one, item, hypotheses, None if item.silent else weights, attention)
        ids, times = hypotheses[0].tokens, self.input.axis(item)
        words, tokens = ((), ()) if weights is None else token_times(self.tokenizer, ids, weights, times, item)
        return Transcript(said.input, said.n_best, said.alignment, item.seconds, words, tokens, note_of(item))

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Seq2Seq, one: Any, options: LookOptions) -> list[OutputRef]:
        return super().tell(model, looked_at(self.input, one, self.recipe.decoding.window), options)

    # ------------------------------------------------------------------------------------------------------ evaluation
    def quick_scores(self, hypotheses: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
        rates = error_rates(hypotheses, [example.texts[0] for example in examples])
        return {name: rates[name] for name in ("wer", "cer", "exact_match")}

    def test_scores(self, model: Seq2Seq, examples: Sequence[Example], alignments: bool) -> Scores:
        """Return error rates on the test data, speed and, if gold times are known, timing scores."""
        begin = time.perf_counter()
        found: list[Any] = self.predict(model, [example.input for example in examples])
        took, seconds = time.perf_counter() - begin, sum(one.seconds for one in found)
        scores = self.scores(model, [one.text for one in found], examples, alignments)
        scores.values["real_time_factor"] = took / max(seconds, 1e-9)
        scores.notes["sound"] = f"{seconds:,.0f} seconds of sound in {took:,.1f} seconds"
        return scores

    def measure(self) -> Measure:
        return Measure("wer", higher_is_better=False)

    def baselines(self, train: Examples, examples: Sequence[Example]) -> dict[str, list[str]]:
        texts = (text for text, _ in islice(train.targets_read(), ROWS))
        return {"most frequent text": [most_frequent(texts)] * len(examples)}

    def tally(self, answers: Sequence[str], examples: Sequence[Example]) -> Tally:
        """Return the numbers of wrong words and of words of the reference."""
        pairs = [(said.split(), example.texts[0].split()) for said, example in zip(answers, examples, strict=True)]
        return Tally.of_shares([(edit_distance(said, right), len(right)) for said, right in pairs], percent=True)

    def scores(
        self, model: Seq2Seq, hypotheses: Sequence[str], examples: Sequence[Example], alignments: bool
    ) -> Scores:
        timed = [example for example in examples if example.gold]
        if alignments and not timed:
            raise CallError("the test data has no word timings; remove alignments")
        times = Times(self.tokenizer, by_head=alignments)
        for start in range(0, len(timed), MEASURED):
            for one in self.forced(model, timed[start : start + MEASURED], self.recipe.decoding.batch_tokens):
                times.add(one, self.input.axis(one.item).edges)
        return transcript_scores(hypotheses, [example.texts[0] for example in examples], times)
