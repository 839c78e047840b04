"""Small hand-made files in the formats of public data sets: the task, columns, roles and counts that are found.

A `Case` makes its data in a folder. `kinds` is what comes in and what comes out, `data` are the settings that are found
(paths relative to the folder of the case), and `count` is the number of examples. Cases do not depend on each other.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from regard.auto.detect import detect
from regard.auto.detected import Detected
from regard.auto.given import as_path
from regard.auto.reshaped import reshaped
from regard.auto.rewritten import rewritten
from regard.auto.told import Told


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[Path], Any]  # a folder → the data that a user gives: a path, or an object of Python
    kinds: tuple[str, str]
    data: dict[str, Any]
    count: int


def files(*named: str, give: str = "") -> Callable[[Path], Path]:
    """Write files: a name, its text, a name, its text, … The first one is given, or `give` ("." is the folder)."""

    def make(folder: Path) -> Path:
        for name, text in zip(named[::2], named[1::2], strict=True):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        return folder / (give or named[0])

    return make


def lines(count: int, of: Callable[[int], str], first: str = "") -> str:
    """`count` lines, below a first line if there is one."""
    return "".join(f"{line}\n" for line in (*([first] if first else []), *map(of, range(count))))


def review(n: int) -> str:
    return f"I {('liked', 'hated')[n % 2]} the film that I saw on day {n}."


def _ag_news(n: int) -> str:
    return f'"{1 + n % 4}","Stocks rise on day {n}","Shares of company {n} rose, said ""a source"" in report {n}."'


def _squad(n: int, *, possible: bool = True) -> dict[str, Any]:
    answers = [{"text": f"Bob{n}", "answer_start": 0}] if possible else []
    asked = {"question": f"Who has {n} apples?", "id": str(n), "answers": answers, "is_impossible": not possible}
    return {"title": str(n), "paragraphs": [{"context": f"Bob{n} has {n} apples.", "qas": [asked]}]}


FILES: list[Case] = [
    Case(
        "AG News: csv without a header, all cells quoted",
        files("train.csv", lines(60, _ag_news)),
        ("text", "label"), {"train": "train.csv", "header": False, "text": 2, "label": 0}, 60,
    ),
    Case(
        "SST-2 of GLUE: tsv with a header",
        files("train.tsv", lines(60, lambda n: f"{review(n)}\t{n % 2}", "sentence\tlabel")),
        ("text", "label"), {"train": "train.tsv", "text": "sentence", "label": "label"}, 60,
    ),
    Case(
        "SQuAD 1.1",
        files("train-v1.1.json", json.dumps({"version": "1.1", "data": [_squad(n) for n in range(40)]})),
        ("question", "span"), {"train": "train-v1.1.json"}, 40,
    ),
    Case(
        "SQuAD 2.0",
        files("train-v2.0.json", json.dumps({"data": [_squad(n, possible=n % 4 > 0) for n in range(40)]})),
        ("question", "span"), {"train": "train-v2.0.json", "no_answer": True}, 40,
    ),
]  # fmt: skip

FOLDERS_AND_FRAMES: list[Case] = []


def _detected(given: Any, folder: Path) -> Detected:
    """As `regard train DATA` does it: copies in the usual form first, where the data needs one."""
    place = rewritten(as_path(given, folder / "data"), folder / "utf8", lambda _: None)
    return detect(reshaped(place, Told(), folder / "reshaped", lambda _: None))


@pytest.mark.parametrize("case", [*FILES, *FOLDERS_AND_FRAMES], ids=lambda case: case.name)
def test_public_formats_are_known_and_their_columns_roles_and_counts_are_right(case: Case, tmp_path: Path) -> None:
    found = _detected(case.make(tmp_path), tmp_path)
    data = {
        key: value.replace(f"{tmp_path}/", "") if isinstance(value, str) else value for key, value in found.data.items()
    }
    assert (found.kinds, data, found.count) == (case.kinds, case.data, case.count)
