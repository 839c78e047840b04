"""Texts to be continued, one object each: chats, and documents without any other column."""

from itertools import islice
from pathlib import Path

from regard.auto.detected import Detected
from regard.auto.tables import MOST
from regard.data.json_rows import json_rows
from regard.files.chats import document, is_chat
from regard.files.shards import files_of

JSON_ENDINGS = (".json", ".jsonl", ".ndjson")


def are_chats(path: Path) -> bool:
    rows = [row for _, row in islice(json_rows(path), MOST) if row is not None]
    return bool(rows) and all(map(is_chat, rows))


def of_documents(path: Path) -> Detected:
    files = files_of(path)
    rows = [row for file in files for _, row in islice(json_rows(file), MOST // len(files) + 1) if row is not None]
    texts = [text for row in rows if (text := document(row))]
    size = sum(file.stat().st_size for file in files)
    chats = "chats, laid out as plays (User: ..., Assistant: ...)"
    what = chats if all(map(is_chat, rows)) else "documents, an object each"
    beliefs = [f"{what}; {size / 1e6:.3g} MB, to be continued"]
    data = {"train": str(path), "documents": "line"}
    return Detected(("nothing", "text"), data, size, texts, [], beliefs, [(text, "") for text in texts[:3]])
