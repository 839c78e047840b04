"""Transcripts with times, as text, WebVTT or TextGrid; long recordings in windows. Needs no torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.errors import CallError, nearest
from regard.files.subtitles import Heard, in_order, text_grid, web_vtt
from regard.inputs.sound.item import SoundItem, SoundReader
from regard.outputs.groups import in_budget
from regard.outputs.result import Candidate, Prediction

SILENT = "silent: it has no sound"
CLIPPED = "clipped: recorded too loud, so parts of the sound are lost"
WAITING = 4  # times decoding.batch_tokens: frames kept until windows of similar length are decoded together


@dataclass(frozen=True)
class Transcript(Prediction):
    """The prediction for a recording of `seconds`; with attention, also the times of words."""

    seconds: float = 0.0
    words: tuple[Heard, ...] = ()
    tokens: tuple[Heard, ...] = ()
    note: str = ""  # problems of the recording

    def written(self, form: str) -> str:
        """Return the transcript in a file format: vtt or textgrid."""
        if form not in ("vtt", "textgrid"):
            raise CallError(f"format {form!r} is not known for transcripts{nearest(form, ('vtt', 'textgrid'))}")
        if form == "vtt":
            return web_vtt(self.words)
        return text_grid({"words": self.words, "tokens": self.tokens}, self.seconds)


def joined(windows: Sequence[Transcript]) -> Transcript:
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
    return [joined(windows) for windows in found]


def streamed(
    pieces: Any, tell: Callable[[str, str], None], prefix: str, stream: Callable[[SoundItem, Any, str], Any]
) -> Transcript:
    """Transcribe one window after the other; `stream(window, tell, prefix)` returns the transcript of one."""
    windows: list[Any] = []

    def told(piece: str, text: str) -> None:
        tell(piece, " ".join([*filter(None, (said.text.strip() for said in windows)), text]))

    for item in pieces:
        windows.append(stream(item, told, "" if windows else prefix))
    return joined(windows)


def looked_at(input: SoundReader, one: Any, window: float) -> SoundItem:
    """Return the item of a recording to look at: one window that is not silent."""
    item = input.read(one)
    if item.seconds > window:
        told = f"{item.name} has {item.seconds:.0f} s: look takes at most decoding.window={window:g}"
        raise CallError(f"{told}; cut out a part of it")
    if item.silent:
        raise CallError(f"{item.name} is {SILENT}")
    return item
