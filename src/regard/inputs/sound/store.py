"""Recordings on disk at the model's rate, mapped into memory when they are read: built once, of any size.

A store is a folder of plain arrays, written front to back while recordings stream by:

    samples  samples.at    all recordings one after the other, each scaled to its peak; int16, and where each begins
    peaks                  the peak of each; float32
    ids  ids.at            what the vocabulary of targets makes of the texts, each with its end token
    texts  texts.at        the texts themselves, UTF-8
    segments  segments.at  gold: from character, to character, from second, to second; float64
    hashes                 64 bits of the sound and of the text, for finding duplicates; uint64
    lines                  the line or place that it was read from; int64
    store.json             what was counted on the way; written last

Samples are kept, not features: joining recordings and playing them faster are done to sound, anew in every epoch, and
making the features of a batch takes a small part of the time that training on it does.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from regard.corpora.tones import Segment
from regard.data.cache import store_of
from regard.data.pairs import Bad, excerpt
from regard.data.read_report import FIRST
from regard.data.store_counts import StoreCounts
from regard.data.text_hash import text_hash
from regard.inputs.base import Vocabulary
from regard.inputs.sound.features import frame_count
from regard.inputs.sound.files import Recording
from regard.inputs.sound.recording import Sound, SoundError, is_clipped, is_silent
from regard.inputs.sound.resample import resample
from regard.inputs.sound.settings import SoundSettings
from regard.special_tokens import END

VERSION = 1
FULL = 32767
_KINDS = {
    "samples": "int16", "samples.at": "int64", "peaks": "float32", "ids": "uint32", "ids.at": "int64",
    "texts": "uint8", "texts.at": "int64", "segments": "float64", "segments.at": "int64",
    "hashes": "uint64", "lines": "int64",
}  # fmt: skip


@dataclass(frozen=True)
class Utterance:
    """What a model is trained and measured on: sound, its text, and the gold of its times.

    `load` reads the samples, at the model's rate: thousands of these can wait while few are in memory.
    """

    name: str
    text: str
    segments: tuple[Segment, ...]
    load: Callable[[], Float[np.ndarray, " N"]]


@dataclass
class SoundCounts:
    """What was counted of a split: frames (source) and tokens (target), what was lost, what is suspicious."""

    counts: StoreCounts = field(default_factory=StoreCounts)
    seconds: float = 0.0
    clipped: int = 0
    clipped_first: list[int] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        own = {"seconds": self.seconds, "clipped": self.clipped, "clipped_first": self.clipped_first}
        return {**own, "counts": self.counts.as_dict()}

    @classmethod
    def from_dict(cls, read: dict[str, Any]) -> "SoundCounts":
        counts = StoreCounts.from_dict(read["counts"])
        return cls(counts, read["seconds"], read["clipped"], read["clipped_first"])


class SpeechStore:
    """The recordings of a folder that `write_speech` made. Nothing is read before it is asked for."""

    def __init__(self, folder: Path, sound: SoundSettings) -> None:
        about = store_of(folder, VERSION, "recordings")
        self.name: str = about["name"]
        self.sound = sound
        self.counted = SoundCounts.from_dict(about["counted"])
        self._size: int = about["recordings"]

        def mapped(name: str) -> NDArray[Any]:
            if not about["sizes"][name]:
                return np.empty(0, _KINDS[name])
            return np.asarray(np.memmap(folder / name, _KINDS[name], mode="r"))

        self._arrays = {name: mapped(name) for name in _KINDS}
        self.hashes = self._arrays["hashes"].reshape(-1, 2)
        self.lines = self._arrays["lines"]

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, row: int) -> Utterance:
        if not 0 <= row < len(self):
            raise IndexError(row)
        text = self._of("texts", row).tobytes().decode()
        gold = self._arrays["segments"].reshape(-1, 4)[slice(*self._arrays["segments.at"][row : row + 2])]
        segments = tuple(Segment(text[int(a) : int(b)], start, end) for a, b, start, end in gold.tolist())
        return Utterance(f"recording {row + 1} of {self.name}", text, segments, lambda: self._samples(row))

    def ids(self, row: int) -> NDArray[Any]:
        """Of the text, with their end token."""
        return self._of("ids", row)

    def _samples(self, row: int) -> Float[np.ndarray, " N"]:
        return self._of("samples", row).astype(np.float32) * (self._arrays["peaks"][row] / FULL)

    def _of(self, name: str, row: int) -> NDArray[Any]:
        start, stop = self._arrays[f"{name}.at"][row : row + 2]
        return self._arrays[name][start:stop]

    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Samples of every recording, and tokens of every text, end tokens included."""
        return np.diff(self._arrays["samples.at"]), np.diff(self._arrays["ids.at"])

    def digest(self) -> str:
        """Tells whether two stores hold the same sounds and texts, whatever their files are called."""
        return blake2b(np.ascontiguousarray(self.hashes).tobytes(), digest_size=10).hexdigest()


