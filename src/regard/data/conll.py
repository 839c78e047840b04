"""Files with a word and its tags a line, and a blank line between sentences: CoNLL-2000, -2002, -2003, CoNLL-U, IOB.

    EU        NNP  B-NP  B-ORG          columns are separated by tabs or spaces; by default, the word is in the first
    rejects   VBZ  B-VP  O              one, and its tag in the last one

The format is detected from the content of a file, not from its name. Lines that begin with -DOCSTART- and comments are
skipped; so are the lines of multiword tokens ("3-4") and of empty nodes ("5.1") in CoNLL-U. Each sentence is a pair of
its words and its tags, separated by spaces; its line number is that of its first word. A space inside a word becomes
"_".

The content of a file decides, not its name. Lines that begin with -DOCSTART- are no words, nor are comments, and in
CoNLL-U the lines of multiword tokens ("3-4") and of empty nodes ("5.1"). Each sentence is a pair of its words and its
tags, separated by spaces; its line is that of its first word. A space inside a word becomes "_".
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from regard.data.pairs import Columns, Pair, SkippedLine, excerpt, pair_of
from regard.errors import CallError, nearest
from regard.files.lines import TextLine, read_lines

DOCUMENT = "-DOCSTART-"
UNIVERSAL = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_FEATURES = ("feats", "misc")  # columns that hold Key=Value|Key=Value
_NAMES = "# global.columns ="  # the names of the columns in CoNLL-U Plus
_NUMBER = re.compile(r"\d+([-.]\d+)?")
_SAMPLE = 400  # lines from which columns are detected
_AGREE = 0.97  # of the lines of a file have equally many columns
NOTHING = "_"  # the tag of a word without the feature


class ColumnLayout(NamedTuple):
    """Positions of words and tags.

    feature   the key in the columns of features; empty: the whole cell is the tag
    names     column names in CoNLL-U; empty in other formats
    tags      tags of the first lines: a line "# O" is a word, and "# sentence 7" is a comment
    """

    word: int
    tag: int
    feature: str
    names: tuple[str, ...]
    numbered: bool
    width: int
    tags: frozenset[str]

    def is_word(self, text: str, *, first: bool) -> bool:
        """Return whether a line holds a word. `first`: it would be the first of its sentence."""
        if text.startswith(DOCUMENT):
            return False
        fields = fields_of(text)
        if self.numbered:
            return not text.startswith("#") and not (_NUMBER.fullmatch(fields[0]) and not fields[0].isdecimal())
        comment = first and text.startswith("#")
        return not comment or (len(fields) == self.width and fields[self.tag] in self.tags)

    def cells(self, fields: Sequence[str]) -> tuple[str, str]:
        """Return the word and the tag of a line; raise IndexError if it has too few columns."""
        word, tag = fields[self.word], fields[self.tag]
        if self.feature:
            pairs = (pair.partition("=") for name in _FEATURES for pair in fields[self.names.index(name)].split("|"))
            tag = next((value for key, _, value in pairs if key.lower() == self.feature), NOTHING)
        return "_".join(word.split()), "_".join(tag.split())

    def __str__(self) -> str:
        if not self.names:
            places = [f"column {at}" if at >= 0 else "the last column" for at in (self.word, self.tag)]
            return f"a word and its tag a line ({' and '.join(places)}), blank lines between sentences"
        tag = self.feature or self.names[self.tag].upper()
        return f"CoNLL-U: the word is {self.names[self.word].upper()}, its tag is {tag} (data.tag_column=upos, xpos, …)"


def fields_of(text: str) -> list[str]:
    return text.split("\t") if "\t" in text.strip() else text.split()


def is_conll(path: Path) -> bool:
    """Return whether a file has blocks of short lines with equally many columns, of which the last one repeats."""
    lines = [line.text for line in islice(read_lines(path), _SAMPLE) if not line.problem]
    words = [fields_of(line) for line in lines if line.strip() and not line.startswith(("#", DOCUMENT))]
    usual = _usual_width(words)
    even = sum(len(fields) == usual for fields in words) >= _AGREE * len(words)
    if not words or not even:
        return False
    blank = sum(not line.strip() for line in lines)
    if _counts_words(lines) and (usual == len(UNIVERSAL) or (usual > 2 and blank > 1)):
        return True
    last = {fields[-1] for fields in words}
    numbers = sum(_is_number(fields[0]) and _is_number(fields[-1]) for fields in words)
    few = len(last) <= len(words) / 2 and numbers < len(words) / 2
    return len(words) > 10 and blank > 1 and 2 <= usual <= 5 and few


def find_layout(path: Path, columns: Columns) -> ColumnLayout:
    """Return the positions of words and tags, by the settings, or else by the first lines of the file."""
    lines = [line.text for line in islice(read_lines(path), _SAMPLE) if not line.problem]
    rows = [fields_of(line) for line in lines if line.strip() and not line.startswith(("#", DOCUMENT))]
    numbered, width = _counts_words(lines), _usual_width(rows)
    names = next((line.removeprefix(_NAMES).lower().split() for line in lines if line.startswith(_NAMES)), UNIVERSAL)
    universal = numbered and (len(names) == width or ".conllu" in path.suffixes)
    names = tuple(names) if universal else ()
    wanted, feature = columns.conll[1], ""
    if wanted is None:
        tag = _fill_tags(rows, names) if universal else 2 if numbered else -1
    elif isinstance(wanted, int):
        tag = wanted
    elif not names:
        raise CallError(f"{path}: data.tag_column={wanted}: columns have no names here; give a number, from 0")
    elif wanted.lower() in names:
        tag = names.index(wanted.lower())
    else:
        tag, feature = len(names) - 1, wanted.lower()
        if not {*_FEATURES} <= {*names} or not any(f"{feature}=" in line.text.lower() for line in read_lines(path)):
            keys = {pair.partition("=")[0] for row in rows for cell in row for pair in cell.split("|") if "=" in pair}
            known = nearest(wanted, [*names, *sorted(keys)])
            raise CallError(f"{path}: no such column or feature: data.tag_column={wanted!r}{known}")
    word = columns.conll[0] if columns.conll[0] is not None else int(numbered)
    tags = frozenset(row[tag] for row in rows if -len(row) <= tag < len(row))
    return ColumnLayout(word, tag, feature, names, numbered, width, tags)


def read_conll(path: Path, columns: Columns) -> Iterator[Pair | SkippedLine]:
    layout = find_layout(path, columns)
    for sentence in _sentences(read_lines(path), layout):
        yield _sentence(path, sentence, layout, columns)


def _sentences(lines: Iterable[TextLine], layout: ColumnLayout) -> Iterator[list[TextLine]]:
    sentence: list[TextLine] = []
    for line in chain(lines, [TextLine(0, "")]):
        if not line.problem and not line.text.strip():
            if sentence:
                yield sentence
            sentence = []
        elif line.problem or layout.is_word(line.text, first=not sentence):
            sentence.append(line)


def _sentence(path: Path, lines: list[TextLine], layout: ColumnLayout, columns: Columns) -> Pair | SkippedLine:
    found: list[tuple[str, str]] = []
    for line in lines:
        if line.problem:
            return SkippedLine(str(path), line.number, line.kind, line.problem, excerpt(line.text), len(lines))
        fields = fields_of(line.text)
        try:
            cells = layout.cells(fields)
        except IndexError:
            cells = ("", "")
        if len(fields) < 2 or "" in cells:
            plural = "s" if len(fields) != 1 else ""
            reason = f"{len(fields)} column{plural}: there is no word with a tag (data.word_column, data.tag_column)"
            return SkippedLine(str(path), line.number, "columns", reason, excerpt(line.text), len(lines))
        found.append(cells)
    words, tags = zip(*found, strict=True)
    return pair_of(" ".join(words), " ".join(tags), str(path), lines[0].number, columns)


def _usual_width(rows: Sequence[Sequence[str]]) -> int:
    widths = [len(row) for row in rows]
    return max(set(widths), key=widths.count) if widths else 0


def _counts_words(lines: Sequence[str]) -> bool:
    """Return whether the first of several columns counts the words of each sentence."""
    before, numbers = "", list[tuple[str, bool]]()
    for line in lines:
        if line.strip() and not line.startswith("#"):
            fields = fields_of(line)
            numbers.append((fields[0] if len(fields) > 2 else "", not before))
        before = "" if line.startswith("#") else line.strip()
    firsts = all(re.match(r"[01]\b", number) for number, first in numbers if first)
    return bool(numbers) and firsts and all(_NUMBER.fullmatch(number) for number, _ in numbers)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _fill_tags(rows: Sequence[Sequence[str]], names: Sequence[str]) -> int:
    """Return the column of UPOS, or of XPOS in a treebank without UPOS."""
    upos, xpos = (names.index(name) if name in names else -1 for name in ("upos", "xpos"))
    empty = all(row[upos] == NOTHING for row in rows if len(row) == len(names))
    return xpos if empty and xpos >= 0 and any(len(row) == len(names) for row in rows) else upos
