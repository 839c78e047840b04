"""Read rows of JSON files: an object a line, or one document.

    [{...}, {...}]   {"data": [{...}, ...]}                                              rows, in a list
    {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}          captions, in the form of COCO
    {"images": [{"filename", "split", "sentences": [{"raw"}]}]}                          ... of Karpathy and Fei-Fei

Lines are read one by one; a document has to be in memory as a whole.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard

from regard.errors import CallError
from regard.files.jsonl import read_jsonl
from regard.files.lines import BROKEN, Line, open_bytes, read_lines

QUESTIONS = ("questions", "annotations")  # picture file names of VQA
_LISTS = ("data", "rows", "examples")


def json_rows(path: Path) -> Iterator[tuple[Line, dict[str, Any] | None]]:
    """Yield each row and its place: the line, or the row number in a document. None: `problem` of the line has the
    reason."""
    if not is_document(path):
        yield from read_jsonl(path)
        return
    for number, row in enumerate(_rows(path, _document(path)), start=1):
        line = Line(number, "")
        yield (
            (line, row) if isinstance(row, dict) else (line._replace(problem=f"{type(row).__name__}, no object"), None)
        )


def is_document(path: Path) -> bool:
    """Return whether a whole file is one JSON value."""
    lines = (line for line in read_lines(path) if line.text.strip())
    first = next(lines, None)
    if first is None or not first.text.lstrip().startswith(("{", "[")):
        return False
    try:
        found = json.loads(first.text)
    except (ValueError, RecursionError):  # an object over several lines; a merely damaged line has other lines after it
        following = next(lines, None)
        return following is None or not following.text.startswith("{")
    return isinstance(found, list) or (_listed(found) is not None and next(lines, None) is None)


def _document(path: Path) -> Any:
    try:
        with open_bytes(path) as file:
            return json.loads(file.read().decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        raise CallError(f"{path}: byte {problem.start + 1} is not UTF-8") from None
    except (ValueError, RecursionError, *BROKEN) as problem:
        raise CallError(f"{path}: is not JSON or JSON Lines ({problem}): repair it there") from None


def _rows(path: Path, tree: Any) -> list[Any]:
    found = tree if isinstance(tree, list) else _listed(tree)
    if found is None:
        names = ", ".join(map(str, tree)) if isinstance(tree, dict) else type(tree).__name__
        raise CallError(f"{path}: has no list of objects (it has {names[:100]}); write one object a line")
    return found


def _listed(tree: Any) -> list[Any] | None:
    if not isinstance(tree, dict):
        return None
    images, annotations = tree.get("images"), tree.get("annotations")
    if _objects(images) and _objects(annotations):
        names = {one.get("id"): one.get("file_name") for one in images}
        return [
            {"image": names.get(one.get("image_id")), "caption": one["caption"]}
            for one in annotations
            if "caption" in one
        ]
    if _objects(images):
        return [
            {
                "image": "/".join(filter(None, (one.get("filepath"), one.get("filename")))),
                "caption": said.get("raw"),
                "split": one.get("split"),
            }
            for one in images
            for said in one.get("sentences") or ()
        ]
    return next((tree[name] for name in _LISTS if _objects(tree.get(name))), None)


def question_rows(questions: Path, annotations: Path) -> Iterator[dict[str, str]]:
    """Yield questions about pictures with answers from another file: of several answers, the most frequent one."""
    found: list[list[dict[str, Any]]] = []
    for path, name in zip((questions, annotations), QUESTIONS, strict=True):
        tree = _document(path)
        rows = tree.get(name) if isinstance(tree, dict) else None
        if not _objects(rows) or "question_id" not in rows[0]:
            return
        found.append(rows)
    said = {one["question_id"]: _answer(one) for one in found[1]}
    for one in found[0]:
        if answer := said.get(one["question_id"]):
            yield {"image": str(one.get("image_id", "")), "question": str(one.get("question", "")), "answer": answer}


def _answer(one: dict[str, Any]) -> str:
    answers = [str(each.get("answer", "")) for each in one.get("answers") or () if isinstance(each, dict)]
    return str(one.get("multiple_choice_answer") or (max(answers, key=answers.count) if answers else ""))


def _objects(found: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(found, list) and bool(found) and all(isinstance(one, dict) for one in found[:10])
