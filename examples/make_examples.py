"""Writes the files of this folder from the embedded corpora: `python examples/make_examples.py`. Always the same."""

import csv
import json
from itertools import islice
from pathlib import Path

import soundfile
from PIL import Image

from regard.corpora import load
from regard.corpora.series import lag, shapes_of_series
from regard.corpora.shapes import one_shape, shapes, shapes_questions
from regard.corpora.texts import load as stories
from regard.corpora.tones import one_key, tones

HERE = Path(__file__).parent


def table(name: str, rows, delimiter: str = "\t") -> None:
    with (HERE / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_MINIMAL).writerows(rows)


def _two(pairs) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


def texts() -> None:
    train, test = load("pocket", "train")[:400], load("pocket", "test")[:40]
    table("pairs.tsv", _two(train))
    table("test.tsv", _two(test))
    rows = [("id", "English", "Spanish"), *((number, *pair) for number, pair in enumerate(_two(train[:200]), 1))]
    table("pairs.csv", rows, ";")
    chats = [
        {"messages": [{"role": "user", "content": f"{one} In Spanish?"}, {"role": "assistant", "content": other}]}
        for one, other in _two(train[:100])
    ]
    lines = [json.dumps(chat, ensure_ascii=False) + "\n" for chat in chats]
    (HERE / "chats.jsonl").write_text("".join(lines), encoding="utf-8")
    table("labels.tsv", [row for pair in train[:150] for row in ((pair.source, "English"), (pair.target, "Spanish"))])
    two = [(*pair.source.split("\t"), pair.target) for pair in load("follows", "train")[:300]]
    table("two_texts.tsv", [("first", "second", "label"), *two])
    (HERE / "sentences.txt").write_text("".join(f"{pair.source}\n" for pair in test), encoding="utf-8")
    (HERE / "book.txt").write_text("".join(f"{pair.source}\n" for pair in train), encoding="utf-8")
    tagged = [
        "".join(f"{word} {tag}\n" for word, tag in zip(pair.source.split(), pair.target.split(), strict=True))
        for pair in load("pocket-phrases", "train")[:200]
    ]
    (HERE / "tags.conll").write_text("\n".join(tagged), encoding="utf-8")
    asked = stories("train")[:300]
    table("questions.tsv", [("question", "document", "answer"), *((s.question, s.document, s.answer) for s in asked)])
    (HERE / "story.txt").write_text(asked[0].document + "\n", encoding="utf-8")


def pictures() -> None:
    rows = []
    (HERE / "pictures").mkdir(exist_ok=True)
    for number, one in enumerate(shapes("train", 24)):
        Image.fromarray(one.image).save(HERE / f"pictures/{number}.png", optimize=True)
        rows += [(f"pictures/{number}.png", caption) for caption in one.texts]
    table("captions.tsv", [("image", "caption"), *rows])
    named = {one.image.tobytes(): f"pictures/{number}.png" for number, one in enumerate(shapes("train", 24))}
    asked = [(named.get(one.first.tobytes()), one.second, one.target) for one in shapes_questions("train", 24)]
    table("asked.tsv", [("image", "question", "answer"), *(row for row in asked if row[0])])
    for number, one in enumerate(islice(one_shape("train"), 0, 400, 10)):
        folder = HERE / "shapes" / one.texts[0].replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(one.image).save(folder / f"{number}.png", optimize=True)


def sounds() -> None:
    (HERE / "calls").mkdir(exist_ok=True)
    rows = []
    for number, call in enumerate(islice(tones("train"), 12)):
        soundfile.write(HERE / f"calls/{number}.wav", call.samples, call.rate)
        rows.append((f"calls/{number}.wav", call.text))
    table("calls.tsv", [("path", "text"), *rows])
    for number, call in enumerate(islice(one_key("train"), 24)):
        folder = HERE / "keys" / call.text
        folder.mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / f"{number}.wav", call.samples, call.rate)


def series() -> None:
    columns = {name: values[:600] for name, values in lag().items()}
    rows = zip(*columns.values(), strict=True)
    table("series.csv", [columns, *([f"{x:.4g}" if isinstance(x, float) else x for x in row] for row in rows)], ",")
    rows = [
        (number, one.label, f"{value:.3f}")
        for number, one in enumerate(shapes_of_series("train")[:60])
        for value in one.values[:, 0]
    ]
    table("labeled_series.csv", [("id", "label", "value"), *rows], ",")


if __name__ == "__main__":
    texts()
    pictures()
    sounds()
    series()
