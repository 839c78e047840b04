"""Random sentences: plain statements, and combinations of them."""

from collections.abc import Callable

from regard.corpora.loading import SentencePair
from regard.corpora.pocket import lexicon as lex
from regard.corpora.pocket.choices import Draw, food, other_pronoun, person, subject, thing, when
from regard.corpora.pocket.clauses import (
    Tense,
    act,
    be,
    join_clauses,
    make_question,
    quality,
    relative,
    statement,
    who_does,
    with_it,
    with_object,
    with_receiver,
    yes_no_question,
)
from regard.corpora.pocket.noun_phrases import (
    BARE,
    PRONOUNS,
    SHE,
    THE,
    THIRD_SINGULAR,
    WE,
    A,
    I,
    NounPhrase,
    date,
    gap,
    join_items,
    name,
    noun_phrase,
    number_determiner,
    pronoun,
)
from regard.corpora.pocket.spanish import Phrase, chain, idiom, mark_object, render, word
from regard.corpora.pocket.statements import (
    ACTIONS,
    DESCRIBED,
    FOODS,
    GOODS,
    TENSES,
    acting,
    action,
    comparing,
    describing,
    existing,
    having,
    knowing,
    liking,
    living,
    reporting,
    spelling,
    tense_for,
)


def with_relative(draw: Draw) -> Phrase:
    """Return a subject with a relative clause."""
    if draw.chance(0.5):
        owner = person(draw)
        while owner.english[0].text[0].isupper():  # a name needs no relative clause
            owner = person(draw)
        who = relative(owner, action(draw, gap(owner), simple=True), "who")
        if draw.chance(0.5):
            return statement(be(who, lex.ESTAR, quality(who, draw.pick(lex.MOODS))))
        return statement(action(draw, who))
    owner = thing(draw, DESCRIBED, adjectives=0.0, definite=True)
    inner = act(subject(draw), draw.pick((lex.BUY, lex.SELL, lex.PAINT, lex.CLEAN)), Tense.PAST)
    what = relative(owner, inner, "that")
    return statement(be(what, lex.SER, quality(what, draw.pick(lex.COLORS + lex.OF_THINGS))))


def shopping(draw: Draw) -> Phrase:
    """A list: "bread, cheese, two apples and a red chair"."""
    who = subject(draw)
    tense = tense_for(draw, lex.BUY, who)
    items: list[Phrase] = []
    for _ in range(2 + draw.pick(range(4))):
        items.append(
            food(draw, FOODS) if draw.chance(0.4) else thing(draw, [*lex.FRUIT.values(), *GOODS], adjectives=0.35)
        )
    clause = act(who, lex.BUY, tense)
    clause.objects = join_items(items)
    return statement(clause.with_adverbials(when(draw, tense)) if draw.chance(0.5) else clause)


def with_reference(draw: Draw) -> Phrase:
    """ "The woman bought the table and the man painted it": "la pintó", for "la mesa"."""
    tense = draw.pick((Tense.PAST, Tense.PAST, Tense.FUTURE, Tense.GOING_TO))
    noun = draw.pick(DESCRIBED)
    plural = draw.chance(0.3)
    what = noun_phrase(THE if draw.chance(0.5) or plural else A, noun, plural=plural)
    first = with_object(act(subject(draw), draw.pick((lex.BUY, lex.SELL, lex.LOOK_FOR)), tense), what)
    other = subject(draw)
    if draw.chance(0.4):
        second = with_it(act(other, draw.pick((lex.GIVE, lex.SEND, lex.SELL)), tense), what.gender, plural=plural)
        second = with_receiver(second, other_pronoun(draw, other))
    else:
        second = with_it(act(other, draw.pick((lex.PAINT, lex.CLEAN, lex.BUY)), tense), what.gender, plural=plural)
    return join_clauses(statement(first), "and", "y", statement(second))


def contrasting(draw: Draw) -> Phrase:
    """Return a contrast, where Spanish keeps the pronouns: "I am reading, but she is sleeping"."""
    first = draw.pick(PRONOUNS)
    second = draw.pick([p for p in PRONOUNS if p is not first])
    tense = draw.choose_weighted(TENSES)
    one = statement(action(draw, pronoun(first, stressed=True), simple=True, wanted=tense))
    two = statement(action(draw, pronoun(second, stressed=True), simple=True, wanted=tense))
    return join_clauses(one, "but", "pero", two, comma=True)


