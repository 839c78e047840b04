"""Small hand-made files in the formats of public data sets: the task, columns, roles and counts that are found.

A `Case` makes its data in a folder. `kinds` is what comes in and what comes out, `data` are the settings that are found
(paths relative to the folder of the case), and `count` is the number of examples. Cases do not depend on each other.
"""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zstandard

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


def compressed(name: str, text: str) -> Callable[[Path], Path]:
    packers = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard.compress}

    def make(folder: Path) -> Path:
        (folder / name).write_bytes(packers[Path(name).suffix](text.encode()))
        return folder / name

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


def _treebank(first: str) -> str:
    """Comments, a multiword token and an empty node, as Universal Dependencies have them."""
    rows = "1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_\n1\tvamos\tir\tVERB\tVB\tMood=Imp\t0\troot\t_\t_\n"
    rows += "2\tnos\tyo\tPRON\tPP\tCase=Acc\t1\tobj\t_\t_\n2.1\tx\tx\tX\t_\t_\t_\t_\t_\t_\n"
    return lines(30, lambda n: f"# sent_id = {n}\n# text = {first}\n{rows}3\tmar{n}\tmar\tNOUN\tNN\t_\t1\tobl\t_\t_\n")


def _sentences(*rows: str, before: str = "") -> str:
    """Thirty blocks of the same rows."""
    return before + "".join("".join(f"{row}\n" for row in (*rows, "")) for _ in range(30))


_WNUT = _sentences("@paul\tO", "Empire\tB-location", "State\tI-location", "#fun\tO")
_CSV = lines(60, lambda n: f"{review(n)},{('good', 'bad')[n % 2]}", "text,label")


def _labeled_lines() -> str:
    return lines(60, lambda n: json.dumps({"text": review(n), "label": ("good", "bad")[n % 2]}))


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
    Case(
        "Universal Dependencies: CoNLL-U",
        files("es_gsd-ud-train.conllu", _treebank("Vámonos al mar.")),
        ("text", "tags"), {"train": "es_gsd-ud-train.conllu", "format": "conll"}, 30,
    ),
    Case(
        "CoNLL-U under another name",
        files("treebank.txt", _treebank("# Vámonos.")),
        ("text", "tags"), {"train": "treebank.txt", "format": "conll"}, 30,
    ),
    Case(
        "CoNLL-2003: four columns and -DOCSTART-",
        files("eng.train", _sentences("EU NNP I-NP I-ORG", "rejects VBZ I-VP O", "# SYM I-NP O", ". . O O",
                                      before="-DOCSTART- -X- O O\n\n")),
        ("text", "tags"), {"train": "eng.train", "format": "conll"}, 30,
    ),
    Case(
        "CoNLL-2002: three columns",
        files("esp.train", _sentences("Melbourne NP B-LOC", "( Fpa O", "Australia NP B-LOC", ") Fpt O")),
        ("text", "tags"), {"train": "esp.train", "format": "conll"}, 30,
    ),
    Case(
        "CoNLL-2000: chunks",
        files("train.txt", _sentences("Confidence NN B-NP", "in IN B-PP", "the DT B-NP", "pound NN I-NP")),
        ("text", "tags"), {"train": "train.txt", "format": "conll"}, 30,
    ),
    Case(
        "WNUT17: token, tab, tag",
        files("emerging.test.annotated", _sentences("@paul\tO", "Empire\tB-location", "State\tI-location", "#fun\tO")),
        ("text", "tags"), {"train": "emerging.test.annotated", "format": "conll"}, 30,
    ),
    Case(
        "GermEval 2014: numbered words, comments, two columns of tags",
        files("NER-de-train.tsv", _sentences("#\thttp://n-tv.de [2009]", "1\tSchartau\tB-PER\tO", "2\tsagte\tO\tO",
                                             "3\tBerlin\tB-LOC\tO")),
        ("text", "tags"), {"train": "NER-de-train.tsv", "format": "conll"}, 30,
    ),
    Case(
        "MultiCoNER: comments with as many words as there are columns",
        files("en_train.conll", _sentences("# id 5f domain=en", "robert _ _ B-PER", "ott _ _ I-PER", "ran _ _ O")),
        ("text", "tags"), {"train": "en_train.conll", "format": "conll"}, 30,
    ),
    Case(
        "BIO without an ending",
        files("dev", _sentences("Bob B-PER", "sleeps O", ". O")),
        ("text", "tags"), {"train": "dev", "format": "conll"}, 30,
    ),
    Case(
        "CoNLL of biomedical corpora: tsv, compressed",
        compressed("train.tsv.xz", _sentences("BRCA1\tB", "gene\tI", "is\tO", "found\tO")),
        ("text", "tags"), {"train": "train.tsv.xz", "format": "conll"}, 30,
    ),
    Case(
        "a treebank: three parts, texts and a licence",
        files("en-ud-train.conllu", _treebank("A"), "en-ud-dev.conllu", _treebank("B"),
              "en-ud-test.conllu", _treebank("C"), "en-ud-train.txt", "A text.\n",
              "README.md", "About", "LICENSE.txt", "Free", give="."),
        ("text", "tags"),
        {"train": "en-ud-train.conllu", "valid": "en-ud-dev.conllu", "test": "en-ud-test.conllu", "format": "conll"},
        30,
    ),
    Case(
        "WNUT17: three parts with names of their own",
        files("wnut17train.conll", _WNUT, "emerging.dev.conll", _WNUT, "emerging.test.annotated", _WNUT, give="."),
        ("text", "tags"), {
            "train": "wnut17train.conll", "valid": "emerging.dev.conll", "test": "emerging.test.annotated",
            "format": "conll",
        }, 30,
    ),
    Case(
        "CoNLL-2002: esp.train, esp.testa, esp.testb",
        files("esp.train", _WNUT, "esp.testa", _WNUT, "esp.testb", _WNUT, give="."),
        ("text", "tags"), {"train": "esp.train", "valid": "esp.testa", "test": "esp.testb", "format": "conll"}, 30,
    ),
    Case(
        "the hub: JSON Lines in shards",
        files(*(part for n in range(3) for part in (f"train-0000{n}-of-00003.jsonl", _labeled_lines())),
              "test-00000-of-00001.jsonl", _labeled_lines(), give="."),
        ("text", "label"), {
            "train": "train-?????-of-00003.jsonl", "test": "test-00000-of-00001.jsonl", "text": "text",
            "label": "label",
        }, 180,
    ),
    Case(
        "Spark: a folder of numbered parts",
        files("_SUCCESS", "", *(part for n in range(12) for part in (f"part-{n:05d}-c00.csv", _CSV)), give="."),
        ("text", "label"), {"train": "part-?????-c00.csv", "text": "text", "label": "label"}, 720,
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
