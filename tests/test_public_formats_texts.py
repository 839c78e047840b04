"""Texts in the formats of public data sets: labels, pairs, plain text; read as those of test_public_formats.py are."""

import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard import api
from regard.detect.begin import make_recipe
from regard.detect.files import unpack
from regard.detect.tables import find_separator
from test_public_formats import Case, check_case, compressed, detected, files, lines, review
from test_public_formats_media import PICTURES, SERIES


def _inference(n: int) -> dict[str, Any]:
    gold = "-" if n % 20 == 7 else ("neutral", "entailment", "contradiction")[n % 3]
    two = {"sentence1": f"A man eats {n}.", "sentence2": f"He sleeps {n}."}
    return {"annotator_labels": [gold], "gold_label": gold, **two, "captionID": f"{n}.jpg#0", "pairID": f"{n}r1n"}


def _inferences() -> str:
    return lines(60, lambda n: json.dumps(_inference(n)))


def _segments(kind: str, words: str) -> str:
    """A test set of WMT."""
    body = lines(30, lambda n: f'<seg id="{n + 1}">{words} &amp; {n}.</seg>')
    return f'<{kind} setid="newstest2014" srclang="any">\n<doc docid="d">\n<p>\n{body}</p>\n</doc>\n</{kind}>\n'


def _talks(words: str) -> str:
    """Training texts of IWSLT, with lines of tags."""
    tags = "<url>http://ted.com</url>\n<keywords>a, b</keywords>\n<talkid>1</talkid>\n<title>A talk</title>\n"
    return tags + lines(30, lambda n: f" {words} {n}. ")


def _iwslt() -> list[str]:
    found = ["d/train.tags.de-en.de", _talks("Das ist"), "d/train.tags.de-en.en", _talks("This is"), "d/README", "x"]
    for part in ("dev2010", "tst2010"):
        for side, words in (("de", "Das ist"), ("en", "This is")):
            found += [f"d/IWSLT17.TED.{part}.de-en.{side}.xml", _segments("refset", words)]
    return found


def archive(pack: str, named: list[str]) -> Callable[[Path], Path]:
    """A .zip or .tar.gz of files: a name, its text, ..."""

    def make(folder: Path) -> Path:
        files(*(f"packed/{one}" if at % 2 == 0 else one for at, one in enumerate(named)))(folder)
        form = {".zip": "zip", ".tar.gz": "gztar"}[pack]
        return unpack(Path(shutil.make_archive(str(folder / "it"), form, folder / "packed")), folder / "data")

    return make


def _imdb() -> list[str]:
    found = ["aclImdb/README", "about", "aclImdb/imdb.vocab", "the\nand\n"]
    for part in ("train", "test"):
        kinds = ("neg", "pos", "unsup") if part == "train" else ("neg", "pos")
        found += [one for n in range(45) for one in (f"aclImdb/{part}/{kinds[n % len(kinds)]}/{n}_0.txt", review(n))]
        found += [f"aclImdb/{part}/labeledBow.feat", "9 0:9 1:1\n", f"aclImdb/{part}/urls_neg.txt", "http://imdb.com\n"]
    return found


def _stars(**names: str) -> Callable[[int], str]:
    """Reviews with many other columns: `text` and `stars` are called so."""
    rest = ("votes", "useful", "cool")

    def row(n: int) -> str:
        known = {
            "user_id": f"u{n}",
            "business_id": f"b{n % 7}",
            names["stars"]: 1.0 + n % 5,
            **dict.fromkeys(rest, n % 3),
        }
        return json.dumps(known | dict.fromkeys(rest, n % 3) | {names["text"]: review(n)})

    return row


_TREC = lines(60, lambda n: f"{('DESC:manner', 'ENTY:cremat', 'NUM:date')[n % 3]} How did {n} develop ?")
_MEMORY = lines(
    30,
    lambda n: (
        f'<tu><tuv xml:lang="en"><seg>This is {n}</seg></tuv><tuv xml:lang="de"><seg>Das ist {n}</seg></tuv></tu>'
    ),
)
_SNLI = {"kind": "texts", "first": "sentence1", "second": "sentence2", "label": "gold_label", "names": {"-": ""}}


