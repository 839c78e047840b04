"""Dialled numbers as telephone tones: small speech recognition data with the true time of each key.

    key(t) = a sin(2π f_row t) + b sin(2π f_column t)       DTMF, ITU-T Q.23

             1209  1336  1477 Hz
       697     1     2     3
       770     4     5     6
       852     7     8     9
       941     *     0     #

Keys are held for 50 to 250 ms with 40 to 250 ms between them, at levels up to 20 dB apart, one of the two sounds up to
4 dB louder than the other, in white noise 3 to 30 dB below the keys. Equal neighbors have chance frequency (1 in 12),
so a model has to detect the pause between them.

Every call depends only on its split and number. Nothing is stored: a call takes less than a millisecond to generate.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from regard.errors import CallError, nearest, pip_install

RATE = 8000
ROWS, COLUMNS = (697.0, 770.0, 852.0, 941.0), (1209.0, 1336.0, 1477.0)
KEYS = ("123", "456", "789", "*0#")
FREQUENCIES = {
    key: (row, column) for row, keys in zip(ROWS, KEYS, strict=True) for key, column in zip(keys, COLUMNS, strict=True)
}
SIZES = {"train": 2400, "valid": 200, "test": 500}
SHORTEST, LONGEST = 3, 8  # keys of a call
EDGE = 0.004  # seconds in which a tone rises and falls


@dataclass(frozen=True)
class Segment:
    """A piece of a text, and its start and end in seconds."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class ToneCall:
    samples: Float[np.ndarray, " N"]
    text: str
    segments: tuple[Segment, ...]
    rate: int = RATE


def tones(split: str) -> Iterator[ToneCall]:
    """Yield the calls of train, valid or test."""
    if split not in SIZES:
        raise CallError(f"tones has no split {split!r}{nearest(split, SIZES)}")
    return (call(split, number) for number in range(SIZES[split]))


def call(split: str, number: int) -> ToneCall:
    chance = np.random.Generator(np.random.Philox(np.random.SeedSequence([list(SIZES).index(split), number])))
    keys = chance.choice(list(FREQUENCIES), size=chance.integers(SHORTEST, LONGEST + 1)).tolist()
    level = 10 ** (chance.uniform(-26, -6) / 20)
    place = round(chance.uniform(0.05, 0.4) * RATE)
    parts, segments = [np.zeros(place)], []
    for key in keys:
        heard = level * tone(key, chance)
        segments.append(Segment(key, place / RATE, (place + len(heard)) / RATE))
        pause = round(chance.uniform(0.04, 0.25) * RATE)
        parts += [heard, np.zeros(pause)]
        place += len(heard) + pause
    parts.append(np.zeros(round(chance.uniform(0.0, 0.3) * RATE)))
    sound = np.concatenate(parts)
    noise = level * 10 ** (-chance.uniform(3, 30) / 20)
    sound = sound + noise * chance.standard_normal(len(sound))
    return ToneCall(sound.clip(-1, 1).astype(np.float32), "".join(keys), tuple(segments))


def tone(key: str, chance: np.random.Generator) -> Float[np.ndarray, " N"]:
    time = np.arange(round(chance.uniform(0.05, 0.25) * RATE)) / RATE
    twist = 10 ** (chance.uniform(-4, 4) / 20)
    low, high = (np.sin(2 * np.pi * (frequency * time + chance.uniform())) for frequency in FREQUENCIES[key])
    edge = np.minimum(1.0, np.minimum(time, time[::-1]) / EDGE)
    return edge * (low + twist * high) / np.hypot(1.0, twist)


def write(folder: str | Path, split: str = "test", most: int = 10) -> list[Path]:
    """Write some calls as files, x.wav with x.txt beside it, to try a trained model on."""
    try:
        from soundfile import write as write_wav
    except ImportError:
        raise CallError(f"writing sound needs the package soundfile: {pip_install('regard[audio]')}") from None
    folder, files = Path(folder), []
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(min(most, SIZES[split])):
        made = call(split, number)
        files.append(folder / f"{split}-{number:03}.wav")
        write_wav(files[-1], made.samples, made.rate)
        files[-1].with_suffix(".txt").write_text(made.text + "\n", encoding="utf-8")
    return files


# Telephone keys for sound classification: one key per second of noise.
#
# Keys sound as in `tones`, for 50 to 250 ms, somewhere in 0.6 to 1.2 seconds of white noise, 20 dB below to 6 dB
# above the key. Nothing else depends on the key. Labels are the digits, "star" and "hash". Every recording depends
# only on its split and number, and includes the time of the key.

ONE_KEY_SIZES = {"train": 960, "valid": 120, "test": 240}
NAMES = {key: {"*": "star", "#": "hash"}.get(key, key) for key in FREQUENCIES}


def one_key(split: str) -> Iterator[ToneCall]:
    """Yield the recordings of train, valid or test."""
    if split not in ONE_KEY_SIZES:
        raise CallError(f"one-key has no split {split!r}{nearest(split, ONE_KEY_SIZES)}")
    return (press(split, number) for number in range(ONE_KEY_SIZES[split]))


def press(split: str, number: int) -> ToneCall:
    chance = np.random.Generator(
        np.random.Philox(np.random.SeedSequence([list(ONE_KEY_SIZES).index(split), number, 1]))
    )
    key = list(FREQUENCIES)[number % len(FREQUENCIES)]
    level, heard = 10 ** (chance.uniform(-26, -6) / 20), tone(key, chance)
    length = round(chance.uniform(0.6, 1.2) * RATE)
    place = int(chance.integers(0, length - len(heard)))
    sound = level * 10 ** (-chance.uniform(-6, 20) / 20) * chance.standard_normal(length)
    sound[place : place + len(heard)] += level * heard
    segment = Segment(NAMES[key], place / RATE, (place + len(heard)) / RATE)
    return ToneCall(sound.clip(-1, 1).astype(np.float32), segment.text, (segment,))


def write_one_key(folder: str | Path, split: str = "test", most: int = 24) -> list[Path]:
    """Write some recordings as files, in a sub-folder for each key, to try a trained model on."""
    try:
        from soundfile import write as write_wav
    except ImportError:
        raise CallError(f"writing sound needs the package soundfile: {pip_install('regard[audio]')}") from None
    files = []
    for number in range(min(most, ONE_KEY_SIZES[split])):
        made = press(split, number)
        files.append(Path(folder) / made.text / f"{split}-{number:03}.wav")
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        write_wav(files[-1], made.samples, made.rate)
    return files
