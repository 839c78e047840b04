"""Small data sets as users have them, made by rules and a seed: none of them is like what recipes were tuned on.

    python benchmarks/made_data.py japanese FOLDER

    japanese   Japanese → English: a script without spaces, another order of words (train.tsv, test.tsv; no header)
    badges     pictures of 48×20 pixels in colors, in folders of six classes: which two shapes, and in which order
    meters     a table without header and without times: three numbers a line, to be forecast
    calls      recordings at 22,050 Hz in folders of eight classes: how the pitch moves, whatever the pitch is
    numbers    recordings of three to six "spoken" digits at 16 kHz, each with its text beside it, by twelve voices
    shops      240 short series of 84 days, by name and date, to be forecast

Each maker writes into a folder and gives the training data and the test data; None where the table is divided by time.
"""

import argparse
import csv
import math
import wave
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

Made = tuple[Path, Path | None]

# ------------------------------------------------------------------------------------------------------------ japanese
ANIMALS = {
    "猫": "cat",
    "犬": "dog",
    "鳥": "bird",
    "馬": "horse",
    "牛": "cow",
    "羊": "sheep",
    "狐": "fox",
    "猿": "monkey",
}
PEOPLE = {"先生": "teacher", "学生": "student", "医者": "doctor", "子供": "child", "友達": "friend", "隣人": "neighbor"}
KINDS = {
    "小さい": "small",
    "大きい": "big",
    "古い": "old",
    "若い": "young",
    "白い": "white",
    "黒い": "black",
    "静かな": "quiet",
}
THINGS = {
    "本": "book",
    "魚": "fish",
    "手紙": "letter",
    "林檎": "apple",
    "写真": "picture",
    "傘": "umbrella",
    "地図": "map",
}
PLACES = {"駅": "station", "公園": "park", "学校": "school", "海": "sea", "図書館": "library", "市場": "market"}
TIMES = {"昨日": "yesterday", "今朝": "this morning", "先週": "last week", "日曜日に": "on Sunday"}
ACTS = {
    "見ました": "saw",
    "買いました": "bought",
    "探しました": "looked for",
    "忘れました": "forgot",
    "見つけました": "found",
}
MOVES = {"行きました": "went to", "走りました": "ran to", "帰りました": "returned to"}
NUMBERS = {"二": "two", "三": "three", "四": "four", "五": "five"}


def _one(rng: np.random.Generator, words: dict[str, str]) -> tuple[str, str]:
    return list(words.items())[int(rng.integers(len(words)))]


def _who(rng: np.random.Generator) -> tuple[str, str]:
    animal = rng.random() < 0.5
    one, other = _one(rng, ANIMALS if animal else PEOPLE)
    if rng.random() < 0.3:
        count, many = _one(rng, NUMBERS)
        plural = {"child": "children", "sheep": "sheep", "fox": "foxes"}.get(other, other + "s")
        one, other = f"{count}{'匹' if animal else '人'}の{one}", f"{many} {plural}"
    else:
        other = f"the {other}"
    if rng.random() < 0.5:
        kind, word = _one(rng, KINDS)
        head, _, tail = other.partition(" ")
        one, other = kind + one, f"{head} {word} {tail}"
    return one, other


def _sentence(rng: np.random.Generator) -> tuple[str, str]:
    """A subject, at times a time, a friend or a place, and a verb that stands last in Japanese, second in English."""
    who, subject = _who(rng)
    when, time = _one(rng, TIMES) if rng.random() < 0.4 else ("", "")
    friend, beside = _who(rng) if rng.random() < 0.25 else ("", "")
    if rng.random() < 0.6:
        what, thing = _one(rng, THINGS)
        act, verb = _one(rng, ACTS)
        place, where = _one(rng, PLACES) if rng.random() < 0.5 else ("", "")
        end, said = f"{what}を{act}", f"{verb} the {thing}" + (f" at the {where}" if where else "")
        end = f"{place}で{end}" if place else end
    else:
        place, where = _one(rng, PLACES)
        move, verb = _one(rng, MOVES)
        end, said = f"{place}へ{move}", f"{verb} the {where}"
    japanese = f"{when}{who}は{friend + 'と' if friend else ''}{end}。"
    english = f"{subject} {said}{' with ' + beside if beside else ''}{' ' + time if time else ''}."
    return japanese, english[0].upper() + english[1:]


def japanese(folder: Path) -> Made:
    rng, pairs = np.random.default_rng(1), {}
    while len(pairs) < 4500:
        source, target = _sentence(rng)
        pairs[source] = target
    rows = [f"{source}\t{target}\n" for source, target in pairs.items()]
    for name, part in (("train.tsv", rows[:4000]), ("test.tsv", rows[4000:])):
        (folder / name).write_text("".join(part), encoding="utf-8")
    return folder / "train.tsv", folder / "test.tsv"


