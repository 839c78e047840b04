"""Telephone keys for sound classification: one key per second of noise.

Keys sound as in `tones`, for 50 to 250 ms, somewhere in 0.6 to 1.2 seconds of white noise, 20 dB below to 6 dB above
the key. Nothing else depends on the key. Labels are the digits, "star" and "hash". Every recording depends only on its
split and number, and includes the time of the key.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from regard.corpora.tones import FREQUENCIES, RATE, Call, Segment, tone
from regard.errors import CallError, nearest, pip_install

SIZES = {"train": 960, "valid": 120, "test": 240}
NAMES = {key: {"*": "star", "#": "hash"}.get(key, key) for key in FREQUENCIES}


def one_key(split: str) -> Iterator[Call]:
    """Yield the recordings of train, valid or test."""
    if split not in SIZES:
        raise CallError(f"one-key has no split {split!r}{nearest(split, SIZES)}")
    return (press(split, number) for number in range(SIZES[split]))


def press(split: str, number: int) -> Call:
    chance = np.random.Generator(np.random.Philox(np.random.SeedSequence([list(SIZES).index(split), number, 1])))
    key = list(FREQUENCIES)[number % len(FREQUENCIES)]
    level, heard = 10 ** (chance.uniform(-26, -6) / 20), tone(key, chance)
    length = round(chance.uniform(0.6, 1.2) * RATE)
    place = int(chance.integers(0, length - len(heard)))
    sound = level * 10 ** (-chance.uniform(-6, 20) / 20) * chance.standard_normal(length)
    sound[place : place + len(heard)] += level * heard
    segment = Segment(NAMES[key], place / RATE, (place + len(heard)) / RATE)
    return Call(sound.clip(-1, 1).astype(np.float32), segment.text, (segment,))


def write(folder: str | Path, split: str = "test", most: int = 24) -> list[Path]:
    """Write some recordings as files, in a sub-folder for each key, to try a trained model on."""
    try:
        from soundfile import write as write_wav
    except ImportError:
        raise CallError(f"writing sound needs the package soundfile: {pip_install('regard[audio]')}") from None
    files = []
    for number in range(min(most, SIZES[split])):
        made = press(split, number)
        files.append(Path(folder) / made.text / f"{split}-{number:03}.wav")
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        write_wav(files[-1], made.samples, made.rate)
    return files
