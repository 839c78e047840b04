"""Source of the user's recordings (`media_source.py`). No torch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from regard.corpora.one_key import one_key
from regard.corpora.tones import Call, tones
from regard.errors import CallError, nearest
from regard.inputs.media_source import Entry, MediaSource
from regard.inputs.sound.recording import ENDINGS, Sound

CORPORA: dict[str, Callable[[str], Iterator[Call]]] = {"tones": tones, "one-key": one_key}


@dataclass(frozen=True)
class SoundSource(MediaSource):
    what: ClassVar[str] = "recording"

    @classmethod
    def is_one(cls, name: str) -> bool:
        return PurePosixPath(name).suffix.lower() in ENDINGS

    def corpus(self) -> Iterator[Entry]:
        name = self.where.removeprefix("corpus:")
        if name not in CORPORA:
            raise CallError(f"there is no corpus of recordings {name!r}{nearest(name, CORPORA)}")
        for row, call in enumerate(CORPORA[name](self.role)):
            sound = Sound(call.samples, call.rate)
            yield Entry(f"{self.where}#{row}", (call.text,), self.where, row + 1, call.segments, sound)
