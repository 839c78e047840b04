"""Load embedded corpora by name; each is generated or read on first use."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from regard.catalog import load_object
from regard.errors import CallError, nearest

PREFIX = "corpus:"
SPLITS = ("train", "valid", "test")
T = TypeVar("T")


@dataclass(frozen=True)
class Corpora(Generic[T]):
    """A table of corpora. `makers`: module:function of each, which takes a split; `what`: their noun in errors."""

    what: str
    makers: Mapping[str, str]

    def load(self, name: str, split: str) -> T:
        """Return a split (train, valid or test) of a corpus, named with or without `corpus:`."""
        name = name.removeprefix(PREFIX)
        if name not in self.makers:
            raise CallError(f"unknown {self.what}: {name!r}{nearest(name, tuple(self.makers))}")
        if split not in SPLITS:
            raise CallError(f"{name} has no split {split!r}{nearest(split, SPLITS)}")
        return load_object(self.makers[name])(split)


# Embedded corpora of two inputs: an object, a text about it, and the target.
#
# In a recipe, `data.train: corpus:shapes-questions` means `load_asked("shapes-questions", "train")`.


class QuestionExample(NamedTuple):
    """An example of two inputs. Rows of one `name` have the same `first`; `gold` is additional knowledge of the corpus,
    such as boxes in a picture."""

    name: str
    first: Any
    second: str
    target: str
    gold: Any = None


_ASKED: Corpora[Iterator[QuestionExample]] = Corpora(
    "corpus of two inputs", {"shapes-questions": "regard.corpora.shapes:shapes_questions"}
)
load_asked = _ASKED.load


# A sentence and its translation, and the words that alignments count.

WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def words(text: str) -> list[str]:
    """Return words and punctuation marks in order, which the indexes of an alignment count.

    A hyphen or an apostrophe inside a word belongs to it; every other mark is separate.

    >>> words("¿Son las dos?"), words("At two o'clock, twenty-one books.")
    (['¿', 'Son', 'las', 'dos', '?'], ['At', 'two', "o'clock", ',', 'twenty-one', 'books', '.'])
    """
    return WORD.findall(text)


@dataclass(frozen=True, slots=True)
class SentencePair:
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
