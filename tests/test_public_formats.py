"""Small hand-made files in the formats of public data sets: the task, columns, roles and counts that are found.

A `ExplainTarget` makes its data in a folder. `kinds` is what comes in and what comes out, `data` are the settings
that are found
(paths relative to the folder of the case), and `count` is the number of examples. Cases do not depend on each other.
"""

import bz2
import gzip
import json
import lzma
import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zstandard
from PIL import Image

from regard import api
from regard.detect.detect import detect
from regard.detect.detected import Detected, Hints
from regard.detect.given import materialize
from regard.detect.reshaped import wide_to_long
from regard.detect.rewritten import normalize_encoding
from regard.errors import RegardError


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[Path], Any]  # a folder → the data that a user gives: a path, or an object of Python
    kinds: tuple[str, str]
    data: dict[str, Any]
    count: int


def files(*named: str, give: str = "", encoding: str = "utf-8") -> Callable[[Path], Path]:
    """Write files: a name, its text, a name, its text, … The first one is given, or `give` ("." is the folder)."""

    def make(folder: Path) -> Path:
        for name, text in zip(named[::2], named[1::2], strict=True):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding=encoding)
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
        "Jigsaw: a column of 0 and 1 for each label",
        files("train.csv", lines(60, lambda n: f'{n:06x},"{review(n)}",{n % 2},0,{n % 3 // 2}',
                                 "id,comment_text,toxic,threat,insult")),
        ("text", "label"),
        {"train": "train.csv", "text": "comment_text", "label": "toxic+insult", "separator": "|"}, 60,
    ),
    Case(
        "Kaggle: genres of films between bars",
        files("movies.csv", lines(60, lambda n: f'{n},"{review(n)}",{("Drama|Crime", "Crime", "Comedy|Drama")[n % 3]}',
                                  "id,plot,genres")),
        ("text", "label"), {"train": "movies.csv", "text": "plot", "label": "genres", "separator": "|"}, 60,
    ),
    Case(
        "Stack Overflow: tags as a list of Python",
        files("posts.csv", lines(60, lambda n: f"\"{review(n)}\",\"{['c', 'sql'][: 1 + n % 2]}\"", "title,tags")),
        ("text", "label"), {"train": "posts.csv", "text": "title", "label": "tags", "separator": "|"}, 60,
    ),
    Case(
        "CLINC: an intent of each text, thousands of them, in a larger table than is looked at",
        files("train.csv", lines(9000, lambda n: f"{review(n)},intent {n % 4000}", "text,intent")),
        ("text", "label"), {"train": "train.csv", "text": "text", "label": "intent"}, 9000,
    ),
    Case(
        "a table with rows that have no label",
        files("train.csv", lines(60, lambda n: f"{review(n)},{('good', 'bad', '', 'nan')[n % 4]}", "text,label")),
        ("text", "label"), {"train": "train.csv", "text": "text", "label": "label"}, 30,
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


def media(*named: str, count: int = 24, text: tuple[str, ...] = (), give: str = "data") -> Callable[[Path], Path]:
    """Write `count` pictures or recordings for each pattern such as data/train/{n:03}.png, and a list of them."""

    def make(folder: Path) -> Path:
        for name in named:
            for n in range(count):
                _media_file(folder / name.format(n=n))
        if text:
            files(*text)(folder)
        return folder / give

    return make


def _media_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".png", ".jpg"):
        Image.new("RGB", (9, 8), (90, 10 * len(path.name), 9)).save(path)
        return
    rate = 8000
    with wave.open(str(path.with_suffix(".wav")), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(bytes(rate // 2))


def frame(change: Callable[[Any], Any], **columns: list[Any]) -> Callable[[Path], Any]:
    """A DataFrame of pandas; reviews, if no columns are given."""

    def make(folder: Path) -> Any:
        pandas = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
        said = {"id": [*range(60)], "review": [*map(review, range(60))], "stars": ["good", "bad"] * 30}
        return change(pandas.DataFrame(columns or said))

    return make


def _said(n: int) -> str:
    return f"this is what number {n} says , and more ."


def _vqa(part: str) -> tuple[str, str, str, str]:
    asked = [{"image_id": n // 2, "question": f"What is in picture {n}?", "question_id": n} for n in range(48)]
    said = [
        {"image_id": n // 2, "question_id": n, "multiple_choice_answer": ("cat", f"dog {n}")[n % 2]} for n in range(48)
    ]
    return (
        f"data/v2_OpenEnded_mscoco_{part}_questions.json", json.dumps({"info": {}, "questions": asked}),
        f"data/v2_mscoco_{part}_annotations.json", json.dumps({"info": {}, "annotations": said}),
    )  # fmt: skip


_SPLIT_TAGS = (
    "data/emerging.dev.conll",
    _sentences("Bob\tB-person", "ran\tO"),
    "data/emerging.test.annotated",
    _sentences("Ann\tB-person", "ran\tO"),
    "data/wnut17train.conll",
    _sentences("Eve\tB-person", "ran\tO"),
)
_CONLL_2003 = _sentences("U.N. NNP I-NP I-ORG", "official NN I-NP O", "here RB I-ADVP O")
_FLICKR = lines(48, lambda n: f'{n // 2}.jpg,"{_said(n)}"', "image,caption")
_FLICKR_30K = lines(48, lambda n: f"{n // 2}.jpg| {n % 2}| {_said(n)}", "image_name| comment_number| comment")
_COMMON_VOICE = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccents\tlocale"
_ESC = "filename,fold,target,category,esc10,src_file,take"


def saved(*parts: str, shards: int = 1) -> Callable[[Path], Path]:
    """A data set as `datasets.Dataset.save_to_disk` writes it; with `parts`, as `DatasetDict` does."""

    def make(folder: Path) -> Path:
        for part in parts or [""]:
            place = folder / "data" / part
            place.mkdir(parents=True)
            names = [f"data-{n:05d}-of-{shards:05d}.arrow" for n in range(shards)]
            for name in names:
                _arrow(place / name)
            (place / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
            (place / "dataset_info.json").write_text(json.dumps(_FEATURES))
            _arrow(place / "cache-0123456789abcdef.arrow")  # of a map, and no part of the data
        if parts:
            (folder / "data" / "dataset_dict.json").write_text(json.dumps({"splits": [*parts]}))
        return folder / "data"

    return make


_FEATURES = {
    "features": {
        "text": {"dtype": "string", "_type": "Value"},
        "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
    }
}


def _arrow(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'regard[parquet]'")
    table = pyarrow.table({"text": [*map(review, range(40))], "label": [n % 2 for n in range(40)]})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": _FEATURES})})
    with pyarrow.ipc.new_stream(str(path), table.schema) as out:
        out.write_table(table)


FOLDERS_AND_FRAMES: list[Case] = [
    Case(
        "datasets: Dataset.save_to_disk",
        saved(),
        ("text", "label"),
        {"train": "data/data-00000-of-00001.arrow", "text": "text", "label": "label"},
        40,
    ),
    Case(
        "datasets: DatasetDict.save_to_disk, in shards",
        saved("train", "test", shards=2),
        ("text", "label"),
        {
            "train": "data/train/data-?????-of-00002.arrow",
            "test": "data/test/data-?????-of-00002.arrow",
            "text": "text",
            "label": "label",
        },
        80,
    ),
    Case(
        "WNUT 2017: train, dev and test inside longer names, with three endings",
        files(*_SPLIT_TAGS, give="data"),
        ("text", "tags"),
        {
            "train": "data/wnut17train.conll",
            "valid": "data/emerging.dev.conll",
            "test": "data/emerging.test.annotated",
            "format": "conll",
        },
        30,
    ),
    Case(
        "CoNLL-2003: eng.train, eng.testa, eng.testb",
        files("data/eng.train", _CONLL_2003, "data/eng.testa", _CONLL_2003, "data/eng.testb", _CONLL_2003, give="data"),
        ("text", "tags"),
        {"train": "data/eng.train", "valid": "data/eng.testa", "test": "data/eng.testb", "format": "conll"},
        30,
    ),
    Case(
        "SQuAD: train and dev in one folder",
        files(
            "data/train-v1.1.json",
            json.dumps({"data": [_squad(n) for n in range(40)]}),
            "data/dev-v1.1.json",
            json.dumps({"data": [_squad(n) for n in range(10)]}),
            give="data",
        ),
        ("question", "span"),
        {"train": "data/train-v1.1.json", "valid": "data/dev-v1.1.json"},
        40,
    ),
    Case(
        "Multi30k: parallel files, two test parts",
        files(
            *(
                one
                for part in ("train", "val", "test_2016_flickr", "test_2017_flickr")
                for side in ("de", "en")
                for one in (f"data/{part}.{side}", lines(30, lambda n, side=side: f"{side} {n} ist da ."))
            ),
            give="data",
        ),
        ("text", "text"),
        {
            "train": "data/train.de,data/train.en",
            "valid": "data/val.de,data/val.en",
            "test": "data/test_2016_flickr.de,data/test_2016_flickr.en",
        },
        30,
    ),
    Case(
        "OPUS: Moses files with a list of ids",
        files(
            "data/Books.de-en.de",
            lines(30, lambda n: f"Das ist {n}."),
            "data/Books.de-en.en",
            lines(30, lambda n: f"This is {n}."),
            "data/Books.de-en.ids",
            lines(30, str),
            give="data",
        ),
        ("text", "text"),
        {"train": "data/Books.de-en.de,data/Books.de-en.en"},
        30,
    ),
    Case(
        "OpenNMT: src-train.txt, tgt-train.txt",
        files(
            *(
                one
                for part in ("train", "val")
                for side in ("src", "tgt")
                for one in (f"data/{side}-{part}.txt", lines(30, lambda n: f"line {n} ."))
            ),
            give="data",
        ),
        ("text", "text"),
        {"train": "data/src-train.txt,data/tgt-train.txt", "valid": "data/src-val.txt,data/tgt-val.txt"},
        30,
    ),
    Case(
        "two parallel files as a list",
        lambda folder: [files("a.en", lines(30, str))(folder), files("a.fr", lines(30, lambda n: f"{n} !"))(folder)],
        ("text", "text"),
        {"train": "a.en,a.fr"},
        30,
    ),
    Case(
        "Kaggle: train.csv, test.csv without labels, sample_submission.csv",
        files(
            "data/train.csv",
            lines(60, lambda n: f"{n},{review(n)},{n % 2}", "id,text,target"),
            "data/test.csv",
            lines(20, lambda n: f"{n},{review(n)}", "id,text"),
            "data/sample_submission.csv",
            lines(20, lambda n: f"{n},0", "id,target"),
            give="data",
        ),
        ("text", "label"),
        {"train": "data/train.csv", "text": "text", "label": "target"},
        60,
    ),
    Case(
        "MultiNLI: tsv with two dev parts",
        files(
            *(
                one
                for part in ("train", "dev_matched", "dev_mismatched")
                for one in (
                    f"data/{part}.tsv",
                    lines(
                        60,
                        lambda n: f"{n}\tA man eats {n}.\tHe sleeps {n}.\t{('entailment', 'neutral')[n % 2]}",
                        "index\tsentence1\tsentence2\tgold_label",
                    ),
                )
            ),
            give="data",
        ),
        ("texts", "label"),
        {
            "train": "data/train.tsv",
            "valid": "data/dev_matched.tsv",
            "kind": "texts",
            "first": "sentence1",
            "second": "sentence2",
            "label": "gold_label",
        },
        60,
    ),
    Case(
        "IMDb: train and test of sub-folders of texts",
        files(
            *(
                one
                for part in ("train", "test")
                for n in range(20)
                for one in (f"data/{part}/{('neg', 'pos')[n % 2]}/{n}_7.txt", review(n))
            ),
            "data/README",
            "about",
            give="data",
        ),
        ("text", "label"),
        {"train": "data/train", "test": "data/test"},
        20,
    ),
    Case(
        "ImageFolder: train and val",
        media(
            "data/train/cat/{n}.jpg", "data/train/dog/{n}.jpg", "data/val/cat/{n}.jpg", "data/val/dog/{n}.jpg", count=6
        ),
        ("image", "label"),
        {"kind": "image", "train": "data/train", "valid": "data/val"},
        12,
    ),
    Case(
        "Kaggle: pictures and train_labels.csv with their names",
        media(
            "data/train/{n}.jpg",
            "data/test/{n}.jpg",
            text=("data/train_labels.csv", lines(24, lambda n: f"{n},{('cat', 'dog')[n % 2]}", "id,breed")),
        ),
        ("image", "label"),
        {"kind": "image", "train": "data/train_labels.csv", "image": "id", "label": "breed", "files": "data/train"},
        24,
    ),
    Case(
        "COCO captions",
        media(
            "data/train2017/{n:012}.jpg",
            "data/val2017/{n:012}.jpg",
            text=(
                "data/annotations/captions_train2017.json",
                json.dumps(
                    {
                        "images": [{"id": n, "file_name": f"{n:012}.jpg"} for n in range(24)],
                        "annotations": [{"image_id": n // 2, "id": n, "caption": _said(n)} for n in range(48)],
                    }
                ),
                "data/annotations/instances_train2017.json",
                json.dumps(
                    {
                        "images": [{"id": n, "file_name": f"{n:012}.jpg"} for n in range(24)],
                        "annotations": [{"image_id": n, "bbox": [1, 2, 3, 4], "category_id": 1} for n in range(24)],
                    }
                ),
            ),
        ),
        ("image", "text"),
        {
            "train": "data/annotations/captions_train2017.json",
            "image": "image",
            "caption": "caption",
            "files": "data/train2017",
        },
        48,
    ),
    Case(
        "Flickr8k: Images and captions.txt",
        media("data/Images/{n}.jpg", text=("data/captions.txt", _FLICKR)),
        ("image", "text"),
        {"train": "data/captions.txt", "format": "csv", "image": "image", "caption": "caption", "files": "data/Images"},
        48,
    ),
    Case(
        "Flickr30k: results.csv with bars",
        media("data/flickr30k_images/{n}.jpg", text=("data/results.csv", _FLICKR_30K)),
        ("image", "text"),
        {"train": "data/results.csv", "image": "image_name", "caption": "comment", "files": "data/flickr30k_images"},
        48,
    ),
    Case(
        "VQA v2: questions and annotations",
        media("data/train2014/COCO_train2014_{n:012}.jpg", text=_vqa("train2014")),
        ("image+text", "text"),
        {"train": "reshaped/train.jsonl", "image": "image", "question": "question", "answer": "answer"},
        48,
    ),
    Case(
        "LJ Speech: metadata.csv with bars and no header",
        media(
            "data/wavs/LJ001-{n:04}.wav",
            text=("data/metadata.csv", lines(24, lambda n: f"LJ001-{n:04}|{_said(n)}|{_said(n)}")),
        ),
        ("sound", "text"),
        {"train": "data/metadata.csv", "header": False, "path": 0, "text": 1, "files": "data/wavs"},
        24,
    ),
    Case(
        "Common Voice: train.tsv, dev.tsv and clips",
        media(
            "data/clips/cv_{n}.wav",
            text=tuple(
                one
                for part in ("train", "dev", "validated", "other")
                for one in (
                    f"data/{part}.tsv",
                    lines(24, lambda n: f"c{n % 5}\tcv_{n}.wav\t{_said(n)}\t2\t0\t\t\t\ten", _COMMON_VOICE),
                )
            ),
        ),
        ("sound", "text"),
        {"train": "data/train.tsv", "valid": "data/dev.tsv", "path": "path", "text": "sentence", "files": "data/clips"},
        24,
    ),
    Case(
        "LibriSpeech: transcripts beside the recordings",
        media(
            "data/84/121123/84-121123-{n:04}.wav",
            text=("data/84/121123/84-121123.trans.txt", lines(24, lambda n: f"84-121123-{n:04} {_said(n).upper()}")),
        ),
        ("sound", "text"),
        {"train": "data"},
        24,
    ),
    Case(
        "Speech Commands: a folder for each word, and lists of the other parts",
        media(
            "data/yes/{n:08x}_nohash_0.wav",
            "data/no/{n:08x}_nohash_0.wav",
            "data/up/{n:08x}_nohash_0.wav",
            count=8,
            text=(
                "data/validation_list.txt",
                "yes/00000000_nohash_0.wav\n",
                "data/testing_list.txt",
                "no/00000001_nohash_0.wav\n",
                "data/README.md",
                "# Speech Commands\n",
            ),
        ),
        ("sound", "label"),
        {"kind": "sound", "train": "data"},
        24,
    ),
    Case(
        "ESC-50: meta/esc50.csv and audio",
        media(
            "data/audio/1-{n}-A-0.wav",
            text=(
                "data/meta/esc50.csv",
                lines(
                    24,
                    lambda n: f"1-{n}-A-0.wav,{1 + n % 5},{n % 3},{('dog', 'rain', 'clock_tick')[n % 3]},False,{n},A",
                    _ESC,
                ),
            ),
        ),
        ("sound", "label"),
        {
            "kind": "sound",
            "train": "data/meta/esc50.csv",
            "path": "filename",
            "label": "category",
            "files": "data/audio",
        },
        24,
    ),
    Case(
        "Excel in German: semicolons, a mark at the beginning, CRLF",
        files(
            "daten.csv",
            "\ufeff" + lines(60, lambda n: f"{n};{review(n)};{('gut', 'schlecht')[n % 2]}\r", "Nr.;Text;Urteil\r"),
        ),
        ("text", "label"),
        {"train": "daten.csv", "text": "Text", "label": "Urteil"},
        60,
    ),
    Case(
        "Excel in English: commas, quotes, CRLF",
        files(
            "data.csv",
            lines(60, lambda n: f'{n},"I ""liked"" it, on day {n}",{("good", "bad")[n % 2]}\r', "No,Text,Rating\r"),
        ),
        ("text", "label"),
        {"train": "data.csv", "text": "Text", "label": "Rating"},
        60,
    ),
    Case(
        "a DataFrame",
        frame(lambda it: it),
        ("text", "label"),
        {"train": "data/data.csv", "text": "review", "label": "stars"},
        60,
    ),
    Case(
        "a DataFrame that was filtered",
        frame(lambda it: it[it.id > 9]),
        ("text", "label"),
        {"train": "data/data.csv", "text": "review", "label": "stars"},
        50,
    ),
    Case(
        "a DataFrame that was shuffled",
        frame(lambda it: it.sample(frac=1, random_state=1)),
        ("text", "label"),
        {"train": "data/data.csv", "text": "review", "label": "stars"},
        60,
    ),
    Case(
        "a DataFrame with categories",
        frame(lambda it: it.astype({"stars": "category"})),
        ("text", "label"),
        {"train": "data/data.csv", "text": "review", "label": "stars"},
        60,
    ),
    Case(
        "a DataFrame with lists of labels",
        frame(lambda it: it, text=[review(n) for n in range(60)], labels=[["a", "b"][: 1 + n % 2] for n in range(60)]),
        ("text", "label"),
        {"train": "data/data.jsonl", "text": "text", "label": "labels", "separator": "|"},
        60,
    ),
    Case(
        "a DataFrame with dates",
        frame(
            lambda it: it.assign(day=it.day.astype("datetime64[ns]")),
            day=[f"2024-{1 + n // 28:02}-{1 + n % 28:02}" for n in range(112)],
            sold=[*range(112)],
        ),
        ("series", "values"),
        {"train": "data/data.csv", "time": "day"},
        112,
    ),
    Case(
        "a DataFrame with dates as its index",
        frame(
            lambda it: it.set_index(it.pop("day").astype("datetime64[ns]")),
            day=[f"2024-01-{1 + n:02}" for n in range(31)],
            sold=[*range(31)],
        ),
        ("series", "values"),
        {"train": "data/data.csv", "time": "day"},
        31,
    ),
]


def detected(given: Any, folder: Path) -> Detected:
    """As `regard train DATA` does it: copies in the usual form first, where the data needs one."""
    place = normalize_encoding(materialize(given, folder / "data"), folder / "utf8", lambda _: None)
    return detect(wide_to_long(place, Hints(), folder / "reshaped", lambda _: None))


@pytest.mark.parametrize("case", [*FILES, *FOLDERS_AND_FRAMES], ids=lambda case: case.name)
def test_public_formats_are_known_and_their_columns_roles_and_counts_are_right(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)


def check_case(case: Case, tmp_path: Path) -> None:
    found = detected(case.make(tmp_path), tmp_path)
    data = {
        key: value.replace(f"{tmp_path}/", "") if isinstance(value, str) else value for key, value in found.data.items()
    }
    assert (found.kinds, data, found.count) == (case.kinds, case.data, case.count)


def test_a_saved_data_set_is_trained_and_scored_with_the_names_of_its_classes(tmp_path: Path) -> None:
    folder = saved("train", "test")(tmp_path)
    run = api.train(folder, output=tmp_path / "run", max_steps=2, time_limit=3, model={"width": 8, "embedding": 8})
    assert {*run.predict("a film").probabilities} == {"neg", "pos"}
    assert run.evaluate().values["examples"] == 40
    assert run.evaluate(test=str(folder / "test")).values["examples"] == 40
    assert run.evaluate(test=str(folder)).values["examples"] == 40
    (folder / "train" / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(RegardError, match=r"data-00000-of-00001\.arrow is missing"):
        detect(str(folder))