# -------------------------------------------------------------------------------------------------------------- badges
SHAPES = ("circle", "triangle", "cross")


def _draw(pen: ImageDraw.ImageDraw, shape: str, x: float, y: float, size: float, color: tuple[int, ...]) -> None:
    box = (x - size, y - size, x + size, y + size)
    if shape == "circle":
        pen.ellipse(box, fill=color)
    elif shape == "triangle":
        pen.polygon([(x, y - size), (x - size, y + size), (x + size, y + size)], fill=color)
    else:
        pen.line((x - size, y, x + size, y), fill=color, width=3)
        pen.line((x, y - size, x, y + size), fill=color, width=3)


def _badge(rng: np.random.Generator, shapes: tuple[str, str]) -> Image.Image:
    ground = rng.integers(0, 256, 3)
    picture = Image.new("RGB", (48, 20), tuple(map(int, ground)))
    pen = ImageDraw.Draw(picture)
    for shape, middle in zip(shapes, (13, 34), strict=True):
        color = (ground + rng.integers(50, 206, 3)) % 256  # never that of the ground
        x, y = middle + rng.uniform(-5, 5), 10 + rng.uniform(-3, 3)
        _draw(pen, shape, x, y, rng.uniform(4, 6.5), tuple(map(int, color)))
    noisy = np.asarray(picture, float) + rng.normal(0, 12, (20, 48, 3))
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def badges(folder: Path) -> Made:
    rng = np.random.default_rng(2)
    for part, count in (("train", 300), ("test", 100)):
        for left in SHAPES:
            for right in (shape for shape in SHAPES if shape != left):
                place = folder / part / f"{left}-{right}"
                place.mkdir(parents=True)
                for number in range(count):
                    _badge(rng, (left, right)).save(place / f"{number:03d}.png")
    return folder / "train", folder / "test"


