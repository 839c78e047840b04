"""Scores of a speech recognizer: error rates, speed, and whether it looked where the sound was."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from regard.data.tokens import Tokenizer
from regard.inputs.sound.batches import Utterances
from regard.inputs.sound.store import Utterance, character_spans
from regard.metrics.error_rates import edit_distance
from regard.metrics.speech import error_rates, median_times, timing
from regard.models.ctc import SpeechToText
from regard.old_job import Scores
from regard.outputs.text.listening import Attended, Clock, attended, pieces

AT_ONCE = 256  # recordings in memory
WORST = 10  # transcripts with the most errors, which may be mislabeled recordings

READINGS = ("attention", "peak", "expectation", "ctc")  # of all heads together

Say = Callable[[Sequence[Utterance]], list[str]]


def groups(utterances: Utterances) -> Iterator[list[Utterance]]:
    for start in range(0, len(utterances), AT_ONCE):
        yield [utterances[row] for row in range(start, min(start + AT_ONCE, len(utterances)))]


def measure(
    model: SpeechToText,
    utterances: Utterances,
    say: Say,
    features: Callable[[Utterance], Any],
    tokenizer: Tokenizer,
    clock: Clock,
    rate: int,
    group: int,
    *,
    by_head: bool,
) -> Scores:
    """`say` transcribes; `features` makes features; `group` frames go through the model together."""
    said: list[str] = []
    references: list[str] = []
    seconds, took = 0.0, 0.0
    heard: dict[str, list[float]] = {}
    intervals: list[tuple[float, float]] = []
    for some in groups(utterances):
        begin = time.perf_counter()
        said += say(some)
        took += time.perf_counter() - begin
        references += [one.text for one in some]
        seconds += sum(len(one.samples) for one in some) / rate
        gold = [one for one in some if one.segments]
        if gold:
            targets = [tokenizer.encode(one.text) for one in gold]
            looked = attended(model, [features(one) for one in gold], targets, group)
            for one, seen, ids in zip(gold, looked, targets, strict=True):
                intervals += [(segment.start, segment.end) for segment in one.segments]
                readings = clock.readings(seen, len(ids)) | (_heads(clock, seen, len(ids)) if by_head else {})
                for name, times in readings.items():
                    heard.setdefault(name, []).extend(_of_segments(tokenizer, one, times))
    scores = Scores(error_rates(said, references))
    scores.values["recordings"] = float(len(said))
    scores.values["real_time_factor"] = took / max(seconds, 1e-9)
    scores.notes["sound"] = f"{seconds:,.0f} seconds of sound in {took:,.1f} seconds"
    rows = []
    for name, times in heard.items():
        if len(times) != len(intervals):  # CTC found no path for some text that is too long for its sound
            continue
        found = timing(times, intervals)
        if name in READINGS:
            scores.values[f"inside_{name}"] = found.inside
            scores.values[f"off_{name}"] = found.off
        else:
            rows.append({"attention": name, "inside": found.inside, "off": found.off})
    if rows:
        scores.details["times by layer and head (inside the gold interval, %; seconds off its middle)"] = rows
    worst = sorted((_distance(a, b), n) for n, (a, b) in enumerate(zip(said, references, strict=True)) if a != b)
    scores.details["furthest from their texts"] = [
        {"said": said[n], "text": references[n], "words wrong": distance} for distance, n in worst[::-1][:WORST]
    ]
    return scores


def _of_segments(tokenizer: Tokenizer, one: Utterance, times: np.ndarray) -> list[float]:
    """When each segment was heard: the mean of its tokens' times."""
    spans = character_spans(one.text, one.segments)
    return [float(np.mean(times[pieces(tokenizer, one.text, *span)])) for span in spans]


def _heads(clock: Clock, seen: Attended, tokens: int) -> dict[str, np.ndarray]:
    return {
        f"{name} head {head}": median_times(table[:tokens], clock.edges(table.shape[1]))
        for name, heads in seen.weights.items()
        for head, table in enumerate(heads)
    }


def _distance(said: str, reference: str) -> int:
    return edit_distance(said.split(), reference.split())
