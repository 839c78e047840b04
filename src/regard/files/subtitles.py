"""Timed texts as files: subtitles (WebVTT) and phonetic tiers (TextGrid)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

PAUSE, WIDEST = 0.6, 42  # a subtitle ends at such a pause (seconds) or length (characters)


@dataclass(frozen=True)
class TimedText:
    """A token or a word with its start and end in seconds."""

    text: str
    start: float
    end: float


def in_order(texts: Sequence[TimedText], end: float) -> tuple[TimedText, ...]:
    """Return non-overlapping words in order, which subtitles require; attention may look back or overlap."""
    starts = [0.0]
    for one in texts:
        starts.append(min(max(one.start, starts[-1]), end))
    starts.append(end)
    following = starts[2:]
    return tuple(
        TimedText(one.text, start, max(start, min(one.end, after)))
        for one, start, after in zip(texts, starts[1:], following, strict=False)
    )


def web_vtt(words: Sequence[TimedText]) -> str:
    """Return subtitles (W3C WebVTT), broken at pauses and at the width of a line."""
    cues: list[list[TimedText]] = []
    for word in words:
        line = " ".join(one.text for one in cues[-1]) if cues else ""
        if not cues or word.start - cues[-1][-1].end > PAUSE or len(line) + len(word.text) >= WIDEST:
            cues.append([])
        cues[-1].append(word)
    lines = ["WEBVTT", ""]
    for cue in cues:
        text = " ".join(word.text for word in cue)
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace("-->", "→")
        end = max(cue[-1].end, cue[0].start + 0.001)  # a cue of zero length is not shown
        lines += [f"{_clock(cue[0].start)} --> {_clock(end)}", text, ""]
    return "\n".join(lines)


def text_grid(tiers: Mapping[str, Sequence[TimedText]], seconds: float) -> str:
    """Return tiers by name in Praat's TextGrid long format, `seconds` long and without gaps."""
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


def _without_holes(texts: Sequence[TimedText], end: float) -> list[TimedText]:
    """Fill gaps with intervals without text. Praat rejects intervals of zero length."""
    long = [one for one in texts if one.end > one.start]
    edges = [TimedText("", 0.0, 0.0), *long, TimedText("", end, end)]
    filled = []
    for before, after in pairwise(edges):
        if after.start > before.end:
            filled.append(TimedText("", before.end, after.start))
        if after.end > after.start:
            filled.append(after)
    return filled


def _clock(seconds: float) -> str:
    whole = round(seconds * 1000)
    return f"{whole // 3_600_000:02}:{whole // 60_000 % 60:02}:{whole // 1000 % 60:02}.{whole % 1000:03}"
