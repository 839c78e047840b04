"""Store of recordings: their sound at the model's rate.

Samples are stored rather than features. Joining and speed perturbation change the sound in every epoch, and the
features of a batch take little time compared with training on it. Samples are int16, each recording scaled to its
peak.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.corpora.tones import Segment
from regard.data.pairs import Bad, excerpt
from regard.data.store import Array
from regard.inputs.media_source import Entry
from regard.inputs.media_store import Loaded, MediaStore, write_media
from regard.inputs.sound.recording import Sound, SoundError, is_clipped, is_silent, read_sound
from regard.inputs.sound.resample import resample

FULL = 32767


class SoundStore(MediaStore):
    def gold(self, written: list[Any]) -> tuple[Segment, ...]:
        return tuple(Segment(*one) for one in written)

    def samples(self, number: int, start: int = 0, end: int | None = None) -> Float[np.ndarray, " N"]:
        """Read all of a recording, or only a part of it."""
        return self.row("values", number)[start:end].astype(np.float32) * (self["scale"][number] / FULL)


def write_sounds(folder: Path, items: Iterable[Entry | Bad], rate: int, *, name: str) -> None:
    """Read all recordings into `folder`, which must exist, one at a time in memory."""
    write_media(folder, name, (_loaded(item, rate) for item in items), Array("int16", ragged=True))


def _loaded(entry: Entry | Bad, rate: int) -> Loaded | Bad:
    """Return a recording with its samples, or a `Bad` with the reason if it has none."""
    if isinstance(entry, Bad):
        return entry
    try:
        sound = entry.place if isinstance(entry.place, Sound) else read_sound(entry.place)
    except SoundError as problem:
        reason = f"{entry.name} {problem}"
        return Bad(entry.file, entry.line, "unreadable", reason, excerpt(entry.texts[0]), len(entry.texts))
    if is_silent(sound.samples):
        reason = f"{entry.name} is silent, but has a text"
        return Bad(entry.file, entry.line, "empty", reason, excerpt(entry.texts[0]), len(entry.texts))
    samples = resample(sound.samples, sound.rate, rate)
    peak = float(np.abs(samples).max())
    notes = ("clipped: recorded too loud",) if is_clipped(sound.samples) else ()
    return Loaded(entry, np.round(samples * (FULL / peak)).astype(np.int16), notes, peak)
