"""Scores of transcripts: error rates, and the time of each piece of a *reference*, if a corpus has gold times."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from regard.corpora.tones import Segment
from regard.data.tokenizer import Tokenizer
from regard.metrics.error_rates import edit_distance
from regard.metrics.speech import error_rates, timing
from regard.outputs.result import Scores
from regard.outputs.text.output import Forced
from regard.outputs.text.timing import READINGS, Edges, by_head, readings

WORST = 10  # transcripts with the most errors
BY_HEAD = "times by layer and head (inside the gold interval, %; seconds off its middle)"


def transcript_scores(said: Sequence[str], texts: Sequence[str], times: "Times") -> Scores:
    """Return error rates, timing scores, and the transcripts with the most errors, whose recordings may be
    mislabeled.
    """
    rates = error_rates(said, texts)
    percent = [*rates, *(f"inside_{name}" for name in READINGS)]
    wrong = [(edit_distance(a.split(), b.split()), a, b) for a, b in zip(said, texts, strict=True) if a != b]
    furthest = [{"said": a, "text": b, "words wrong": distance} for distance, a, b in sorted(wrong)[::-1][:WORST]]
    values, details = times.scores()
    details["furthest from their texts"] = furthest
    return Scores(rates | {"recordings": float(len(said))} | values, {}, details, percent=percent)


class Times:
    """Times of all segments of all examples, by every reading; `by_head`: also by every head."""

    def __init__(self, tokenizer: Tokenizer, *, by_head: bool) -> None:
        self._tokenizer, self._by_head = tokenizer, by_head
        self._heard: dict[str, list[float]] = {}
        self._gold: list[tuple[float, float]] = []

    def add(self, one: Forced, edges: Edges) -> None:
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
