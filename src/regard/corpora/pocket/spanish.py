"""Spanish word forms: plurals, agreement, numbers, conjugation. Persons are counted I, you, he/she, we, they."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from regard.corpora.loading import SentencePair

Gender = Literal["m", "f"]
Forms = tuple[str, str, str, str, str]  # I, you (one, familiar), he/she/it, we, they

UNITS = [
    "cero",
    "uno",
    "dos",
    "tres",
    "cuatro",
    "cinco",
    "seis",
    "siete",
    "ocho",
    "nueve",
    "diez",
    "once",
    "doce",
    "trece",
    "catorce",
    "quince",
    "dieciséis",
]
UNITS += [
    "diecisiete",
    "dieciocho",
    "diecinueve",
    "veinte",
    "veintiuno",
    "veintidós",
    "veintitrés",
    "veinticuatro",
    "veinticinco",
]
UNITS += ["veintiséis", "veintisiete", "veintiocho", "veintinueve"]
TENS = {30: "treinta", 40: "cuarenta", 50: "cincuenta", 60: "sesenta", 70: "setenta", 80: "ochenta", 90: "noventa"}


def plural(noun: str) -> str:
    """casa → casas, ciudad → ciudades, actriz → actrices, canción → canciones."""
    if noun[-1] in "aeioué":
        return noun + "s"
    if noun[-1] == "z":
        return noun[:-1] + "ces"
    if noun[-2:] in ("ón", "ín"):  # the stress stays where it was, so the accent is no longer written
        return noun[:-2] + {"ón": "on", "ín": "in"}[noun[-2:]] + "es"
    return noun + "es"


def agree(adjective: str, gender: Gender, is_plural: bool) -> str:
    """rojo → roja, rojos, rojas; verde, azul, feliz do not change with gender."""
    if adjective == "joven" and is_plural:
        return "jóvenes"
    if gender == "f" and adjective.endswith("o"):
        adjective = adjective[:-1] + "a"
    return plural(adjective) if is_plural else adjective


def cardinal(number: int, gender: Gender) -> str:
    """Return 2 to 100 as used before a noun: veintiún libros, veintiuna casas, treinta y un libros, cien casas."""
    if number == 100:
        return "cien"
    tens, unit = (0, number) if number < 30 else (number // 10 * 10, number % 10)
    parts = [TENS[tens]] if tens else []
    if unit or not tens:
        last = UNITS[unit]
        if last.endswith("uno"):
            last = last[:-1] + "a" if gender == "f" else {"uno": "un", "veintiuno": "veintiún"}[last]
        parts.append(last)
    return " y ".join(parts)


@dataclass(frozen=True, slots=True)
class Conjugation:
    """The forms of one Spanish verb that the grammar uses. `past` translates an English past tense."""

    infinitive: str
    gerund: str
    present: Forms
    past: Forms


def conjugate(infinitive: str, present: str = "", past: str = "", gerund: str = "") -> Conjugation:
    """Return regular forms; irregular ones are arguments, five in a row, or one for "I" alone (conozco, busqué)."""
    stem, ending = infinitive[:-2], infinitive[-2:]
    endings = {"ar": "o as a amos an", "er": "o es e emos en", "ir": "o es e imos en"}[ending]
    past_endings = "é aste ó amos aron" if ending == "ar" else "í iste ió imos ieron"
    return Conjugation(
        infinitive,
        gerund or stem + ("ando" if ending == "ar" else "iendo"),
        _forms(stem, endings, present),
        _forms(stem, past_endings, past),
    )


def _forms(stem: str, endings: str, text: str) -> Forms:
    regular = [stem + ending for ending in endings.split()]
    first, second, third, we, they = [*text.split(), *regular[len(text.split()) :]]
    return first, second, third, we, they


# Parallel construction of two languages: every Spanish word refers to the English words that it translates.
#
# Phrases grow on both sides at once, in the word order of each language, and the links refer to word objects. Only
# `render` converts them to positions, so no rule of the grammar counts words.

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


def mark_object(english: Sequence[English], human: bool) -> None:
    """Mark these words as a noun phrase, of a person or of a thing."""
    for place, one in enumerate(english):
        one.phrase = f"{'I' if place else 'B'}-{'PER' if human else 'THING'}"


def chain(*phrases: Phrase) -> Phrase:
    """Concatenate phrases, in the same order in both languages."""
    return Phrase([w for p in phrases for w in p.english], [w for p in phrases for w in p.spanish])


def render(sentence: Phrase, mark: str = ".") -> SentencePair:
    """Return the sentence as text, with its links. `mark` ends it; a question also begins with "¿" in Spanish."""
    end = English(mark)
    english = [*sentence.english, end]
    spanish = _contract([*sentence.spanish, Spanish(mark, end)])
    if mark == "?":
        spanish.insert(0, Spanish("¿", possible=(end,)))
    position = {id(w): i for i, w in enumerate(english)}
    sure = {(position[id(w)], j) for j, s in enumerate(spanish) for w in s.sure}
    possible = {(position[id(w)], j) for j, s in enumerate(spanish) for w in s.possible} - sure
    source, target = _text(_articles(w.text for w in english)), _text(s.text for s in spanish)
    return SentencePair(source, target, tuple(sorted(sure)), tuple(sorted(possible)), tuple(w.phrase for w in english))


def _contract(spanish: list[Spanish]) -> list[Spanish]:
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
