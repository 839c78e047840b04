"""The sentences shown in documentation and demonstrations. They begin the test split and are never trained on."""

from regard.corpora.pair import Pair
from regard.corpora.pocket import lexicon as lex
from regard.corpora.pocket.both import Phrase, chain, render, word
from regard.corpora.pocket.clauses import (
    Tense,
    act,
    be,
    joined,
    quality,
    statement,
    with_it,
    with_object,
    with_receiver,
)
from regard.corpora.pocket.noun_phrases import BARE, SHE, THE, WE, A, I, NounPhrase, date, name, noun_phrase, pronoun

RED, BIG = lex.COLORS[0], lex.OF_THINGS[1]


def _the(noun: lex.Noun) -> NounPhrase:
    return noun_phrase(THE, noun, human=noun in lex.PEOPLE.values())


def _sentences() -> list[Phrase]:
    bread, letter = noun_phrase(BARE, lex.FOOD["bread"]), noun_phrase(A, lex.THINGS["letter"])
    house, table = noun_phrase(THE, lex.THINGS["house"], [RED]), _the(lex.THINGS["table"])
    letter_b = act(_the(lex.PEOPLE["girl"]), lex.WRITE, Tense.PROGRESSIVE)
    letter_b.objects = chain(_the(lex.ALPHABET_LETTER), word("B", "B"))
    bought = with_object(act(_the(lex.PEOPLE["woman"]), lex.BUY, Tense.PAST), table)
    painted = with_it(act(_the(lex.PEOPLE["man"]), lex.PAINT, Tense.PAST), table.gender)
    met = act(name("Ana", "f"), lex.KNOW_BY_MEETING, Tense.PRESENT)
    learned = act(name("Ana", "f"), lex.KNOW_AS_FACT, Tense.PRESENT)
    return [
        statement(with_object(act(pronoun(WE), lex.EAT, Tense.PROGRESSIVE), bread)),
        statement(with_receiver(with_object(act(pronoun(I), lex.WRITE, Tense.PROGRESSIVE), letter), SHE)),
        statement(letter_b),
        statement(be(house, lex.SER, quality(house, BIG))),
        statement(act(_the(lex.PEOPLE["queen"]), lex.ARRIVE, Tense.FUTURE).with_adverbials(date(3, "May"))),
        statement(with_object(met, _the(lex.PEOPLE["queen"]))),
        statement(with_object(learned, _the(lex.KNOWN_FACTS["answer"]))),
        joined(statement(bought), "and", "y", statement(painted)),
    ]


EXAMPLES: tuple[Pair, ...] = tuple(render(phrase) for phrase in _sentences())
