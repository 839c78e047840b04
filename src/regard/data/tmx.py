"""Read translation memories (TMX 1.4), an exchange format of translation tools.

    <tu> <tuv xml:lang="en"><seg>a dog</seg></tuv> <tuv xml:lang="de"><seg>ein Hund</seg></tuv> </tu>

A unit is a row whose columns are its languages: data.source=en data.target=de. Markup inside a segment (<bpt>, <ph>) is
left out. One unit is in memory at a time.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from regard.errors import CallError
from regard.files.lines import BROKEN, open_bytes

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_MARKS = ("bpt", "ept", "it", "ph", "ut", "sub")  # elements that contain codes of a program


def tmx_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield units by language as in the file, in lower case; the first part of it (en of EN-US) if that is unique."""
    with open_bytes(path) as file:
        try:
            for _, element in ElementTree.iterparse(file, events=("end",)):
                if _name(element) == "tu":
                    yield _unit(element)
                    element.clear()
        except (ElementTree.ParseError, *BROKEN) as problem:
            raise CallError(f"{path}: cannot be read as TMX ({problem})") from None


def _unit(unit: ElementTree.Element) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variant in unit:
        language = (variant.get(_LANGUAGE) or variant.get("lang") or "").lower()
        segment = next((one for one in variant if _name(one) == "seg"), None)
        if language and segment is not None:
            short = language.partition("-")[0]
            found[language if short in found else short] = " ".join(_text(segment).split())
    return found


def _text(element: ElementTree.Element) -> str:
    inner = "".join(("" if _name(one) in _MARKS else _text(one)) + (one.tail or "") for one in element)
    return (element.text or "") + inner


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
