"""Parallel construction of two languages: every Spanish word refers to the English words that it translates.

Phrases grow on both sides at once, in the word order of each language, and the links refer to word objects. Only
`render` converts them to positions, so no rule of the grammar counts words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from regard.corpora.pair import Pair

CONTRACTIONS = {("a", "el"): "al", ("de", "el"): "del"}


class English:
    """One English word in one sentence. Two words with the same text are different objects.

    `phrase` is its tag in a noun phrase: B-PER, I-PER, B-THING, I-THING, or O outside.
    """

    __slots__ = ("phrase", "text")

    def __init__(self, text: str):
        self.text = text
        self.phrase = "O"


class Spanish:
    """One Spanish word, the English words it translates (`sure`), and those it may be linked to (`possible`)."""

    __slots__ = ("possible", "sure", "text")

    def __init__(self, text: str, *sure: English, possible: Sequence[English] = ()):
        self.text = text
        self.sure = sure
        self.possible = tuple(possible)


@dataclass(slots=True)
class Phrase:
    """The same phrase in both languages."""

    english: list[English] = field(default_factory=list)
    spanish: list[Spanish] = field(default_factory=list)


def word(english: str, spanish: str) -> Phrase:
    """Return words that translate each other as a whole: all are linked, as in "thirty-one", "treinta y uno"."""
    left = [English(text) for text in english.split()]
    return Phrase(left, [Spanish(text, *left) for text in spanish.split()])


def idiom(english: str, spanish: str, links: str) -> Phrase:
    """Return a set phrase with explicit links: "0-1" is sure, "0?1" possible (English word, Spanish word, from 0)."""
    left = [English(text) for text in english.split()]
    right = [Spanish(text) for text in spanish.split()]
    for link in links.split():
        i, j = link.replace("?", "-").split("-")
        if "?" in link:
            right[int(j)].possible += (left[int(i)],)
        else:
            right[int(j)].sure += (left[int(i)],)
    return Phrase(left, right)


def marked(english: Sequence[English], human: bool) -> None:
    """Mark these words as a noun phrase, of a person or of a thing."""
    for place, one in enumerate(english):
        one.phrase = f"{'I' if place else 'B'}-{'PER' if human else 'THING'}"


def chain(*phrases: Phrase) -> Phrase:
    """Concatenate phrases, in the same order in both languages."""
    return Phrase([w for p in phrases for w in p.english], [w for p in phrases for w in p.spanish])


def render(sentence: Phrase, mark: str = ".") -> Pair:
    """Return the sentence as text, with its links. `mark` ends it; a question also begins with "¿" in Spanish."""
    end = English(mark)
    english = [*sentence.english, end]
    spanish = _contracted([*sentence.spanish, Spanish(mark, end)])
    if mark == "?":
        spanish.insert(0, Spanish("¿", possible=(end,)))
    position = {id(w): i for i, w in enumerate(english)}
    sure = {(position[id(w)], j) for j, s in enumerate(spanish) for w in s.sure}
    possible = {(position[id(w)], j) for j, s in enumerate(spanish) for w in s.possible} - sure
    source, target = _text(_articles(w.text for w in english)), _text(s.text for s in spanish)
    return Pair(source, target, tuple(sorted(sure)), tuple(sorted(possible)), tuple(w.phrase for w in english))


def _contracted(spanish: list[Spanish]) -> list[Spanish]:
    """Contract a + el → al, de + el → del; "y" becomes "e" before the sound i."""
    out: list[Spanish] = []
    for this in spanish:
        before = out[-1] if out else None
        if before and (before.text, this.text) in CONTRACTIONS:
            text = CONTRACTIONS[before.text, this.text]
            out[-1] = Spanish(text, *before.sure, *this.sure, possible=before.possible + this.possible)
            continue
        if before and before.text == "y" and this.text.startswith(("i", "hi")):
            out[-1] = Spanish("e", *before.sure, possible=before.possible)
        out.append(this)
    return out


def _articles(english: Iterable[str]) -> list[str]:
    """Change "a" to "an" before a vowel; the lexicon has no word whose letter and sound disagree."""
    out = list(english)
    for i in range(len(out) - 1):
        if out[i] == "a" and out[i + 1][0] in "aeiou":
            out[i] = "an"
    return out


def _text(tokens: Iterable[str]) -> str:
    """Join tokens: marks are attached to their words; the first letter is a capital."""
    text = " ".join(tokens).replace("¿ ", "¿").replace(" ,", ",").replace(" .", ".").replace(" ?", "?")
    start = int(text[0] == "¿")
    return text[:start] + text[start].upper() + text[start + 1 :]
