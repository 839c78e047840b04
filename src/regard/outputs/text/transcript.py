"""What was said and when: a prediction with times, as text, WebVTT or TextGrid."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from regard.errors import CallError, nearest
from regard.outputs.result import Candidate, Prediction

SILENT = "silent: there is nothing to hear"
CLIPPED = "clipped: recorded too loud, so parts of the sound are lost"
PAUSE, WIDEST = 0.6, 42  # a subtitle ends at so long a pause (seconds) or so many characters


@dataclass(frozen=True)
class Heard:
    """A token or a word, and from when to when it was heard, in seconds."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Transcript(Prediction):
    """A prediction for a recording of `seconds`; what was heard when is there if it was predicted with attention."""

    seconds: float = 0.0
    words: tuple[Heard, ...] = ()
    tokens: tuple[Heard, ...] = ()
    note: str = ""  # what is the matter with the recording

    def written(self, form: str) -> str:
        """As a file of this format: vtt or textgrid."""
        forms = {"vtt": web_vtt, "textgrid": text_grid}
        if form not in forms:
            raise CallError(f"format {form!r} is not known for transcripts{nearest(form, forms)}")
        return forms[form](self)


def joined(windows: Sequence[Transcript]) -> Transcript:
    """Of a whole recording, from those of its windows; there is no one list of alternatives for many of them."""
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


def in_order(heard: Sequence[Heard], end: float) -> tuple[Heard, ...]:
    """One after the other: attention may look back or overlap, a subtitle must not."""
    starts = [0.0]
    for one in heard:
        starts.append(min(max(one.start, starts[-1]), end))
    starts.append(end)
    following = starts[2:]
    return tuple(
        Heard(one.text, start, max(start, min(one.end, after)))
        for one, start, after in zip(heard, starts[1:], following, strict=False)
    )


def web_vtt(transcript: Transcript) -> str:
    """Subtitles (W3C WebVTT), broken at pauses and at the width of a line."""
    cues: list[list[Heard]] = []
    for word in transcript.words:
        line = " ".join(one.text for one in cues[-1]) if cues else ""
        if not cues or word.start - cues[-1][-1].end > PAUSE or len(line) + len(word.text) >= WIDEST:
            cues.append([])
        cues[-1].append(word)
    lines = ["WEBVTT", ""]
    for cue in cues:
        text = " ".join(word.text for word in cue)
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace("-->", "→")
        end = max(cue[-1].end, cue[0].start + 0.001)  # a cue without length is not shown
        lines += [f"{_clock(cue[0].start)} --> {_clock(end)}", text, ""]
    return "\n".join(lines)


def text_grid(transcript: Transcript) -> str:
    """Praat's TextGrid, long form: a tier of words and a tier of tokens, both without holes."""
    tiers = {"words": transcript.words, "tokens": transcript.tokens}
    lines = [
        'File type = "ooTextFile"', 'Object class = "TextGrid"', "",
        "xmin = 0", f"xmax = {transcript.seconds:.6f}", "tiers? <exists>", f"size = {len(tiers)}", "item []:",
    ]  # fmt: skip
    for number, (name, heard) in enumerate(tiers.items(), start=1):
        filled = _without_holes(heard, transcript.seconds)
        lines += [
            f"    item [{number}]:", '        class = "IntervalTier"', f'        name = "{name}"',
            "        xmin = 0", f"        xmax = {transcript.seconds:.6f}", f"        intervals: size = {len(filled)}",
        ]  # fmt: skip
        for place, one in enumerate(filled, start=1):
            text = one.text.replace('"', '""')
            lines += [
                f"        intervals [{place}]:", f"            xmin = {one.start:.6f}",
                f"            xmax = {one.end:.6f}", f'            text = "{text}"',
            ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _without_holes(heard: Sequence[Heard], end: float) -> list[Heard]:
    """Every moment belongs to an interval; those between have no text. Praat refuses intervals without length."""
    long = [one for one in heard if one.end > one.start]
    edges = [Heard("", 0.0, 0.0), *long, Heard("", end, end)]
    filled = []
    for before, after in pairwise(edges):
        if after.start > before.end:
            filled.append(Heard("", before.end, after.start))
        if after.end > after.start:
            filled.append(after)
    return filled


def _clock(seconds: float) -> str:
    whole = round(seconds * 1000)
    return f"{whole // 3_600_000:02}:{whole // 60_000 % 60:02}:{whole // 1000 % 60:02}.{whole % 1000:03}"
