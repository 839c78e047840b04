"""Transcripts with times, as text, WebVTT or TextGrid; long recordings in windows. Needs no torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError, nearest
from regard.files.subtitles import TimedText, in_order, text_grid, web_vtt
from regard.inputs.sound.item import SoundItem, SoundReader
from regard.look.axis import Axis
from regard.metrics.speech import expected_times, median_times, middle_spans, peak_times
from regard.tasks.result import Candidate, Prediction, in_budget
from regard.tasks.text.writing import CrossAttentionArrays, Ids

SILENT = "silent: it has no sound"
CLIPPED = "clipped: recorded too loud, so parts of the sound are lost"
WAITING = 4  # times decoding.batch_tokens: frames kept until windows of similar length are decoded together


@dataclass(frozen=True)
class Transcript(Prediction):
    """The prediction for a recording of `seconds`; with attention, also the times of words."""

    seconds: float = 0.0
    words: tuple[TimedText, ...] = ()
    tokens: tuple[TimedText, ...] = ()
    note: str = ""  # problems of the recording

    def written(self, form: str) -> str:
        """Return the transcript in a file format: vtt or textgrid."""
        if form not in ("vtt", "textgrid"):
            raise CallError(f"format {form!r} is not known for transcripts{nearest(form, ('vtt', 'textgrid'))}")
        if form == "vtt":
            return web_vtt(self.words)
        return text_grid({"words": self.words, "tokens": self.tokens}, self.seconds)


def join_windows(windows: Sequence[Transcript]) -> Transcript:
    """Join the transcripts of windows into that of a recording, without alternatives."""
    first, end = windows[0], sum(one.seconds for one in windows)
    words = in_order([word for one in windows for word in one.words], end)
    tokens = in_order([token for one in windows for token in one.tokens], end)
    if len(windows) == 1:
        return replace(first, words=words, tokens=tokens)
    best = [one.n_best[0] for one in windows]
    text = " ".join(filter(None, (one.text.strip() for one in best)))
    whole = Candidate(text, *(sum(getattr(one, name) for one in best) for name in ("log_probability", "score")))
    notes = {one.note for one in windows}
    note = SILENT if notes == {SILENT} else CLIPPED if CLIPPED in notes else ""
    return Transcript(first.input, [whole], seconds=end, words=words, tokens=tokens, note=note)


def note_of(item: SoundItem) -> str:
    return SILENT if item.silent else CLIPPED if item.clipped else ""


def in_windows(
    input: SoundReader,
    inputs: Sequence[Any],
    how: Any,
    prefix: str,
    predict: Callable[[list[SoundItem], str], list[Any]],
) -> list[Transcript]:
    """Transcribe window by window, a few at a time, so that memory does not grow with the recording.
    `predict(windows, prefix)` returns transcripts of some windows; the prefix applies to the first window of a
    recording only.
    """
    found: list[list[Any]] = [[] for _ in inputs]
    pieces = ((number, item) for number, one in enumerate(inputs) for item in input.pieces(one, how.window))
    for some in in_budget(pieces, lambda piece: len(piece[1].features), WAITING * how.batch_tokens):
        for begin in {prefix: None, "": None}:
            own = [piece for piece in some if not prefix or (piece[1].start == 0) == bool(begin)]
            for (number, _), one in zip(own, predict([item for _, item in own], begin), strict=True):
                found[number].append(one)
    return [join_windows(windows) for windows in found]


def stream_windows(
    pieces: Any, on_text: Callable[[str, str], None], prefix: str, stream: Callable[[SoundItem, Any, str], Any]
) -> Transcript:
    """Transcribe one window after the other; `stream(window, tell, prefix)` returns the transcript of one."""
    windows: list[Any] = []

    def told(piece: str, text: str) -> None:
        on_text(piece, " ".join([*filter(None, (said.text.strip() for said in windows)), text]))

    for item in pieces:
        windows.append(stream(item, told, "" if windows else prefix))
    return join_windows(windows)


def looked_at(input: SoundReader, one: Any, window: float) -> SoundItem:
    """Return the item of a recording to look at: one window that is not silent."""
    item = input.read(one)
    if item.seconds > window:
        told = f"{item.name} has {item.seconds:.0f} s: look takes at most decoding.window={window:g}"
        raise CallError(f"{told}; cut out a part of it")
    if item.silent:
        raise CallError(f"{item.name} is {SILENT}")
    return item


# The time of each token of a text, for any input whose axis has times: seconds of sound, days.
#
# attention     the median of a token's weight over the input
# peak          the time of the largest weight
# expectation   Σ_k a_tk time_k
# ctc           the middle of the token's interval by CTC, in models with CTC

READINGS = ("attention", "peak", "expectation", "ctc")  # of all heads together

Edges = Float[np.ndarray, " K1"]  # start times of the vectors of the memory, and the end of the last one: `Axis.edges`


def readings(weights: CrossAttentionArrays, tokens: int, edges: Edges) -> dict[str, Float[np.ndarray, " T"]]:
    """Return the time of each token, by every reading that the model supports."""
    found = {}
    if weights.weights:
        mean, middles = weights.mean[:tokens], (edges[:-1] + edges[1:]) / 2
        found = {
            "attention": median_times(mean, edges),
            "peak": peak_times(mean, middles),
            "expectation": expected_times(mean, middles),
        }
    if weights.ctc is not None:
        found["ctc"] = _stretches(weights.ctc, edges).mean(axis=1)
    return found


def by_head(weights: CrossAttentionArrays, tokens: int, edges: Edges) -> dict[str, Float[np.ndarray, " T"]]:
    return {
        f"{name} head {head}": median_times(table[:tokens], edges)
        for name, heads in weights.weights.items()
        for head, table in enumerate(heads)
    }


def spans(weights: CrossAttentionArrays, tokens: int, edges: Edges) -> Float[np.ndarray, "T 2"] | None:
    """Return the start and end of each token: by CTC if the model has it, else by the middle of its attention."""
    if weights.ctc is not None:
        return _stretches(weights.ctc, edges)
    return middle_spans(weights.mean[:tokens], edges) if weights.weights else None


def _stretches(vectors: Sequence[tuple[int, int]], edges: Edges) -> Float[np.ndarray, "T 2"]:
    """Return the interval from the start of the first vector to the end of the last one."""
    return edges[np.array(vectors, np.int64).reshape(-1, 2) + np.array([0, 1])]


def token_times(
    tokenizer: Tokenizer, ids: Ids, weights: CrossAttentionArrays, axis: Axis, item: SoundItem
) -> tuple[tuple[TimedText, ...], tuple[TimedText, ...]]:
    """Return words and tokens of one window with their times in the whole recording; empty if the model
    has no times.
    """
    times = spans(weights, len(ids), axis.edges) if ids else None
    if times is None:
        return (), ()
    inside = (item.start + np.clip(times, 0.0, item.seconds)).tolist()
    tokens = tuple(TimedText(label, *span) for label, span in zip(tokenizer.labels(ids), inside, strict=True))
    return tuple(words_heard(tokenizer, ids, tokens)), tokens


def words_heard(tokenizer: Tokenizer, ids: Ids, tokens: Sequence[TimedText]) -> list[TimedText]:
    """Return the words between spaces, each from the start of its first token to the end of its last."""
    text, found, place = tokenizer.decode(ids), [], 0
    placed = list(zip(tokenizer.decoded_spans(ids), tokens, strict=True))
    for word in text.split():
        start = text.index(word, place)
        place = start + len(word)
        own = [token for span, token in placed if span.start < place and span.end > start]
        if own:
            found.append(TimedText(word, min(token.start for token in own), max(token.end for token in own)))
    return found