def giving_reasons(draw: Draw) -> Phrase:
    """ "because she is tired", "porque está cansada": the pronoun's gender is heard in the adjective."""
    who = person(draw)
    past = draw.chance(0.4)
    tense = draw.pick((Tense.PAST, Tense.PAST_PROGRESSIVE) if past else (Tense.PROGRESSIVE, Tense.GOING_TO, Tense.WANT))
    first = statement(action(draw, who, wanted=tense))
    again = next(p for p in PRONOUNS if p.person == who.person and (who.plural or p.gender == who.gender))
    # "they" is masculine in Spanish by default, so women are referred to by words without gender.
    back = pronoun(again)
    if draw.chance(0.5) and not (who.plural and who.gender == "f"):
        reason = be(back, lex.ESTAR, quality(back, draw.pick(lex.MOODS)), past=past)
    else:
        feeling = draw.pick(("hungry", "thirsty", "cold"))
        reason = be(back, lex.TENER, word(feeling, lex.FEELINGS[feeling]), past=past)
    return join_clauses(first, "because", "porque", statement(reason))


def compound(draw: Draw) -> Phrase:
    """Return two to four clauses in one tense. Subjects are full noun phrases, because pronouns would be ambiguous."""
    tense = draw.choose_weighted(TENSES)

    def clause() -> Phrase:
        return statement(action(draw, person(draw), wanted=tense))

    out = clause()
    for _ in range(draw.choose_weighted(((0.6, 1), (0.28, 2), (0.12, 3)))):
        english, spanish, comma = draw.pick((("and", "y", True), ("but", "pero", True), ("while", "mientras", False)))
        out = join_clauses(out, english, spanish, clause(), comma=comma)
    return out


def question(draw: Draw) -> Phrase:
    who = subject(draw)
    kind = draw.pick(range(6))
    if kind < 2:
        return yes_no_question(action(draw, who, question=True))
    if kind == 2:
        anyone = NounPhrase(person=THIRD_SINGULAR)
        return who_does(action(draw, anyone))
    tense = draw.choose_weighted(((0.4, Tense.PROGRESSIVE), (0.4, Tense.PAST), (0.2, Tense.FUTURE)))
    if kind == 3:
        verb = draw.pick((lex.EAT, lex.READ, lex.BUY, lex.PAINT, lex.SELL, lex.COOK, lex.DRINK))
        return make_question(word("what", "qué"), act(who, verb, tense, question=True))
    if kind == 4:
        asked, verb = draw.pick(
            (
                (("where", "dónde", "0-0"), lex.WORK),
                (("where", "dónde", "0-0"), lex.LIVE),
                (("when", "cuándo", "0-0"), lex.ARRIVE),
                (("at what time", "a qué hora", "0-0 1-1 2-2"), lex.ARRIVE),
                (("why", "por qué", "0-0 0-1"), lex.RUN),
            )
        )
        return make_question(
            idiom(*asked), act(who, verb, Tense.PAST if draw.chance(0.5) else Tense.FUTURE, question=True)
        )
    verb, nouns = draw.pick(ACTIONS[:5])
    how_many = noun_phrase(number_determiner(2), draw.pick(nouns), plural=True)
    mark_object(how_many.english[1:], False)  # "how many" takes the place of the number
    text = "cuántas" if how_many.gender == "f" else "cuántos"
    asked = chain(word("how many", text), Phrase(how_many.english[1:], how_many.spanish[1:]))
    return make_question(asked, act(who, verb, tense, question=True))


KINDS: tuple[tuple[float, Callable[[Draw], Phrase]], ...] = (
    (0.32, acting),
    (0.11, describing),
    (0.03, comparing),
    (0.03, existing),
    (0.04, having),
    (0.04, knowing),
    (0.03, reporting),
    (0.03, liking),
    (0.04, spelling),
    (0.03, living),
    (0.04, with_relative),
    (0.03, shopping),
    (0.05, with_reference),
    (0.03, contrasting),
    (0.04, giving_reasons),
    (0.11, compound),
)


def sentence(draw: Draw) -> SentencePair:
    """Return one sentence in both languages, with its links."""
    if draw.chance(0.08):
        return render(question(draw), "?")
    return render(draw.choose_weighted(KINDS)(draw))


# The sentences shown in documentation and demonstrations. They begin the test split and are never trained on.

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
        join_clauses(statement(bought), "and", "y", statement(painted)),
    ]


EXAMPLES: tuple[SentencePair, ...] = tuple(render(phrase) for phrase in _sentences())
