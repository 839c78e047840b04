"""Random sentences: plain statements, and combinations of them."""

from collections.abc import Callable

from regard.corpora.pair import Pair
from regard.corpora.pocket import lexicon as lex
from regard.corpora.pocket.both import Phrase, chain, idiom, marked, render, word
from regard.corpora.pocket.choices import Draw, food, other_pronoun, person, subject, thing, when
from regard.corpora.pocket.clauses import (
    Tense,
    act,
    asking,
    be,
    joined,
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
    PRONOUNS,
    THE,
    THIRD_SINGULAR,
    A,
    NounPhrase,
    counted,
    gap,
    listed,
    noun_phrase,
    pronoun,
)
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
    clause.objects = listed(items)
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
    return joined(statement(first), "and", "y", statement(second))


def contrasting(draw: Draw) -> Phrase:
    """Return a contrast, where Spanish keeps the pronouns: "I am reading, but she is sleeping"."""
    first = draw.pick(PRONOUNS)
    second = draw.pick([p for p in PRONOUNS if p is not first])
    tense = draw.weighted(TENSES)
    one = statement(action(draw, pronoun(first, stressed=True), simple=True, wanted=tense))
    two = statement(action(draw, pronoun(second, stressed=True), simple=True, wanted=tense))
    return joined(one, "but", "pero", two, comma=True)


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
    return joined(first, "because", "porque", statement(reason))


def compound(draw: Draw) -> Phrase:
    """Return two to four clauses in one tense. Subjects are full noun phrases, because pronouns would be ambiguous."""
    tense = draw.weighted(TENSES)

    def clause() -> Phrase:
        return statement(action(draw, person(draw), wanted=tense))

    out = clause()
    for _ in range(draw.weighted(((0.6, 1), (0.28, 2), (0.12, 3)))):
        english, spanish, comma = draw.pick((("and", "y", True), ("but", "pero", True), ("while", "mientras", False)))
        out = joined(out, english, spanish, clause(), comma=comma)
    return out


def question(draw: Draw) -> Phrase:
    who = subject(draw)
    kind = draw.pick(range(6))
    if kind < 2:
        return yes_no_question(action(draw, who, question=True))
    if kind == 2:
        anyone = NounPhrase(person=THIRD_SINGULAR)
        return who_does(action(draw, anyone))
    tense = draw.weighted(((0.4, Tense.PROGRESSIVE), (0.4, Tense.PAST), (0.2, Tense.FUTURE)))
    if kind == 3:
        verb = draw.pick((lex.EAT, lex.READ, lex.BUY, lex.PAINT, lex.SELL, lex.COOK, lex.DRINK))
        return asking(word("what", "qué"), act(who, verb, tense, question=True))
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
        return asking(idiom(*asked), act(who, verb, Tense.PAST if draw.chance(0.5) else Tense.FUTURE, question=True))
    verb, nouns = draw.pick(ACTIONS[:5])
    how_many = noun_phrase(counted(2), draw.pick(nouns), plural=True)
    marked(how_many.english[1:], False)  # "how many" takes the place of the number
    text = "cuántas" if how_many.gender == "f" else "cuántos"
    asked = chain(word("how many", text), Phrase(how_many.english[1:], how_many.spanish[1:]))
    return asking(asked, act(who, verb, tense, question=True))


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


def sentence(draw: Draw) -> Pair:
    """Return one sentence in both languages, with its links."""
    if draw.chance(0.08):
        return render(question(draw), "?")
    return render(draw.weighted(KINDS)(draw))
