"""Detect the role of each column of a table, and the job that the table is for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from regard.data.columns import SYNONYMS
from regard.detect.detected import (
    JSON_ENDINGS,
    Detected,
    Hints,
    class_counts,
    first_three,
    of_documents,
    picture_facts,
    picture_sizes,
    series_facts,
    sound_facts,
    sound_lengths,
)
from regard.detect.files import Files, files_in, role_of
from regard.detect.label_column import columns_of_labels, joined_cells, with_labels
from regard.detect.tables import LABELS, MANY, MOST, RATINGS, ColumnContent, TableSample, are_tags, as_number, is_number
from regard.errors import CallError
from regard.files.lines import ending
from regard.inputs.media_files import find_member
from regard.inputs.series.settings import MOST_TEXTS

CAPTIONS = ("caption", "text", "sentence", "description", "transcript", "transcription")
TWO_TEXTS = [(side, *SYNONYMS[side], f"#{number} string") for number, side in enumerate(("first", "second"), 1)]
UNDECIDED = "-"  # a label that marks disagreement between annotators
SAID_OF_BOTH = ("label", "gold_label", "quality", "class", "is_duplicate", "entailment", "relation", "y")
LIKENESS = ("score", "similarity", "relatedness", "relatedness_score")
UNLIKE = 2.0  # ratio of lengths of a body and its title
FEWEST = 4  # rows: two classes, for training and for validation
NEAR = 0.9  # mean step between neighbors, in standard deviations; 1.13 for rows in random order
LOOKED_AT = 64  # pictures and recordings that are opened


def infer_task(table: TableSample, hints: Hints, files: Files | None = None) -> Detected:
    """Detect the job from what the columns hold. `files`: the folder that names of pictures or recordings refer to."""
    table = hints.read(table)
    return with_labels(_by_columns(table, hints, files), table, hints)


def _by_columns(table: TableSample, hints: Hints, files: Files | None) -> Detected:
    if len(table.rows) < FEWEST:
        rows = f"{len(table.rows)} row{'s' if len(table.rows) != 1 else ''}"
        raise CallError(f"{table.path}: {rows} can be read, and {FEWEST} are the least to learn from: give more")
    of: dict[str, list[ColumnContent]] = {}
    for column in table.columns:
        of.setdefault(column.kind, []).append(column)
    named = {column.name: column for column in table.columns}
    data: dict[str, Any] = {"train": str(table.path)}
    if not table.header:
        data["header"] = False
    texts = sorted(of.get("text", []), key=lambda column: not hints.is_column("source", column))
    labels = of.get("label", [])
    if (noun := next((noun for noun in LISTED if noun in of), None)) and not _named_both(named):
        return _infer_media_list(table, noun, of, data, files)
    if found := _question_columns(named):
        return _infer_question(table, found, data)
    if hints.said == {"values"} and "number" in of:
        return _series(table, of, data, sure=True)
    if not hints.said - {"label"} and (both := _both_texts(texts, named)):
        return _two_texts(table, *both, data)
    if not hints.data and not hints.said and (of_both := _number_of_both(named)):
        raise CallError(f"{table.path}: {of_both}")
    if texts and not hints.said - {"label"} and (joined := columns_of_labels(table, hints)):
        text = max(texts, key=lambda column: sum(map(len, table.cells(column))))
        inputs, targets, data = (
            table.cells(text),
            joined_cells(table, joined),
            data | {"text": text.key, "label": joined},
        )
        beliefs = [_describe(table), f"text is {_title(text)}, a label is a column of 0 and 1: {joined}"]
        return Detected(("text", "label"), data, table.count, inputs, targets, beliefs, first_three(inputs, targets))
    for tags in (*texts[1:], *labels) if texts else ():
        if hints.said == {"tags"} or are_tags(table.cells(texts[0]), table.cells(tags)):
            return _columns(table, ("text", "tags"), texts[0], tags, data, ("words", "tags"))
    if len(texts) > 1 and not table.header and _counts_classes(first := table.columns[0]):
        longest = max(texts, key=lambda column: sum(map(len, table.cells(column))))
        doubt = "a class and several texts: the longest text is used"
        return _columns(table, ("text", "label"), longest, first, data, ("text", "label"), doubt)
    if len(texts) > 1 and not hints.said and (label := _said_of_texts(table, texts, of)) is not None:
        longest = max(texts, key=lambda column: sum(map(len, table.cells(column))))
        other = next(column for column in texts if column is not longest)
        doubt = f"a class and several texts: the longest text is used; or is {other.key!r} the target text?"
        return _columns(table, ("text", "label"), longest, label, data, ("text", "label"), doubt)
    if len(texts) > 1 and hints.said != {"label"}:
        doubt = "" if len(texts) == 2 else f"{len(texts)} columns of text: the first two are used"
        return _columns(table, ("text", "text"), texts[0], texts[1], data, ("source", "target"), doubt)
    if not texts and len(labels) > 1 and "number" not in of:  # short texts, such as words or names
        text, label = sorted(labels[:2], key=lambda column: -column.distinct)
        if label.distinct < 2:
            raise CallError(f"{table.path}: {_nothing_said(text, [label])}")
        return _columns(table, ("text", "label"), text, label, data, ("text", "label"))
    few = (column for column in of.get("number", []) if column.distinct <= min(20, column.filled / 5))
    if texts and (short := [column for column in (*labels, *few) if column.distinct > 1]):
        label, doubt = _label_of(table, short)
        return _columns(table, ("text", "label"), texts[0], label, data, ("text", "label"), doubt)
    if texts and texts[0].key == "text" and ending(table.path) in JSON_ENDINGS and hints.may_be_plain:
        return of_documents(table.path)
    if texts:
        raise CallError(f"{table.path}: {_nothing_said(texts[0], table.columns)}")
    if "number" in of:
        return _series(table, of, data)
    raise CallError(f"{table.path}: {_describe(table)}: no column to learn from and predict")


def _label_of(table: TableSample, columns: Sequence[ColumnContent]) -> tuple[ColumnContent, str]:
    """Return the column that is called a label, preferring names to numbers, and alternatives for it. Columns that
    number the same classes are no alternatives."""

    def rank(column: ColumnContent) -> tuple[bool, bool, bool, int]:
        name = column.name.rpartition(".")[2]
        numbers = all(map(is_number, table.cells(column)))
        return name.endswith("_id"), name not in (*LABELS, *RATINGS), numbers, column.distinct

    label, *others = sorted(columns, key=rank)
    others = [one for one in others if not one.name.endswith("_id")]
    named = table.cells(label)
    others = [one for one in others if len({*zip(named, table.cells(one), strict=True)}) > label.distinct]
    return label, f"the label could also be {' or '.join(repr(one.key) for one in others)}" if others else ""


def _columns(
    table: TableSample,
    kinds: tuple[str, str],
    source: ColumnContent,
    target: ColumnContent,
    data: dict[str, Any],
    keys: tuple[str, str],
    doubt: str = "",
) -> Detected:
    inputs, targets = table.cells(source), table.cells(target)
    for key, column in zip(keys, (source, target), strict=True):
        data[key] = column.key
    beliefs = [_describe(table), f"{keys[0]} is {_title(source)}, {keys[1]} is {_title(target)}"]
    return Detected(kinds, data, table.count, inputs, targets, beliefs, first_three(inputs, targets), doubt)


def _named_both(named: dict[str, ColumnContent]) -> bool:
    """Return whether two texts and their common label are columns by name, and other columns only describe them."""
    return all(any(name in named for name in names) for names in (*TWO_TEXTS, SAID_OF_BOTH))


def _number_of_both(named: dict[str, ColumnContent]) -> str:
    """Return why a similarity score of two texts cannot be predicted; empty if there is none."""
    first, second, number = (
        next((named[name] for name in names if name in named), None) for names in (*TWO_TEXTS, LIKENESS)
    )
    if first is None or second is None or number is None or number.kind != "number":
        return ""
    return (
        f"{_title(number)} holds numbers that are said of {_title(first)} and {_title(second)}: regard predicts "
        "labels, texts or vectors; write a few classes in its place (similar, different), or drop it"
    )


def _both_texts(
    texts: Sequence[ColumnContent], named: dict[str, ColumnContent]
) -> tuple[ColumnContent, ColumnContent, ColumnContent] | None:
    """Return two texts and their common label: by the names of the two, or where a column is called a label."""
    label = next((named[name] for name in SAID_OF_BOTH if name in named), None)
    if label is None or not 2 <= label.distinct <= max(20, label.filled / 20):
        return None
    first, second = (next((named[name] for name in names if name in named), None) for names in TWO_TEXTS)
    if first is not None and second is not None:
        return first, second, label
    return (texts[0], texts[1], label) if len(texts) == 2 and label not in texts else None


def _two_texts(
    table: TableSample, first: ColumnContent, second: ColumnContent, label: ColumnContent, data: dict[str, Any]
) -> Detected:
    inputs, targets = list(zip(table.cells(first), table.cells(second), strict=True)), table.cells(label)
    data |= {"kind": "texts", "first": first.key, "second": second.key, "label": label.key}
    others = {cell.strip() for cell in targets} - {UNDECIDED}
    if len(others) < label.distinct and all(len(name) > 1 for name in others):  # no sign beside "+"
        data["names"] = {UNDECIDED: ""}
    said = f"a label is {_title(label)}, and is said of two texts: {_title(first)} and {_title(second)}"
    shown = first_three([" | ".join(two) for two in inputs], targets)
    beliefs = [_describe(table), said]
    return Detected(("texts", "label"), data, table.count, inputs, targets, beliefs, shown)


def _nothing_said(text: ColumnContent, columns: Sequence[ColumnContent]) -> str:
    """Return why there is no target that a model could predict from a text."""
    if (same := next((one for one in columns if one.kind == "label"), None)) is not None:
        return f"{_title(same)} holds the same label in all rows: a second class is missing"
    if (number := next((one for one in columns if one.kind == "number"), None)) is not None:
        return (
            f"{_title(number)} holds many different numbers; regard predicts text, labels or tags, no numbers "
            "(regression). Convert it to classes: write a column of a few words, such as low, middle and high, and "
            "name it with data.label=COLUMN"
        )
    if (empty := next((one for one in columns if one.kind == "empty"), None)) is not None:
        return f"{_title(empty)} is empty in all rows: fill it with labels, or with target texts"
    return (
        f"{_title(text)} holds texts, and there is no column to predict: add one of labels or of target texts. "
        "For a model that continues texts, write them to a .txt file"
    )


def _said_of_texts(
    table: TableSample, texts: Sequence[ColumnContent], of: dict[str, list[ColumnContent]]
) -> ColumnContent | None:
    """Return the label column of a title and a body; None for texts of similar length (a translation pair)."""
    one, other, *_ = (sum(map(len, table.cells(column))) for column in texts)
    if max(one, other) < UNLIKE * min(one, other):
        return None
    classes = [*of.get("label", []), *filter(_counts_classes, of.get("number", []))]
    return next((column for column in classes if column.distinct > 1 and _named_label(column)), None)


def _named_label(column: ColumnContent) -> bool:
    return not {*LABELS, *RATINGS}.isdisjoint(column.name.replace(".", " ").replace("_", " ").split())


def _counts_classes(column: ColumnContent) -> bool:
    """Return whether there are few different numbers, each many times."""
    return column.kind == "number" and column.distinct <= min(20, column.filled / 10)


def _title(column: ColumnContent) -> str:
    return f"column {column.key}" if isinstance(column.key, int) else f"column {column.key!r}"


def _describe(table: TableSample) -> str:
    by = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", " ": "spaces"}
    cut = f", separated by {by[table.delimiter]}" if table.delimiter else ""
    held = ", ".join(f"{column.key} ({column.kind})" for column in table.columns)
    header = "with a header" if table.header else "without a header"
    among = f" of the first {MOST:,}" if table.count > len(table.rows) else ""
    lost = f"; {len(table.problems):,} lines{among} cannot be read ({table.problems[0]})" if table.problems else ""
    return f"a table of {table.count:,} rows {header}{cut}: {held}{lost}"


def _question_columns(named: dict[str, ColumnContent]) -> tuple[ColumnContent, ColumnContent, ColumnContent] | None:
    document = next((named[name] for name in ("document", "context", "passage", "paragraph") if name in named), None)
    answer = next((named[name] for name in ("answer", "answers", "answers.text", "answer.text") if name in named), None)
    return (named["question"], document, answer) if "question" in named and document and answer else None


def _infer_question(
    table: TableSample, found: tuple[ColumnContent, ColumnContent, ColumnContent], data: dict[str, Any]
) -> Detected:
    question, document, answer = found
    data |= {"question": question.key, "document": document.key, "answer": answer.key}
    data.pop("header", None)
    beliefs = [_describe(table), f"answers ({_title(answer)}) are looked for in {_title(document)}"]
    starts = ("start", "answer_start", "answers.answer_start", "answer.answer_start")
    if (start := next((column for column in table.columns if column.name in starts), None)) is not None:
        data["start"] = start.key
        beliefs.append(f"their first character is {_title(start)}")
    if not all(table.cells(answer)):
        data["no_answer"] = True
        beliefs.append("some questions have no answer in their document")
    if ending(table.path) == ".json":
        data["format"] = "jsonl"
    inputs = list(zip(table.cells(question), table.cells(document), strict=True))
    shown = first_three(table.cells(question), table.cells(answer))
    return Detected(("question", "span"), data, table.count, inputs, table.cells(answer), beliefs, shown)


class MediaListSpec(NamedTuple):
    """How settings name a list of pictures or recordings, and what is known of its files."""

    kind: str
    column: str
    text: str  # the column of the target
    facts: Callable[[Path, Sequence[str]], list[Any]]
    described: Callable[[list[Any]], str]


LISTED = {
    "picture": MediaListSpec("image", "image", "caption", picture_facts, picture_sizes),
    "recording": MediaListSpec("sound", "path", "text", sound_facts, sound_lengths),
}


def _infer_media_list(
    table: TableSample, noun: str, of: dict[str, list[ColumnContent]], data: dict[str, Any], files: Files | None
) -> Detected:
    what, path, texts, labels = LISTED[noun], of[noun][0], of.get("text", []), of.get("label", [])
    texts = texts or ([] if labels else [*of.get("id", []), *of.get("number", [])])  # numbers may be spoken: 0171 555
    names = [cell.partition("#")[0] for cell in table.cells(path)]
    base = _where(table, names, files)
    if ending(table.path) == ".txt" and table.delimiter != "\t":
        data["format"] = "csv"
    data[what.column] = path.key
    if base != table.path.parent:
        data["files"] = str(base)
    if (splits := of.get("split")) and isinstance(splits[0].key, str):
        data["split"] = splits[0].key
    facts = what.facts(base, names[:: max(1, len(names) // LOOKED_AT)][:LOOKED_AT])
    question = next((column for column in texts if column.name == "question"), None)
    answer = next((column for column in (*texts, *labels) if column.name == "answer"), None)
    if noun == "picture" and question and answer:
        data |= {"question": question.key, "answer": answer.key}
        inputs = list(zip(facts * len(names), table.cells(question), strict=False))
        shown = [*zip(table.cells(question)[:3], table.cells(answer)[:3], strict=True)]
        beliefs = [_describe(table), "questions about pictures"]
        return Detected(("image+text", "text"), data, table.count, inputs, table.cells(answer), beliefs, shown)
    if not texts and not labels:
        raise CallError(f"{table.path}: {noun}s are listed without {what.text}s or labels: add a column of them")
    texts = texts or [column for column in labels if column.name in CAPTIONS]  # few different ones, of a small set
    doubt = ""
    if texts:
        target, kind = texts[0], "text"
    else:
        target, doubt = _label_of(table, [column for column in labels if column.distinct > 1] or labels)
        kind = "label"
    data |= {what.text: target.key} if kind == "text" else {"kind": what.kind, "label": target.key}
    said = table.cells(target)
    beliefs = [_describe(table), what.described(facts)]
    return Detected((what.kind, kind), data, table.count, facts, said, beliefs, first_three(names, said), doubt)


def _where(table: TableSample, names: Sequence[str], files: Files | None) -> Path:
    """Return the folder that the names of a list refer to: that of the list, or a sub-folder or a tar beside it."""
    folder = table.path.parent
    if find_member(folder, names[0]):
        return folder
    role = role_of(table.path.name)
    for file in sorted(files.names, key=lambda name: role_of(PurePosixPath(name).parts[0]) != role) if files else ():
        for named in (file, file.removesuffix(PurePosixPath(file).suffix)):
            if named.endswith("/" + names[0]) and files is not None:
                return files.place / named.removesuffix("/" + names[0])
    for beside in (one for around in (folder, folder.parent) for one in sorted(around.iterdir()) if one.is_dir()):
        if find_member(beside, names[0]):
            return beside
    for tar in sorted(folder.glob("*.tar")):
        if any(name.rsplit("/", 1)[-1] == names[0].rsplit("/", 1)[-1] for name in files_in(tar).names):
            return tar
    raise CallError(
        f"{table.path}: it names {names[0]!r}, which is not in {folder}, nor in a folder or .tar in it or beside it"
    )


def _tells_apart(table: TableSample, column: ColumnContent, time: ColumnContent | None) -> bool:
    """Return whether a column names the series. With a clock, each time occurs once per series, and several times in
    all; without one, the rows of a series are consecutive."""
    if time is None:
        names = [name for (name,) in table.all_cells(column, most=MANY)]
        return 1 + sum(one != other for one, other in pairwise(names)) == len({*names})
    both = [*table.all_cells(column, time, most=MANY)]
    return len({when for _, when in both}) < len(both) == len({*both})


def _series(
    table: TableSample, of: dict[str, list[ColumnContent]], data: dict[str, Any], *, sure: bool = False
) -> Detected:
    """Detect numbers over time. A name of the series in each row means several; a label for each means classification.
    `sure`: the user requested a series."""
    data.pop("header", None)
    ids = [column for column in (*of.get("id", []), *of.get("label", [])) if column.distinct < column.filled]
    label = next((c for c in of.get("label", []) if c.name in ("label", "class", "category", "target", "y")), None)
    times = of.get("time", [])
    id = next((c for c in ids if c is not label and _tells_apart(table, c, times[0] if times else None)), None)
    facts = series_facts(table, times[0] if times else None, id)
    follow = bool(times) or _follow(table, id)
    if not follow and "label" in of and label is None and not sure:
        raise CallError(
            f"{table.path}: rows of numbers with a label, in no order: regard does not learn from tables of features; "
            "scikit-learn does. If the rows are steps of series, name a column of times (data.time=...) or of the "
            "series' names (data.id=...)"
        )
    clock_first = not times or times[0] is table.columns[0]  # there it is found without a name
    if not table.header and (not clock_first or "label" in of or "text" in of or "id" in of):
        raise CallError(f"{table.path}: a table of numbers without a header: write a first line that names the columns")
    if times and table.header:
        data["time"] = times[0].key
    if id is not None:
        data["id"] = id.key
    names = [str(column.key) if table.header else f"column {at}" for at, column in enumerate(table.columns, 1)]
    numbers = [name for name, column in zip(names, table.columns, strict=True) if column.kind == "number"]
    beliefs = [_describe(table), facts.described()]
    shown = [(", ".join(f"{name}={cell}" for name, cell in zip(names, row, strict=True)), "") for row in table.rows[:3]]
    if label is not None and id is not None:
        data |= {"kind": "series", "label": label.key}
        said = [*{cells[0]: cells[1] for cells in table.all_cells(id, label)}.values()]
        return Detected(("series", "label"), data, len(said), [facts], said, [*beliefs, class_counts(said)], shown)
    texts = [column for column in (*of.get("label", []), *of.get("text", [])) if column is not id]
    if helping := [column for column in texts if column.distinct <= MOST_TEXTS]:
        data["past"] = [column.key for column in helping]
        facts = replace(facts, categories=len(helping))
        told = ", ".join(f"{column.key} ({column.distinct} texts)" for column in helping)
        beliefs.append(f"columns of text help as categories: {told}")
    if unused := [str(column.key) for column in texts if column not in helping]:
        beliefs.append(f"columns of many different texts are not read: {', '.join(unused)}")
    beliefs.append(f"to be forecast: {', '.join(numbers)}")
    doubt = "" if follow else "no column of times: rows are used as consecutive steps"
    return Detected(("series", "values"), data, table.count, [facts], [], beliefs, shown, doubt)


def _follow(table: TableSample, id: ColumnContent | None) -> bool:
    """Return whether a number is nearer to its predecessor in the series than to any other. Rows in any order are no
    series."""
    names = [] if id is None else [name for (name,) in table.all_cells(id, most=MOST)]
    ends = [at for at, (one, other) in enumerate(pairwise(names), 1) if one != other]
    for column in table.columns:
        cells = table.all_cells(column, most=MOST) if column.kind == "number" else ()
        series = np.split(np.array([as_number(cell) for (cell,) in cells]), ends)
        series = [one[np.isfinite(one)] for one in series]
        long = [one for one in series if len(one) > 2 and np.ptp(one) > 0]
        apart, spread = sum(np.abs(np.diff(one)).mean() for one in long), sum(one.std() for one in long)
        if long and apart < NEAR * spread:
            return True
    return False