# -------------------------------------------------------------------------------------------------------------- meters
def meters(folder: Path) -> Made:
    """Three meters that swing by day and week, each with a noise that lasts; the third follows the first."""
    rng, steps = np.random.default_rng(3), 6000
    hours = np.arange(steps)
    noise = np.zeros((steps, 3))
    for step in range(1, steps):
        noise[step] = 0.9 * noise[step - 1] + rng.normal(0, 0.4, 3)
    day, week = np.sin(2 * np.pi * hours / 24), np.sin(2 * np.pi * hours / 168)
    first = 20 + 6 * day + 3 * week + noise[:, 0]
    second = 50 + 8 * np.abs(np.sin(np.pi * (hours - 5) / 24)) * (1 + 0.3 * week) + 2 * noise[:, 1]
    third = 5 + 0.5 * np.roll(first, 6) + noise[:, 2]
    lines = [";".join(f"{value:.3f}" for value in row) for row in zip(first, second, third, strict=True)]
    (folder / "meters.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "meters.csv", None


# --------------------------------------------------------------------------------------------------------------- calls
RATE = 22_050


def _pitch(name: str, share: np.ndarray, seconds: float) -> np.ndarray:
    """How far above or below its middle the pitch is, in octaves, over the share of the call that has passed."""
    turns = 2 * np.pi * seconds * share
    return {
        "level": np.zeros_like(share),
        "rising": share - 0.5,
        "falling": 0.5 - share,
        "hill": 1 - np.abs(2 * share - 1) - 0.5,
        "valley": np.abs(2 * share - 1) - 0.5,
        "trill": 0.25 * np.sign(np.sin(11 * turns)),
        "siren": 0.35 * np.sin(5 * turns),
        "steps": np.floor(3 * share) / 2 - 0.5,
    }[name]


CALLS = ("level", "rising", "falling", "hill", "valley", "trill", "siren", "steps")


def _call(rng: np.random.Generator, name: str) -> np.ndarray:
    seconds = rng.uniform(0.4, 0.9)
    share = np.linspace(0, 1, int(seconds * RATE))
    hertz = math.exp(rng.uniform(math.log(500), math.log(2500))) * 2.0 ** _pitch(name, share, seconds)
    phase = 2 * np.pi * np.cumsum(hertz) / RATE
    sound = (np.sin(phase) + rng.uniform(0, 0.5) * np.sin(2 * phase)) * np.sin(np.pi * share) ** 0.5
    silence = [np.zeros(int(rng.uniform(0.02, 0.3) * RATE)) for _ in range(2)]
    whole = np.concatenate([silence[0], sound, silence[1]])
    return whole + rng.normal(0, rng.uniform(0.1, 0.6), len(whole))


def _write_sound(path: Path, sound: np.ndarray, rate: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(np.clip(sound * 6000, -32767, 32767).astype("<i2").tobytes())


def calls(folder: Path) -> Made:
    rng = np.random.default_rng(4)
    for part, count in (("train", 70), ("test", 40)):
        for name in CALLS:
            place = folder / part / name
            place.mkdir(parents=True)
            for number in range(count):
                _write_sound(place / f"{number:03d}.wav", _call(rng, name), RATE)
    return folder / "train", folder / "test"


# ------------------------------------------------------------------------------------------------------------- numbers
#: The first two formants of vowels (Peterson and Barney 1952), in Hz; consonants are noise around a frequency.
VOWELS = {
    "i": (270, 2290), "I": (390, 1990), "e": (530, 1840), "a": (730, 1090), "o": (570, 840), "u": (300, 870),
    "r": (490, 1350), "n": (280, 1700), "w": (300, 610), "v": (250, 1200),
}  # fmt: skip
HISSES = {"s": 6000, "f": 4500, "t": 3500, "k": 2200, "z": 5200, "x": 3000}
DIGITS = {
    "zero": "zIro", "one": "wan", "two": "tu", "three": "fri", "four": "for", "five": "faIv", "six": "sIks",
    "seven": "sevn", "eight": "eIt", "nine": "naIn",
}  # fmt: skip


def _phone(rng: np.random.Generator, phone: str, pitch: float, tract: float, rate: int) -> np.ndarray:
    """A buzz at the voice's pitch, loud around its formants; or a hiss."""
    count = int(rate * rng.uniform(0.06, 0.12))
    time, hertz = np.arange(count) / rate, np.arange(1, 40)
    if phone in HISSES:
        hiss = np.fft.rfft(rng.normal(0, 1, count))
        around = np.exp(-((np.fft.rfftfreq(count, 1 / rate) / tract - HISSES[phone]) ** 2) / (2 * 900**2))
        sound = np.fft.irfft(hiss * around, count)
    else:
        tones = hertz * pitch * rng.uniform(0.95, 1.05)
        near = tones[:, None] / tract - np.array(VOWELS[phone])
        loud = np.exp(-(near**2) / (2 * 110**2)).sum(1)
        sound = (loud[:, None] * np.sin(2 * np.pi * tones[:, None] * time)).sum(0)
    return sound / np.abs(sound).max() * np.sin(np.pi * np.linspace(0, 1, count)) ** 0.3


def numbers(folder: Path) -> Made:
    rng, rate = np.random.default_rng(6), 16_000
    voices = [(rng.uniform(90, 230), rng.uniform(0.9, 1.15)) for _ in range(12)]
    for part, count in (("train", 400), ("test", 100)):
        (folder / part).mkdir()
        for number in range(count):
            pitch, tract = voices[number % len(voices)]
            said = [str(word) for word in rng.choice([*DIGITS], rng.integers(3, 7))]
            pieces = [np.zeros(int(0.1 * rate))]
            for word in said:
                pieces += [_phone(rng, phone, pitch, tract, rate) for phone in DIGITS[word]]
                pieces.append(np.zeros(int(rng.uniform(0.03, 0.2) * rate)))
            whole = np.concatenate(pieces)
            _write_sound(folder / part / f"{number:03d}.wav", whole + rng.normal(0, 0.02, len(whole)), rate)
            (folder / part / f"{number:03d}.txt").write_text(" ".join(said) + "\n", encoding="utf-8")
    return folder / "train", folder / "test"


# --------------------------------------------------------------------------------------------------------------- shops
def _sales(rng: np.random.Generator, days: int) -> Iterator[float]:
    level, trend, week = rng.uniform(20, 200), rng.normal(0, 0.003), rng.normal(0, 0.25, 7)
    rest = 0.0
    for day in range(days):
        rest = 0.7 * rest + rng.normal(0, 0.05)
        yield level * math.exp(trend * day + week[day % 7] + rest)


def shops(folder: Path) -> Made:
    rng, days = np.random.default_rng(5), 84
    with (folder / "shops.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("shop", "date", "sold"))
        for shop in range(240):
            first = date(2024, 1, 1) + timedelta(int(rng.integers(200)))
            for day, sold in enumerate(_sales(rng, days)):
                table.writerow((f"S{shop:03d}", first + timedelta(day), f"{sold:.1f}"))
    return folder / "shops.csv", None


MADE: dict[str, Callable[[Path], Made]] = {
    maker.__name__: maker for maker in (japanese, badges, meters, calls, numbers, shops)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", choices=MADE)
    parser.add_argument("folder", type=Path, help="a new folder")
    args = parser.parse_args()
    args.folder.mkdir(parents=True)
    print(*MADE[args.name](args.folder), sep="\n")


if __name__ == "__main__":
    main()
