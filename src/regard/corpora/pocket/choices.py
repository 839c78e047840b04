"""Random choices that are the same on every machine and every Python version: all of them use `random()`."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from regard.corpora.pocket.clauses import Tense
from regard.corpora.pocket.lexicon import (
    ANIMALS,
    BAD,
    CITIES,
    COLORS,
    DAYS,
    DRINKS,
    FAMILY,
    FIRST,
    GOOD,
    GREAT,
    LAST,
    MONTHS,
    NAMES,
    OF_FOOD,
    OF_PEOPLE,
    OF_THINGS,
    PEOPLE,
    PLACES,
    THINGS,
    TUMBLER,
    WINE_GLASS,
    Adjective,
    Noun,
)
from regard.corpora.pocket.noun_phrases import (
    BARE,
    FIRST_PLURAL,
    FIRST_SINGULAR,
    HER,
    HIS,
    MANY,
    MY,
    OUR,
    PRONOUNS,
    SECOND_SINGULAR,
    SOME,
    THAT,
    THE,
    THEIR,
    THIS,
    YOUR,
    A,
    Determiner,
    NounPhrase,
    Pronoun,
    clock,
    date,
    name,
    noun_phrase,
    number_determiner,
    pronoun,
    times,
    together,
    weekday,
)
from regard.corpora.pocket.spanish import Phrase, chain, idiom, word

T = TypeVar("T")

POSSESSIVES = (MY, YOUR, HIS, HER, OUR, THEIR)
NUMBERS = (*range(2, 40), 40, 50, 60, 70, 80, 90)
YEARS = range(2010, 2020)
ALL_PEOPLE, ALL_FAMILY, ALL_ANIMALS, ALL_THINGS = (list(group.values()) for group in (PEOPLE, FAMILY, ANIMALS, THINGS))
SIBLINGS_AND_CHILDREN = [FAMILY[key] for key in ["brother", "sister", "son", "daughter"]]
COLORED = [
    THINGS[key]
    for key in ["house", "car", "table", "chair", "door", "window", "bicycle", "box", "book", "hat", "shirt", "flower"]
]
TEXTS = [THINGS[key] for key in ["song", "letter", "newspaper"]]
OPPOSITES = ({"small", "big"}, {"new", "old"}, {"expensive", "cheap"})
DETERMINERS_OF_ONE = ((0.4, THE), (0.35, A), (0.1, THIS), (0.15, None))  # None: a possessive
DETERMINERS_OF_MANY = ((0.3, THE), (0.1, SOME), (0.1, BARE), (0.1, MANY), (0.1, THIS), (0.3, None))  # None: a number
PAST_TIMES = (
    ("yesterday", "ayer", "0-0"),
    ("last night", "anoche", "0-0 1-0"),
    ("last week", "la semana pasada", "1?0 1-1 0-2"),
    ("for the first time", "por primera vez", "0-0 1?1 2-1 3-2"),
)
BEHIND = ("behind", "detrás de", "0-0 0?1")
NEW_OR_OLD = [a for a in OF_THINGS if a.english in ("new", "old")]


class Draw:
    """A random generator for choices."""

    def __init__(self, seed: int):
        self._random = Random(seed).random  # the only method with a sequence that Python guarantees

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self._random() * len(items))]

    def choose_weighted(self, items: Sequence[tuple[float, T]]) -> T:
        """Return one of the items, by weight; the weights add up to 1."""
        rest = self._random()
        for weight, item in items:
            rest -= weight
            if rest < 0:
                return item
        return items[-1][1]


def number(draw: Draw) -> Determiner:
    """Return a number; small ones are more common than large ones."""
    return number_determiner(draw.pick(NUMBERS) if draw.chance(0.5) else 2 + int(draw.pick(range(9))))


def adjectives_for(draw: Draw, noun: Noun, kind: Sequence[Adjective], often: float) -> list[Adjective]:
    """Return no, one, or two adjectives: one before the noun and one after it in Spanish, or two after it."""
    if not draw.chance(often):
        return []
    fitting = [*kind, *COLORS] if noun in COLORED else list(kind)
    first = draw.pick(fitting)
    if draw.chance(0.8):
        return [first]
    if draw.chance(0.5):
        return [draw.pick((GOOD, BAD)), first]
    second = draw.pick(kind)
    return [first] if first in COLORS or _clash(first, second) else [first, second]


def _clash(first: Adjective, second: Adjective) -> bool:
    return first is second or {first.english, second.english} in OPPOSITES


def person(draw: Draw, *, adjectives: float = 0.25) -> NounPhrase:
    """Return a person as a full noun phrase."""
    which = draw.pick(range(8))
    if which < 2:
        text = draw.pick(tuple(NAMES))
        return name(text, NAMES[text])
    plural = draw.chance(0.3)
    if which < 4:
        noun = draw.pick(SIBLINGS_AND_CHILDREN if plural else ALL_FAMILY)
        return noun_phrase(draw.pick(POSSESSIVES), noun, plural=plural, human=True)
    noun = draw.pick(ALL_PEOPLE)
    kind = [GREAT] if draw.chance(0.1) else adjectives_for(draw, noun, OF_PEOPLE, adjectives)
    determiner = draw.choose_weighted(((0.7, THE), (0.15, THIS), (0.15, THAT)))
    if plural and draw.chance(0.25):
        determiner = number(draw)
    return noun_phrase(determiner, noun, kind, plural=plural, human=True)


def subject(draw: Draw) -> NounPhrase:
    """Return the subject of an action: a pronoun that Spanish drops, a person, or two people."""
    if draw.chance(0.4):
        return pronoun(draw.pick(PRONOUNS))
    first = person(draw)
    if first.plural or not draw.chance(0.12):
        return first
    second = person(draw, adjectives=0.0)
    return first if second.plural else together(first, second)


def other_pronoun(draw: Draw, doer: NounPhrase) -> Pronoun:
    """Return a pronoun for another person than the subject ("I see me" is excluded)."""
    speakers = (FIRST_SINGULAR, FIRST_PLURAL)
    taken = speakers if doer.person in speakers else (SECOND_SINGULAR,) if doer.person == SECOND_SINGULAR else ()
    return draw.pick([p for p in PRONOUNS if p.person not in taken])


def thing(draw: Draw, nouns: Sequence[Noun], *, adjectives: float = 0.45, definite: bool = False) -> NounPhrase:
    """Return a countable thing."""
    noun = draw.pick(nouns)
    plural = draw.chance(0.35)
    kind = NEW_OR_OLD if noun in TEXTS else OF_THINGS if noun in ALL_THINGS else ()
    chosen = adjectives_for(draw, noun, kind, adjectives) if kind else []
    if definite:
        determiner = draw.choose_weighted(((0.7, THE), (0.15, THIS), (0.15, THAT)))
    elif plural:
        determiner = draw.choose_weighted(DETERMINERS_OF_MANY) or number(draw)
    else:
        determiner = draw.choose_weighted(DETERMINERS_OF_ONE) or draw.pick(POSSESSIVES)
    if determiner is THE and not chosen and not plural and draw.chance(0.12):
        chosen = [draw.pick((FIRST, LAST))]
    return noun_phrase(determiner, noun, chosen, plural=plural)


def food(draw: Draw, nouns: Sequence[Noun]) -> NounPhrase:
    """Return uncountable food: bread, the hot soup, cold water."""
    noun = draw.pick(nouns)
    adjective = [draw.pick(OF_FOOD)] if draw.chance(0.2) and noun.english[0] != "fish" else []
    return noun_phrase(draw.choose_weighted(((0.65, BARE), (0.35, THE))), noun, adjective)


def drink(draw: Draw) -> NounPhrase:
    """ "milk", "a glass of milk" (un vaso), "two glasses of wine" (dos copas)."""
    if draw.chance(0.6):
        return food(draw, list(DRINKS.values()))
    noun = DRINKS[draw.pick(("water", "milk", "wine"))]
    glass = WINE_GLASS if noun.english[0] == "wine" else TUMBLER
    plural = draw.chance(0.4)
    held = noun_phrase(number_determiner(draw.pick(range(2, 7))) if plural else A, glass, plural=plural)
    both = chain(held, word("of", "de"), noun_phrase(BARE, noun))
    return NounPhrase(both.english, both.spanish, held.person, held.gender)


def place(draw: Draw) -> Phrase:
    """ "in the garden", "near the station", "in London"."""
    if draw.chance(0.2):
        city = draw.pick(tuple(CITIES))
        return chain(word("in", "en"), word(city, CITIES[city]))
    where = draw.choose_weighted(((0.7, ("in", "en", "0-0")), (0.2, ("near", "cerca de", "0-0 0?1")), (0.1, BEHIND)))
    spots = [PLACES["school"], PLACES["station"], PLACES["market"]] if where is BEHIND else list(PLACES.values())
    return chain(idiom(*where), noun_phrase(THE, draw.pick(spots)))


def moment(draw: Draw) -> Phrase:
    """Return a day, a date or an hour that fits the past and the future."""
    match draw.pick(range(4)):
        case 0:
            return weekday(draw.pick(tuple(DAYS)))
        case 1:
            return clock(1 + draw.pick(range(12)), half=draw.chance(0.4))
        case _:
            year = draw.pick(YEARS) if draw.chance(0.3) else None
            return date(1 + draw.pick(range(28)), draw.pick(tuple(MONTHS)), year)


def when(draw: Draw, tense: Tense) -> Phrase:
    """Return an adverbial of time that fits the tense."""
    match tense:
        case Tense.PRESENT:
            return (
                idiom("every day", "todos los días", "0-0 1?1 1-2")
                if draw.chance(0.5)
                else weekday(draw.pick(tuple(DAYS)), every=True)
            )
        case Tense.PROGRESSIVE:
            return word("now", "ahora")
        case Tense.PAST if draw.chance(0.5):
            return moment(draw)
        case Tense.PAST if draw.chance(0.3):
            return times(draw.pick((None, 2, 3, 4, 5)))
        case Tense.PAST:
            return idiom(*draw.pick(PAST_TIMES))
        case Tense.PAST_PROGRESSIVE:
            return idiom(*draw.pick(PAST_TIMES[:2]))
        case _:
            return word("tomorrow", "mañana") if draw.chance(0.35) else moment(draw)
