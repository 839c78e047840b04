"""Files with a word and its tags a line, and a blank line between sentences: CoNLL-2000, -2003, CoNLL-U.

    EU        NNP  B-NP  B-ORG          columns are separated by tabs or spaces; `Columns.conll` says which two are read
    rejects   VBZ  B-VP  O

Lines that begin with -DOCSTART- are no words. In CoNLL-U (.conllu), neither are comments and the numbers of joined or
left-out words ("3-4", "5.1"), and by default the word is column 1 and its tag column 3.
Each sentence is a pair of its words and its tags, separated by spaces; its line is that of its first word.
"""

from collections.abc import Iterator
from pathlib import Path

from regard.data.pairs import Bad, Columns, Pair, excerpt, pair_of
from regard.files.lines import Line, read_lines

DOCUMENT = "-DOCSTART-"


def read_conll(path: Path, columns: Columns) -> Iterator[Pair | Bad]:
    universal = ".conllu" in path.suffixes
    places = (1, 3) if universal and columns.conll == (0, -1) else columns.conll
    sentence: list[Line] = []
    for line in read_lines(path):
        if line.problem or line.text.strip():
            if not _skipped(line.text, universal):
                sentence.append(line)
        elif sentence:
            yield _sentence(path, sentence, places, columns)
            sentence = []
    if sentence:
        yield _sentence(path, sentence, places, columns)


def _skipped(text: str, universal: bool) -> bool:
    number = text.partition("\t")[0]
    joined = universal and (text.startswith("#") or "-" in number or "." in number)
    return joined or text.startswith(DOCUMENT)


def _sentence(path: Path, lines: list[Line], places: tuple[int, int], columns: Columns) -> Pair | Bad:
    found: list[tuple[str, ...]] = []
    for line in lines:
        if line.problem:
            return Bad(str(path), line.number, line.kind, line.problem, excerpt(line.text), len(lines))
        fields = line.text.split("\t") if "\t" in line.text.strip() else line.text.split()
        if any(not -len(fields) <= place < len(fields) for place in places) or len(fields) < 2:
            plural = "s" if len(fields) != 1 else ""
            reason = f"{len(fields)} column{plural}: there is no word with a tag in it (data.word, data.column)"
            return Bad(str(path), line.number, "columns", reason, excerpt(line.text), len(lines))
        cells = tuple(fields[place].strip() for place in places)
        if any(len(cell.split()) != 1 for cell in cells):
            reason = "a word or a tag is empty, or has a space in it"
            return Bad(str(path), line.number, "columns", reason, excerpt(line.text), len(lines))
        found.append(cells)
    words, tags = zip(*found, strict=True)
    return pair_of(" ".join(words), " ".join(tags), str(path), lines[0].number, columns)