TEXTS: list[Case] = [
    Case(
        "SNLI: jsonl with names of pictures, and '-' where people do not agree",
        files("d/snli_1.0_train.jsonl", _inferences(), "d/snli_1.0_dev.jsonl", _inferences(), give="d"),
        ("texts", "label"), {"train": "d/snli_1.0_train.jsonl", "valid": "d/snli_1.0_dev.jsonl", **_SNLI}, 57,
    ),
    Case(
        "MRPC of GLUE: #1 String, #2 String, Quality",
        files("msr_paraphrase_train.txt", lines(
            60, lambda n: f"{n % 2}\t{7028 + n}\t{7029 + 2 * n}\tHe said {n}.\tThat was {n}.",
            "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        )),
        ("texts", "label"), {"train": "msr_paraphrase_train.txt", "kind": "texts", "first": "#1 String",
                             "second": "#2 String", "label": "Quality"}, 60,
    ),
    Case(
        "QQP of GLUE",
        files("train.tsv", lines(60, lambda n: f"{n}\t{2 * n}\t{2 * n + 1}\tWhat is {n}?\tWhat might {n} be?\t{n % 2}",
                                 "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate")),
        ("texts", "label"), {"train": "train.tsv", "kind": "texts", "first": "question1", "second": "question2",
                             "label": "is_duplicate"}, 60,
    ),
    Case(
        "CoLA of GLUE: four columns without a header",
        files("train.tsv", lines(60, lambda n: f"gj04\t{n % 2}\t{'*' if n % 2 else ''}\tOur friends buy {n}.")),
        ("text", "label"), {"train": "train.tsv", "header": False, "text": 3, "label": 1}, 60,
    ),
    Case(
        "TREC: a class before each question",
        files("train_5500.label", _TREC),
        ("text", "label"), {"train": "utf8/train_5500.tsv", "header": False, "text": 1, "label": 0}, 60,
    ),
    Case(
        "20 newsgroups: files without an ending",
        files(*(one for part in ("train", "test") for n in range(40)
                for one in (f"d/20news-bydate-{part}/{('alt.atheism', 'sci.space')[n % 2]}/{49960 + n}", review(n))),
              give="d"),
        ("text", "label"), {"train": "d/20news-bydate-train", "test": "d/20news-bydate-test"}, 40,
    ),
    Case(
        "IMDb: aclImdb_v1.tar.gz with texts without labels and lists of addresses",
        archive(".tar.gz", _imdb()),
        ("text", "label"), {"train": "data/aclImdb/train", "test": "data/aclImdb/test", "names": {"unsup": ""}}, 30,
    ),
    Case(
        "Amazon: jsonl, stars as numbers",
        files("Books_5.json", lines(60, _stars(text="reviewText", stars="overall"))),
        ("text", "label"), {"train": "Books_5.json", "text": "reviewText", "label": "overall"}, 60,
    ),
    Case(
        "Yelp: jsonl, stars beside few businesses",
        files("yelp_academic_dataset_review.json", lines(60, _stars(text="text", stars="stars"))),
        ("text", "label"), {"train": "yelp_academic_dataset_review.json", "text": "text", "label": "stars"}, 60,
    ),
    Case(
        "Yelp polarity: csv without a header",
        files("train.csv", lines(60, lambda n: f'"{1 + n % 2}","{review(n)}"')),
        ("text", "label"), {"train": "train.csv", "header": False, "text": 1, "label": 0}, 60,
    ),
    Case(
        "DBpedia: a class, a title and a text",
        files("train.csv", lines(280, lambda n: f'{1 + n % 14},"Firm {n}"," Firm {n} makes {n} of these things."')),
        ("text", "label"), {"train": "train.csv", "header": False, "text": 2, "label": 0}, 280,
    ),
    Case(
        "fastText: __label__",
        files("cooking.train", lines(60, lambda n: f"__label__{('sauce', 'baking')[n % 2]} How do I cook {n}?")),
        ("text", "label"), {"train": "utf8/cooking.tsv", "header": False, "text": 1, "label": 0}, 60,
    ),
    Case(
        "Sentiment140: Latin-1, no header, sorted by class",
        files("training.1600000.csv", lines(
            60, lambda n: f'"{n // 30 * 4}","{1467810369 + n * 7}","Mon Apr 06 22:{n:02}:45 PDT 2009","NONE","u{n}",'
                          f'"café number {n} is what I drink"'), encoding="latin-1"),
        ("text", "label"), {"train": "utf8/training.1600000.csv", "header": False, "text": 5, "label": 0}, 60,
    ),
    Case(
        "SMS spam: a label, a tab and a text, no ending",
        files("SMSSpamCollection", lines(60, lambda n: f"{('ham', 'spam')[n % 2]}\tGo until point {n}, crazy.")),
        ("text", "label"), {"train": "SMSSpamCollection", "header": False, "text": 1, "label": 0}, 60,
    ),
    Case(
        "SMS spam of Kaggle: columns v1, v2 and three without a name",
        files("spam.csv", lines(60, lambda n: f"{('ham', 'spam')[n % 2]},Go until point {n},,,", "v1,v2,,,")),
        ("text", "label"), {"train": "spam.csv", "text": "v2", "label": "v1"}, 60,
    ),
    Case(
        "WMT: .sgm of a source and a reference",
        files("d/newstest2014-deen-src.de.sgm", _segments("srcset", "Das ist"),
              "d/newstest2014-deen-ref.en.sgm", _segments("refset", "This is"), give="d"),
        ("text", "text"), {"train": "utf8/newstest2014-deen.de,utf8/newstest2014-deen.en"}, 30,
    ),
    Case(
        "WMT: news commentary, tsv compressed",
        compressed("news-commentary-v16.de-en.tsv.gz", lines(60, lambda n: f"Das ist Satz {n}.\tThis is {n}.")),
        ("text", "text"), {"train": "news-commentary-v16.de-en.tsv.gz", "header": False, "source": 0, "target": 1}, 60,
    ),
    Case(
        "IWSLT: lines of tags in training texts, .xml for validation and testing",
        files(*_iwslt(), give="d"),
        ("text", "text"), {
            "train": "utf8/train.tags.de-en.de,utf8/train.tags.de-en.en",
            "valid": "utf8/IWSLT17.TED.dev2010.de-en.de,utf8/IWSLT17.TED.dev2010.de-en.en",
            "test": "utf8/IWSLT17.TED.tst2010.de-en.de,utf8/IWSLT17.TED.tst2010.de-en.en",
        }, 30,
    ),
    Case(
        "a translation memory: TMX",
        files("memory.tmx", f'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>{_MEMORY}</body></tmx>'),
        ("text", "text"), {"train": "memory.tmx", "source": "en", "target": "de"}, 30,
    ),
    Case(
        "Tatoeba: numbers of sentences beside them",
        files("Sentence pairs.tsv", lines(60, lambda n: f"{1276 + 3 * n}\tLet us {n}.\t{77 + 5 * n % 59}\tWir {n}!")),
        ("text", "text"), {"train": "Sentence pairs.tsv", "header": False, "source": 1, "target": 3}, 60,
    ),
    Case(
        "Tatoeba of ManyThings: who wrote it in a third column",
        files("deu.txt", lines(
            60, lambda n: f"Go {n}.\tGeh {n}.\tCC-BY 2.0 (France) Attribution: tatoeba.org #{2877272 + n} (CM)")),
        ("text", "text"), {"train": "deu.txt", "header": False, "source": 0, "target": 1}, 60,
    ),
    Case(
        "Europarl: a .zip of parallel texts",
        archive(".zip", ["Europarl.de-en.de", lines(30, lambda n: f"Das ist {n}."), "Europarl.de-en.en",
                         lines(30, lambda n: f"This is {n}."), "README", "about", "LICENSE", "free"]),
        ("text", "text"), {"train": "data/Europarl.de-en.de,data/Europarl.de-en.en"}, 30,
    ),
    Case(
        "WikiText: wiki.train.tokens",
        files(*(one for part in ("train", "valid", "test")
                for one in (f"d/wiki.{part}.tokens", lines(60, lambda n: f" The game {n} began , and went on "))),
              give="d"),
        ("nothing", "text"), {"train": "d/wiki.train.tokens", "valid": "d/wiki.valid.tokens",
                              "test": "d/wiki.test.tokens", "documents": "file"}, 2030,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: case.name)
def test_texts_of_public_data_sets_are_known(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)


_BY_NAME = {case.name: case for case in (*TEXTS, *SERIES, *PICTURES)}
_TRAINED = (
    "TREC: a class before each question", "UCR: .tsv", "UCR: .ts of sktime",
    "exchange_rate.txt.gz, as it is downloaded",
    "NumPy: an array of steps and columns", "MNIST: idx files", "MNIST: Kaggle's csv of pixels",
)  # fmt: skip


@pytest.mark.parametrize("name", _TRAINED)
def test_a_model_trained_on_them_is_scored_on_further_files_as_they_are_downloaded(name: str, tmp_path: Path) -> None:
    data = _BY_NAME[name].make(tmp_path)
    small = {"training.max_steps": 2, "training.validate_every": 2, "training.looks": 0}
    run = api.train(make_recipe(data, tmp_path / "run", seconds=20, overrides=small), output=tmp_path / "run")
    test = data / "mnist_test.csv" if (data / "mnist_test.csv").exists() else data
    assert run.evaluate(test=str(test)).values


def test_a_table_without_a_part_in_its_name_is_reported_as_unused(tmp_path: Path) -> None:
    found = detected(files("d/train_5500.label", _TREC, "d/TREC_10.label", _TREC, give="d")(tmp_path), tmp_path)
    assert found.data["train"].endswith("train_5500.tsv")
    assert any("TREC_10.tsv is not used; to use it: data.valid=... or data.test=..." in one for one in found.beliefs)


def test_a_long_document_in_a_cell_takes_little_memory() -> None:
    """A folder of SQuAD is looked at as a table, too: its documents stand in one cell."""
    cells = [", ".join(f"word {n}" for n in range(first, first + 3000)) for first in (0, 1)]
    tracemalloc.start()
    find_separator(cells)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 50e6
