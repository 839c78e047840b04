"""Classify the language of a name or phrase: names of countries, languages and currencies, of months and days.

    Schweizer Franken → German      janvier → French      Antarktis → German, Danish, ... (left out)

Real data from the package Babel: the names of the Unicode CLDR in 30 languages, most of them in Latin script, so that
the script does not decide. Where CLDR lacks a name, languages share a fallback; a text that is the same in two of the
languages is ambiguous and left out.

A split is determined by the concept, in all languages at once. If "Schweizer Franken" is for testing, so are "franc
suisse" and "frank szwajcarski", so similar words do not leak. Variants of one thing (French, Canadian French) stay
together.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

from regard.corpora.loading import SPLITS
from regard.corpora.pair import Pair
from regard.errors import CallError, nearest, pip_install

CODES = (
    "bg", "ca", "cs", "cy", "da", "de", "el", "en", "es", "et", "eu", "fi", "fr", "hr", "hu",
    "id", "it", "lt", "lv", "nb", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "tr", "uk",
)  # fmt: skip
SHORTEST = 3  # characters; shorter names are ambiguous


def split_of(concept: str) -> str:
    """Return the split of a concept: 84% train, 4% valid, 12% test."""
    bucket = zlib.crc32(concept.encode()) % 100
    return "valid" if bucket < 4 else "test" if bucket < 16 else "train"


def languages(split: str) -> list[Pair]:
    """Return pairs of a text and the English name of its language, in an order that mixes languages."""
    if split not in SPLITS:
        raise CallError(f"languages has no split {split!r}{nearest(split, SPLITS)}")
    return [Pair(text, language) for text, language in _names()[split]]


@cache
def _names() -> dict[str, list[tuple[str, str]]]:
    try:
        from babel import Locale
    except ImportError:
        raise CallError(f"the corpus 'languages' needs the package babel: {pip_install('regard[languages]')}") from None
    english = Locale.parse("en").languages
    owners: dict[str, set[str]] = defaultdict(set)  # for a text in lower case
    found: list[tuple[str, str, str]] = []
    for code in CODES:
        for concept, text in sorted(_concepts(Locale.parse(code))):
            if len(text) >= SHORTEST:
                owners[text.casefold()].add(code)
                found.append((concept, text, code))
    kept: dict[str, dict[tuple[str, str], None]] = {split: {} for split in SPLITS}
    places: dict[
        str, str
    ] = {}  # the split in which a text first occurred: "mars" as a month excludes any other meaning
    for concept, text, code in sorted(found, key=lambda one: zlib.crc32(f"{one[1]} {one[2]}".encode())):
        if len(owners[text.casefold()]) == 1:
            split = places.setdefault(text.casefold(), split_of(concept))
            kept[split][text, english[code]] = None
    return {split: list(pairs) for split, pairs in kept.items()}


def _concepts(locale: Any) -> Iterator[tuple[str, str]]:
    """Yield the concepts that CLDR names, with their names in this language."""
    for code, name in locale.territories.items():
        yield f"territory {code}", name
    for code, name in locale.languages.items():
        yield f"language {code.partition('_')[0]}", name
    for code, name in locale.currencies.items():
        yield f"currency {code}", name
    for kind in ("format", "stand-alone"):
        for number, name in locale.months[kind]["wide"].items():
            yield f"month {number}", name
        for number, name in locale.days[kind]["wide"].items():
            yield f"day {number}", name