def write_speech(
    folder: Path,
    items: Iterable[Recording | Bad],
    vocabulary: Vocabulary | None,
    sound: SoundSettings,
    *,
    name: str,
    max_seconds: float,
    max_length: int,
) -> None:
    """Read all recordings into `folder`, which must exist. One of them is in memory at a time.

    Without a vocabulary no targets are written: nothing is trained on it.
    """
    counted = SoundCounts()
    counts = counted.counts
    unknown = None if vocabulary is None else vocabulary.specials.unk
    kept = 0
    with ExitStack() as stack:
        files = {part: stack.enter_context((folder / part).open("wb")) for part in _KINDS}
        ends = dict.fromkeys(("samples", "ids", "texts", "segments"), 0)

        def add(part: str, values: Any, rows: int | None = None) -> None:
            array = np.asarray(values, _KINDS[part])
            files[part].write(array.tobytes())
            if part in ends:
                ends[part] += len(array) if rows is None else rows
                files[f"{part}.at"].write(np.int64(ends[part]).tobytes())

        for part in ends:
            files[f"{part}.at"].write(bytes(8))
        for recording, heard in counts.read.only_pairs(_audible(items)):
            ids = [] if vocabulary is None else target_ids(vocabulary, recording.text)
            samples = resample(heard.samples, heard.rate, sound.rate)
            counts.source.tokens += frame_count(len(samples), sound)
            counts.source.lengths[frame_count(len(samples), sound)] += 1
            counts.target.tokens += len(ids[:-1])
            counts.target.unknown += sum(index == unknown for index in ids)
            counts.target.lengths[len(ids)] += 1
            if heard.seconds > max_seconds or len(ids) > max_length:
                counts.overlong += 1
                counts.overlong_first += [recording.line] * (len(counts.overlong_first) < FIRST)
                continue
            counted.seconds += heard.seconds
            if is_clipped(heard.samples):
                counted.clipped += 1
                counted.clipped_first += [recording.line] * (len(counted.clipped_first) < FIRST)
            peak = float(np.abs(samples).max())
            whole = np.round(samples * (FULL / peak)).astype(np.int16)
            add("samples", whole)
            add("peaks", [peak])
            add("ids", ids)
            add("texts", np.frombuffer(recording.text.encode(), np.uint8))
            spans = character_spans(recording.text, recording.segments)
            gold = [(*span, one.start, one.end) for span, one in zip(spans, recording.segments, strict=True)]
            add("segments", gold, len(gold))
            add("hashes", [_hash(whole), text_hash(recording.text)])
            add("lines", [recording.line])
            kept += 1
        sizes = {part: file.tell() for part, file in files.items()}
    about = {"version": VERSION, "name": name, "recordings": kept, "sizes": sizes, "counted": counted.as_dict()}
    (folder / "store.json").write_text(json.dumps(about), encoding="utf-8")


def _audible(items: Iterable[Recording | Bad]) -> Iterable[tuple[Recording, Sound] | Bad]:
    """Each recording with its sound; those that have none become a `Bad` that says why."""
    for item in items:
        if isinstance(item, Bad):
            yield item
            continue
        try:
            sound = item.load()
        except SoundError as problem:
            yield Bad(item.file, item.line, "unreadable", f"{item.name} {problem}", excerpt(item.text))
            continue
        if is_silent(sound.samples):
            yield Bad(item.file, item.line, "empty", f"{item.name} is silent, but has a text", excerpt(item.text))
            continue
        yield item, sound


def target_ids(vocabulary: Vocabulary, text: str) -> list[int]:
    """What stands for a text, with the end token."""
    end = vocabulary.specials.end
    return [*vocabulary.encode_batch([text])[0], END if end is None else end]


def character_spans(text: str, segments: Iterable[Segment]) -> list[tuple[int, int]]:
    """The characters of each segment: they follow each other in the text, with nothing but spaces between."""
    spans, place = [], 0
    for segment in segments:
        start = text.index(segment.text, place)
        place = start + len(segment.text)
        spans.append((start, place))
    return spans


def _hash(samples: NDArray[np.int16]) -> int:
    return int.from_bytes(blake2b(samples.tobytes(), digest_size=8).digest(), "little")
