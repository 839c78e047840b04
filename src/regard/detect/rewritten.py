"""Rewrite texts in other encodings and forms into the folder of their run as UTF-8 with line feeds, and as tables. The
original form is reported.

    UTF-16                                  as spreadsheets save "Unicode text"
    Windows-1252, which has Latin-1 in it   other bytes that are no UTF-8, if most letters are plain ones
    carriage returns alone                  as old Macs wrote them
    __label__good A fine film               fastText: a label and a text
    # exported by ...                       remarks above a table
    <seg id="1">A film</seg>                segments of WMT and IWSLT (.sgm, .xml); their tags are left out
    DESC:manner How did serfdom develop ?   TREC: a class and a question
"""

import codecs
import html
import io
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import cast

from regard.data.formats import find_delimiter
from regard.detect.files import files_in
from regard.errors import CallError
from regard.files import atomic
from regard.files.hub import is_pickle
from regard.files.lines import PACKED, ending, open_bytes, raw_lines

_TEXTS = frozenset(
    (
        "",
        ".txt",
        ".text",
        ".csv",
        ".tsv",
        ".tab",
        ".jsonl",
        ".ndjson",
        ".json",
        ".conll",
        ".iob",
        ".bio",
        ".sgm",
        ".sgml",
        ".xml",
        ".label",
        ".tokens",
    )
)
_BINARY = frozenset((".npz", ".npy", ".parquet", ".arrow", ".tmx", ".zip", ".tar", ".tgz"))  # or declares its encoding
_WESTERN, _FASTTEXT, _MAC, _MIXED, _REMARK = "cp1252", "__label__", "\r", "mixed", "#"
_SEGMENTS, _TALKS, _TREC = "<seg", "<url>", "TREC"
_SEGMENT = re.compile(r"<seg[^>]*>(.*?)</seg>")
_CLASS = re.compile(r"[A-Z]{3,5}:[a-z]+ \S")
_TOLD = {
    _WESTERN: "is not UTF-8: read as Windows-1252 (Latin-1)",
    _FASTTEXT: "has labels in fastText format",
    _MAC: "ends its lines with carriage returns",
    _MIXED: "is UTF-8 in some lines only: the others are read as Windows-1252 (Latin-1)",
    _SEGMENTS: "has segments between tags",
    _TALKS: "has lines of tags, which are left out",
    _TREC: "has a class before each text, in TREC format",
    _REMARK: "begins with remarks, which are left out",
}
_MOST_BAD = 0.01  # of all lines may be broken, and are left out
_MOST_HIGH = 0.25  # of all bytes are beyond ASCII, in a language with Latin letters


def normalize_encoding(data: str, into: Path, report: Callable[[str], None]) -> str:
    """Return where readable `data` (a file, two files, a folder of texts) is: its own path, or a copy in `into`."""
    place = Path(data).expanduser()
    if place.is_dir():
        files = files_in(place)
        texts = [] if files.pictures or files.recordings else [name for name in files.names if _may_be_text(name)]
        forms = {name: _form(place / name) for name in texts}
        if not any(forms.values()):
            return data
        first = next(form for form in forms.values() if form)
        found = sum(map(bool, forms.values()))
        report(f"{place}: {found:,} files, of which the first {_TOLD.get(first, 'is UTF-16')}; copies in {into}")
        for name, form in forms.items():
            _write(place / name, into / _called(name, form), form)
        return str(into)
    if not place.exists() and "," in data:
        return ",".join(normalize_encoding(part.strip(), into, report) for part in data.split(","))
    if not place.is_file() or ending(place) in _BINARY or not (form := _form(place)):
        return data
    name = place.stem if place.suffix.lower() in PACKED else place.name
    file = into / _called(name, form)
    report(f"{place} {_TOLD.get(form, 'is UTF-16')}; a copy in the usual form: {file}")
    _write(place, file, form)
    return str(file)


def _may_be_text(name: str) -> bool:
    return ending(name) in _TEXTS or ".tags." in name


def _called(name: str, form: str) -> str:
    """Return the name of a copy: newstest2014-deen.de for newstest2014-deen-src.de.sgm, so that both sides match."""
    if form == _SEGMENTS:
        return re.sub(r"[-.](src|ref)(?=[-.])", "", str(Path(name).with_suffix("")))
    return str(Path(name).with_suffix(".tsv")) if form in (_FASTTEXT, _TREC) else name


