"""Which language is this name or phrase from? Names of countries, languages and currencies, of months and days.

    Schweizer Franken → German      janvier → French      Antarktis → German, Danish, ... (left out)

Real data on any machine that has the package Babel: the names of the Unicode CLDR, as its translators write them in 30
languages, most of them in Latin script, so that letters alone do not tell. Where CLDR has no name of its own, languages
fall back on the same word; a text that is the same in two of the languages has no right answer and is left out.

A split is fixed by what is named, in all languages at once: if "Schweizer Franken" is for testing, so are "franc
suisse" and "frank szwajcarski", and nobody can get there by their likeness. Variants of one thing (French, Canadian
French) stay together.
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
SHORTEST = 3  # characters; less says nothing


def split_of(concept: str) -> str:
    """84% of what is named is for training, 4% for validation, 12% for testing."""
    bucket = zlib.crc32(concept.encode()) % 100
    return "valid" if bucket < 4 else "test" if bucket < 16 else "train"


def languages(split: str) -> list[Pair]:
    """Text → English name of its language; in an order that mixes languages."""
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
    owners: dict[str, set[str]] = defaultdict(set)  # of a text in lower case
    found: list[tuple[str, str, str]] = []
    for code in CODES:
        for concept, text in sorted(_concepts(Locale.parse(code))):
            if len(text) >= SHORTEST:
                owners[text.casefold()].add(code)
                found.append((concept, text, code))
    kept: dict[str, dict[tuple[str, str], None]] = {split: {} for split in SPLITS}
    places: dict[str, str] = {}  # the split in which a text was first seen: "mars" is a month, and nothing else then
    for concept, text, code in sorted(found, key=lambda one: zlib.crc32(f"{one[1]} {one[2]}".encode())):
        if len(owners[text.casefold()]) == 1:
            split = places.setdefault(text.casefold(), split_of(concept))
            kept[split][text, english[code]] = None
    return {split: list(pairs) for split, pairs in kept.items()}


def _concepts(locale: Any) -> Iterator[tuple[str, str]]:
    """What CLDR names, and its name in this language."""
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
