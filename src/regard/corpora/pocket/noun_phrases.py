"""Noun phrases: agreeing determiners, adjectives and nouns, pronouns, and expressions of time and place."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from regard.corpora.pocket.lexicon import DAYS, HUMANS, MONTHS, OCCASION, YEAR, Adjective, Noun
from regard.corpora.pocket.spanish import UNITS, English, Gender, Phrase, Spanish, cardinal, chain, mark_object, word

FIRST_SINGULAR, SECOND_SINGULAR, THIRD_SINGULAR, FIRST_PLURAL, THIRD_PLURAL = range(5)


@dataclass(slots=True)
class NounPhrase(Phrase):
    """A phrase that verbs and adjectives agree with.

    Its Spanish side is empty for a pronoun that Spanish drops; the verb then takes over its English word (`dropped`).
    """

    person: int = THIRD_SINGULAR
    gender: Gender = "m"
    human: bool = False
    dropped: list[English] = field(default_factory=list)

    @property
    def plural(self) -> bool:
        return self.person >= FIRST_PLURAL


@dataclass(frozen=True, slots=True, eq=False)
class Determiner:
    """A determiner: English for singular and plural; Spanish for masculine, feminine, masculine plural, feminine
    plural.

    An empty string means no word; None means that the determiner has no form for that number.
    """

    english: tuple[str | None, str | None]
    spanish: tuple[str, str, str, str]


THE = Determiner(("the", "the"), ("el", "la", "los", "las"))
A = Determiner(("a", None), ("un", "una", "", ""))
SOME = Determiner((None, "some"), ("", "", "unos", "unas"))
BARE = Determiner(("", ""), ("", "", "", ""))
IN_GENERAL = Determiner(("", ""), ("el", "la", "los", "las"))  # "she likes bread", "le gusta el pan"
MANY = Determiner((None, "many"), ("", "", "muchos", "muchas"))
THIS = Determiner(("this", "these"), ("este", "esta", "estos", "estas"))
THAT = Determiner(("that", "those"), ("ese", "esa", "esos", "esas"))
MY = Determiner(("my", "my"), ("mi", "mi", "mis", "mis"))
YOUR = Determiner(("your", "your"), ("tu", "tu", "tus", "tus"))
HIS = Determiner(("his", "his"), ("su", "su", "sus", "sus"))
HER = Determiner(("her", "her"), ("su", "su", "sus", "sus"))
OUR = Determiner(("our", "our"), ("nuestro", "nuestra", "nuestros", "nuestras"))
THEIR = Determiner(("their", "their"), ("su", "su", "sus", "sus"))

ENGLISH_UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
]
ENGLISH_UNITS += ["fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
ENGLISH_TENS = ["_", "_", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def english_cardinal(number: int) -> str:
    """Return 2 to 100 in English: two, twenty-one, ninety."""
    if number == 100:
        return "a hundred"
    if number < 20:
        return ENGLISH_UNITS[number]
    return ENGLISH_TENS[number // 10] + (f"-{ENGLISH_UNITS[number % 10]}" if number % 10 else "")


@cache
def number_determiner(number: int) -> Determiner:
    """Return a number of at least two, as a determiner."""
    masculine, feminine = cardinal(number, "m"), cardinal(number, "f")
    return Determiner((None, english_cardinal(number)), ("", "", masculine, feminine))


def noun_phrase(
    determiner: Determiner,
    noun: Noun,
    adjectives: Sequence[Adjective] = (),
    *,
    plural: bool = False,
    human: bool = False,
) -> NounPhrase:
    """ "the red house", "la casa roja": the adjective moves behind the noun unless it is one of the few that do not.

    Two that move are joined by "and": "the small and cheap house", "la casa pequeña y barata".
    """
    english_text = determiner.english[plural]
    if english_text is None:
        raise ValueError(f"{determiner} has no form for {'many' if plural else 'one'}")
    front = [a for a in adjectives if a.before]
    back = [a for a in adjectives if not a.before]
    spanish_text = determiner.spanish[2 * plural + (noun.gender == "f")]
    if noun.stressed_a and not plural and not front:
        spanish_text = {"la": "el", "una": "un"}.get(spanish_text, spanish_text)

    out = NounPhrase(*_parts(word(english_text, spanish_text)), gender=noun.gender, human=human)
    out.person = THIRD_PLURAL if plural else THIRD_SINGULAR
    head = word(noun.english[plural], noun.spanish[plural])
    if not english_text:
        for article in out.spanish:
            article.possible = tuple(head.english)
    moved: list[Spanish] = []
    for adjective in front:
        _extend(out, word(adjective.english, adjective.form(noun.gender, plural)))
    for i, adjective in enumerate(back):
        both = word(adjective.english, adjective.form(noun.gender, plural))
        if i:
            both = chain(word("and", "y"), both)
        out.english += both.english
        moved += both.spanish
    _extend(out, head)
    out.spanish += moved
    if noun not in (OCCASION, YEAR):  # "three times", "nine years old": nobody, and nothing
        mark_object(out.english, noun in HUMANS)
    return out


def _parts(phrase: Phrase) -> tuple[list[English], list[Spanish]]:
    return phrase.english, phrase.spanish


def _extend(phrase: Phrase, more: Phrase) -> None:
    phrase.english += more.english
    phrase.spanish += more.spanish


def name(text: str, gender: Gender) -> NounPhrase:
    out = NounPhrase(*_parts(word(text, text)), gender=gender, human=True)
    mark_object(out.english, True)
    return out


@dataclass(frozen=True, slots=True)
class Pronoun:
    """Pronouns of one person: subject, object; Spanish when stressed, as direct object and as receiver."""

    subject: str
    object: str
    stressed: str
    direct: str
    receiver: str
    person: int
    gender: Gender = "m"


I = Pronoun("I", "me", "yo", "me", "me", FIRST_SINGULAR)  # noqa: E741
YOU = Pronoun("you", "you", "tú", "te", "te", SECOND_SINGULAR)
HE = Pronoun("he", "him", "él", "lo", "le", THIRD_SINGULAR)
SHE = Pronoun("she", "her", "ella", "la", "le", THIRD_SINGULAR, "f")
WE = Pronoun("we", "us", "nosotros", "nos", "nos", FIRST_PLURAL)
THEY = Pronoun("they", "them", "ellos", "los", "les", THIRD_PLURAL)
PRONOUNS = (I, YOU, HE, SHE, WE, THEY)


def pronoun(which: Pronoun, *, stressed: bool = False) -> NounPhrase:
    """Return a subject pronoun. Spanish drops it, unless a contrast stresses it ("I ..., but she ...")."""
    english = English(which.subject)
    mark_object([english], True)
    if stressed:
        return NounPhrase([english], [Spanish(which.stressed, english)], which.person, which.gender, True)
    return NounPhrase([english], [], which.person, which.gender, True, dropped=[english])


def gap(owner: NounPhrase) -> NounPhrase:
    """Return the missing subject of a relative clause: no words, but the verb agrees with its owner."""
    return NounPhrase([], [], owner.person, owner.gender, owner.human)


def together(first: NounPhrase, second: NounPhrase) -> NounPhrase:
    """ "my mother and my sister": plural, and masculine unless both are feminine."""
    both = chain(first, word("and", "y"), second)
    gender: Gender = "f" if first.gender == second.gender == "f" else "m"
    return NounPhrase(*_parts(both), person=THIRD_PLURAL, gender=gender, human=first.human)


def join_items(items: Sequence[Phrase]) -> Phrase:
    """ "bread, cheese and milk"."""
    out = items[0]
    for item in items[1:-1]:
        out = chain(out, word(",", ","), item)
    return chain(out, word("and", "y"), items[-1])


def date(day: int, month: str, year: int | None = None) -> Phrase:
    """ "on the 3rd of May 2019", "el 3 de mayo de 2019". Spanish counts days plainly and writes months small."""
    suffix = "th" if 10 < day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    on, the = English("on"), English("the")
    article = Phrase([on, the], [Spanish("el", the, possible=(on,))])
    out = chain(article, word(f"{day}{suffix}", str(day)), word("of", "de"), word(month, MONTHS[month]))
    if year is not None:
        number = English(str(year))
        _extend(out, Phrase([number], [Spanish("de", possible=(number,)), Spanish(number.text, number)]))
    return out


def weekday(day: str, *, every: bool = False) -> Phrase:
    """ "on Monday", "el lunes"; "on Mondays", "los lunes"."""
    if not every:
        return chain(word("on", "el"), word(day, DAYS[day]))
    spanish = DAYS[day] if DAYS[day].endswith("s") else DAYS[day] + "s"
    return chain(word("on", "los"), word(day + "s", spanish))


def clock(hour: int, *, half: bool = False) -> Phrase:
    """ "at three o'clock", "a las tres"; "at half past one", "a la una y media"."""
    at, number = English("at"), English(ENGLISH_UNITS[hour])
    article, spanish = ("la", "una") if hour == 1 else ("las", UNITS[hour])
    if half:
        half_word, past = English("half"), English("past")
        english = [at, half_word, past, number]
        rest = [Spanish("y", past), Spanish("media", half_word)]
        return Phrase(
            english, [Spanish("a", at), Spanish(article, possible=(number,)), Spanish(spanish, number), *rest]
        )
    sharp = English("o'clock")
    return Phrase(
        [at, number, sharp],
        [Spanish("a", at), Spanish(article, possible=(sharp, number)), Spanish(spanish, number, possible=(sharp,))],
    )


def times(number: int | None) -> Phrase:
    """ "three times", "tres veces"; "many times", "muchas veces"."""
    return noun_phrase(MANY if number is None else number_determiner(number), OCCASION, plural=True)