def _form(path: Path) -> str:
    """Return the form to convert from; empty if no conversion is needed."""
    with open_bytes(path) as file:
        start = file.read(4096)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if is_pickle(start):  # `detect` raises the error
        return ""
    if b"\0" in start:  # with Latin letters in UTF-16, every second byte is zero
        even, odd = (start[side::2].count(0) / max(1, len(start) // 2) for side in (0, 1))
        return "utf-16-le" if odd > 0.4 > 10 * even else "utf-16-be" if even > 0.4 > 10 * odd else ""
    good = bad = high = size = count = 0
    for line in raw_lines(path):
        count += 1
        if not line.isascii():
            high, size = high + len(line.translate(None, bytes(range(128)))), size + len(line)
            with suppress(UnicodeDecodeError):
                line.decode()
                good += 1
                continue
            bad += 1
    if bad > good:  # otherwise some lines are broken, and left out
        if high > _MOST_HIGH * size:
            raise CallError(f"{path}: is not UTF-8; convert it: iconv -f ENCODING -t UTF-8 {path} > NEW")
        return _WESTERN
    if bad > _MOST_BAD * count:
        return _MIXED
    if ending(path) in (".csv", ".tsv", ".tab") and _remarks(start):
        return _REMARK
    if start.count(b"\r") > 3 and b"\n" not in start:
        return _MAC
    lines = start.decode(errors="ignore").splitlines()[:-1]
    if ending(path) in (".sgm", ".sgml", ".xml") and b"<seg" in start:
        return _SEGMENTS
    if b"<url>" in start and b"<talkid>" in start:
        return _TALKS
    if len(lines) > 3 and all(map(_CLASS.match, lines)):
        return _TREC
    return _FASTTEXT if lines and all(line.startswith(_FASTTEXT) and " " in line for line in lines) else ""


def _remarks(start: bytes) -> int:
    """Count the remarks above the table: lines that begin with # and lack the delimiter of the lines below."""
    lines = start.decode("utf-8-sig", errors="ignore").splitlines()[:-1]
    count = next((number for number, line in enumerate(lines) if not line.startswith(_REMARK)), 0)
    below = find_delimiter(lines[count:]) if count else None
    return count if below and not any(below in line for line in lines[:count]) else 0


def _decode_mixed(raw: io.BufferedReader) -> Iterator[str]:
    for line in raw:
        try:
            yield line.decode()
        except UnicodeDecodeError:
            yield line.decode(_WESTERN, "replace")


def _write(path: Path, to: Path, form: str) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    encoding = form if form == _WESTERN or form.startswith("utf-16") else "utf-8"
    ends = None if form == _MAC else "\n"  # None: a carriage return ends a line, too

    def copy(part: Path) -> None:
        raw = cast(io.BufferedReader, open_bytes(path))
        with (
            io.TextIOWrapper(raw, encoding, "replace", ends) as text,
            part.open("w", encoding="utf-8", newline="") as out,
        ):
            lines = _decode_mixed(raw) if form == _MIXED else iter(text)
            skipped = _remarks(raw.peek(4096)) if form == _REMARK else 0
            out.writelines(filter(None, (_usual(line, form) for line in islice(lines, skipped, None))))

    atomic.write_with(to, copy)


def _usual(line: str, form: str) -> str:
    """Return a line of the copy; empty for one that holds only tags."""
    if form == _SEGMENTS:
        found = _SEGMENT.search(line)
        return " ".join(html.unescape(found[1]).split()) + "\n" if found else ""
    if form == _TALKS:
        return "" if line.lstrip().startswith("<") else " ".join(line.split()) + "\n"
    if form == _TREC:
        return line.replace(" ", "\t", 1)
    return _split_fasttext_labels(line) if form == _FASTTEXT else line


def _split_fasttext_labels(line: str) -> str:
    """Return `__label__a __label__b text` as a row: several labels become one with both names."""
    words = line.split()
    labels = [word.removeprefix(_FASTTEXT) for word in words if word.startswith(_FASTTEXT)]
    return "+".join(labels) + "\t" + " ".join(word for word in words if not word.startswith(_FASTTEXT)) + "\n"
