"""Texts with times, as files: subtitles (WebVTT) and tiers for phoneticians (TextGrid)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

PAUSE, WIDEST = 0.6, 42  # a subtitle ends at so long a pause (seconds) or so many characters


@dataclass(frozen=True)
class Heard:
    """A token or a word, and from when to when it was heard, in seconds."""

    text: str
    start: float
    end: float


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


def web_vtt(words: Sequence[Heard]) -> str:
    """Subtitles (W3C WebVTT), broken at pauses and at the width of a line."""
    cues: list[list[Heard]] = []
    for word in words:
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


def text_grid(tiers: Mapping[str, Sequence[Heard]], seconds: float) -> str:
    """Praat's TextGrid, long form: tiers by name, of so many seconds and without holes."""
    lines = [
        'File type = "ooTextFile"', 'Object class = "TextGrid"', "",
        "xmin = 0", f"xmax = {seconds:.6f}", "tiers? <exists>", f"size = {len(tiers)}", "item []:",
    ]  # fmt: skip
    for number, (name, heard) in enumerate(tiers.items(), start=1):
        filled = _without_holes(heard, seconds)
        lines += [
            f"    item [{number}]:", '        class = "IntervalTier"', f'        name = "{name}"',
            "        xmin = 0", f"        xmax = {seconds:.6f}", f"        intervals: size = {len(filled)}",
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
