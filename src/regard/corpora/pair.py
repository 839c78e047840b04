"""A sentence and its translation, and the words that alignments count."""

import re
from dataclasses import dataclass

WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def words(text: str) -> list[str]:
    """Return words and punctuation marks in order, which the indexes of an alignment count.

    A hyphen or an apostrophe inside a word belongs to it; every other mark is separate.

    >>> words("¿Son las dos?"), words("At two o'clock, twenty-one books.")
    (['¿', 'Son', 'las', 'dos', '?'], ['At', 'two', "o'clock", ',', 'twenty-one', 'books', '.'])
    """
    return WORD.findall(text)


@dataclass(frozen=True, slots=True)
class Pair:
    """A source sentence, its target, and gold links (source word, target word), counted from 0 over `words(...)`.

    `alignment` holds the sure links. `possible` holds those that an aligner may make or leave out, for words that
    only the grammar of one language asks for ("does" in a question, the "a" before a Spanish person). The two are
    disjoint (Och and Ney 2003, section 4, where S ⊆ P: their P is our `alignment` + `possible`).
    `phrases` are the noun phrases of the source, where the grammar knows them: a tag for each word, B-PER I-PER O.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...] = ()
    possible: tuple[tuple[int, int], ...] = ()
    phrases: tuple[str, ...] = ()
