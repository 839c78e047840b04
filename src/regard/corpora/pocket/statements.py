"""Random plain statements: actions, properties, possession, knowledge, likes."""

from regard.corpora.pocket import lexicon as lex
from regard.corpora.pocket.choices import (
    ALL_ANIMALS,
    SIBLINGS_AND_CHILDREN,
    Draw,
    drink,
    food,
    number,
    other_pronoun,
    person,
    place,
    subject,
    thing,
    when,
)
from regard.corpora.pocket.clauses import (
    Clause,
    Tense,
    act,
    age,
    be,
    comparison,
    join_clauses,
    like,
    quality,
    statement,
    there_is,
    with_object,
    with_pronoun,
    with_receiver,
)
from regard.corpora.pocket.lexicon import Noun, Verb
from regard.corpora.pocket.noun_phrases import (
    IN_GENERAL,
    MANY,
    PRONOUNS,
    THE,
    THIRD_PLURAL,
    THIRD_SINGULAR,
    A,
    NounPhrase,
    noun_phrase,
    number_determiner,
)
from regard.corpora.pocket.spanish import Phrase, chain, idiom, word


def _things(keys: str) -> list[Noun]:
    return [lex.THINGS[key] for key in keys.split()]


GOODS = _things("house car table chair bicycle box book newspaper picture flower map hat shirt") + ALL_ANIMALS
OPENED = _things("door window box")
ACTIONS: list[tuple[Verb, list[Noun]]] = [
    (lex.READ, _things("book newspaper letter")),
    (lex.WRITE, _things("book song letter")),
    (lex.BUY, GOODS),
    (lex.SELL, GOODS),
    (lex.PAINT, _things("house door table chair window bicycle box picture")),
    (lex.OPEN, OPENED),
    (lex.CLOSE, OPENED),
    (lex.CLEAN, _things("house car table chair window bicycle shirt")),
    (lex.SING, _things("song")),
    (lex.LOOK_FOR, [*_things("book map hat letter car bicycle"), *ALL_ANIMALS]),
]
GIFTS: list[tuple[Verb, list[Noun]]] = [
    (lex.WRITE, _things("letter")),
    (lex.SEND, _things("letter flower book picture map")),
    (lex.GIVE, GOODS),
    (lex.SELL, GOODS),
]
MEETINGS: list[Verb] = [lex.SEE, lex.VISIT, lex.WAIT_FOR, lex.LOOK_FOR]
MOVES: list[Verb] = [lex.WORK, lex.SLEEP, lex.RUN, lex.SWIM]
TENSES = (
    (0.14, Tense.PRESENT),
    (0.26, Tense.PROGRESSIVE),
    (0.22, Tense.PAST),
    (0.07, Tense.PAST_PROGRESSIVE),
    (0.09, Tense.FUTURE),
    (0.08, Tense.GOING_TO),
    (0.06, Tense.WANT),
    (0.04, Tense.CAN),
    (0.04, Tense.HAVE_TO),
)


FOODS, FRUITS = list(lex.FOOD.values()), list(lex.FRUIT.values())
DESCRIBED = _things("house car table chair bicycle box hat shirt")
ACTION_KINDS = ((0.4, "thing"), (0.15, "gift"), (0.12, "food"), (0.12, "person"), (0.09, "play"), (0.12, "move"))
HABITS = (lex.EAT, lex.DRINK, lex.WRITE, lex.BUY, lex.SELL, lex.WORK, lex.SLEEP, lex.PLAY_MUSIC, lex.PLAY_GAME, lex.SEE)


def tense_for(draw: Draw, verb: Verb, doer: NounPhrase, tense: Tense | None = None) -> Tense:
    """Return a tense that suits the verb, near the requested one.

    "I read" may be present or past, and one source must have one target: there we only say what is in progress. The
    same holds for the simple present of the rarer verbs in the first and second person, to keep the vocabulary small.
    What is seen is not in progress.
    """
    tense = tense or draw.choose_weighted(TENSES)
    ambiguous = verb is lex.READ and doer.person != THIRD_SINGULAR
    rare = verb not in HABITS and doer.person not in (THIRD_SINGULAR, THIRD_PLURAL)
    if tense is Tense.PRESENT and (ambiguous or rare):
        return Tense.PROGRESSIVE
    if verb is lex.SEE and tense in (Tense.PROGRESSIVE, Tense.PAST_PROGRESSIVE):
        return Tense.PAST
    return tense


def action(
    draw: Draw, doer: NounPhrase, *, question: bool = False, simple: bool = False, wanted: Tense | None = None
) -> Clause:
    """Return an action with optional objects, receiver, time and place."""
    kind = draw.choose_weighted(ACTION_KINDS)
    negative = not simple and draw.chance(0.12)
    frequency = None

    def start(verb: Verb) -> tuple[Tense, Clause]:
        tense = tense_for(draw, verb, doer, wanted)
        always = frequency if tense is Tense.PRESENT and not negative and not question else None
        return tense, act(doer, verb, tense, negative=negative, question=question, frequency=always)

    if draw.chance(0.2):
        frequency = word("always", "siempre")
    match kind:
        case "thing":
            verb, nouns = draw.pick(ACTIONS)
            tense, clause = start(verb)
            clause = with_object(clause, thing(draw, nouns))
        case "gift":
            verb, nouns = draw.pick(GIFTS)
            tense, clause = start(verb)
            clause = with_object(clause, thing(draw, nouns))
            receiver = other_pronoun(draw, doer) if draw.chance(0.6) else person(draw, adjectives=0.0)
            clause = with_receiver(clause, receiver)
        case "food":
            if draw.chance(0.35):
                tense, clause = start(lex.DRINK)
                clause = with_object(clause, drink(draw))
            else:
                tense, clause = start(draw.pick((lex.EAT, lex.COOK)))
                fruit = draw.chance(0.3)
                eaten = thing(draw, FRUITS) if fruit else food(draw, FOODS)
                clause = with_object(clause, eaten)
        case "person":
            tense, clause = start(draw.pick(MEETINGS))
            if draw.chance(0.4):
                clause = with_pronoun(clause, other_pronoun(draw, doer))
            else:
                clause = with_object(clause, person(draw))
        case "play":
            tense, clause = start(play := draw.pick((lex.PLAY_MUSIC, lex.PLAY_GAME)))
            if play is lex.PLAY_MUSIC:
                clause = with_object(clause, noun_phrase(THE, draw.pick(list(lex.INSTRUMENTS.values()))))
            else:
                game = draw.pick(tuple(lex.GAMES))
                clause.objects = idiom(game, f"a el {lex.GAMES[game]}", "0?0 0?1 0-2")
        case _:
            tense, clause = start(draw.pick(MOVES))
    if not simple and draw.chance(0.25):
        clause = clause.with_adverbials(place(draw))
    if not simple and draw.chance(0.35) and frequency is None:
        clause = clause.with_adverbials(when(draw, tense))
    return clause


def acting(draw: Draw) -> Phrase:
    return statement(action(draw, subject(draw)))


def describing(draw: Draw) -> Phrase:
    """Return a description of a person or thing: property, place, age."""
    negative, past = draw.chance(0.12), draw.chance(0.25)
    match draw.pick(range(7)):
        case 0:
            who = subject(draw) if draw.chance(0.5) else person(draw)
            feeling = draw.pick(tuple(lex.FEELINGS))
            links = "2-0 0?0 1?0" if feeling == "in a hurry" else "0-0"
            return statement(
                be(who, lex.TENER, idiom(feeling, lex.FEELINGS[feeling], links), past=past, negative=negative)
            )
        case 1:
            who = person(draw)
            return statement(be(who, lex.ESTAR, quality(who, draw.pick(lex.MOODS)), past=past, negative=negative))
        case 2:
            who = person(draw, adjectives=0.0)
            return statement(be(who, lex.SER, quality(who, draw.pick(lex.OF_PEOPLE)), past=past, negative=negative))
        case 3:
            what = thing(draw, DESCRIBED, adjectives=0.0, definite=True)
            verb, states = draw.choose_weighted(
                ((0.6, (lex.SER, lex.COLORS + lex.OF_THINGS)), (0.4, (lex.ESTAR, lex.STATES)))
            )
            return statement(be(what, verb, quality(what, draw.pick(states)), past=past, negative=negative))
        case 4:
            what = thing(draw, OPENED, definite=True)
            return statement(
                be(what, lex.ESTAR, quality(what, draw.pick(lex.OPEN_OR_CLOSED)), past=past, negative=negative)
            )
        case 5:
            who = subject(draw) if draw.chance(0.5) else thing(draw, GOODS, definite=True)
            return statement(be(who, lex.ESTAR, place(draw), past=past, negative=negative))
        case _:
            who = person(draw, adjectives=0.0)
            years = noun_phrase(number(draw), lex.YEAR, plural=True)
            return statement(be(who, lex.TENER, age(years), past=past))


def comparing(draw: Draw) -> Phrase:
    if draw.chance(0.4):
        first, second = person(draw, adjectives=0.0), person(draw, adjectives=0.0)
        kind = lex.OF_PEOPLE
    else:
        first, second = (thing(draw, DESCRIBED, definite=True) for _ in range(2))
        kind = lex.OF_THINGS
    if [w.text for w in first.english] == [w.text for w in second.english]:
        return comparing(draw)
    return statement(be(first, lex.SER, comparison(first, draw.pick(kind), second), past=draw.chance(0.2)))


def existing(draw: Draw) -> Phrase:
    """Return a statement that something exists somewhere. Living fish are "peces"."""
    past = draw.chance(0.2)
    if draw.chance(0.15):
        fish = noun_phrase(draw.pick((MANY, number(draw))), lex.LIVE_FISH, plural=True)
        return there_is(fish, chain(word("in", "en"), word("the river", "el río")), past=past)
    determiner = draw.pick((number(draw), number(draw), MANY, A))
    noun = draw.pick(GOODS)
    adjectives = [draw.pick(lex.OF_THINGS)] if noun not in ALL_ANIMALS and draw.chance(0.5) else []
    return there_is(noun_phrase(determiner, noun, adjectives, plural=determiner is not A), place(draw), past=past)


def having(draw: Draw) -> Phrase:
    """ "has two brothers", "has time" (tiempo)."""
    who = subject(draw)
    negative = draw.chance(0.3)
    clause = act(who, lex.HAVE, Tense.PRESENT if draw.chance(0.7) else Tense.PAST, negative=negative)
    match draw.pick(range(3)):
        case 0:
            clause.objects = word("time", "tiempo")
        case 1:
            plural = draw.chance(0.6)
            determiner = number_determiner(2 + draw.pick(range(6))) if plural else A
            clause.objects = noun_phrase(determiner, draw.pick(SIBLINGS_AND_CHILDREN), plural=plural)
        case _:
            clause.objects = thing(draw, GOODS)
    return statement(clause)


def knowing(draw: Draw) -> Phrase:
    """ "know": conocer a person or a city, saber an answer or that something is so."""
    who, negative = subject(draw), draw.chance(0.2)
    kind = draw.pick(range(4))
    verb = lex.KNOW_BY_MEETING if kind < 2 else lex.KNOW_AS_FACT
    clause = act(who, verb, Tense.PRESENT, negative=negative)
    if kind == 0:
        return statement(with_object(clause, person(draw)))
    if kind == 1:
        known = thing(
            draw, [lex.PLACES["city"], lex.PLACES["park"], lex.PLACES["market"], lex.PLACES["street"]], definite=True
        )
        return statement(with_object(clause, known))
    if kind == 2:
        return statement(with_object(clause, noun_phrase(THE, draw.pick(list(lex.KNOWN_FACTS.values())))))
    return join_clauses(statement(clause), "that", "que", draw.pick((describing, acting))(draw))


def reporting(draw: Draw) -> Phrase:
    speaker = act(subject(draw), draw.pick((lex.SAY, lex.THINK)), Tense.PRESENT)
    return join_clauses(statement(speaker), "that", "que", draw.pick((describing, acting, comparing))(draw))


def liking(draw: Draw) -> Phrase:
    who = draw.pick(PRONOUNS) if draw.chance(0.5) else person(draw, adjectives=0.1)
    if draw.chance(0.5):
        liked = noun_phrase(IN_GENERAL, draw.pick([*lex.FOOD.values(), *lex.DRINKS.values()]))
    elif draw.chance(0.3):
        liked = noun_phrase(IN_GENERAL, draw.pick([*lex.FRUIT.values(), *ALL_ANIMALS]), plural=True)
    else:
        liked = thing(draw, GOODS, definite=True)
    return like(who, liked, negative=draw.chance(0.25))


def spelling(draw: Draw) -> Phrase:
    """Return a sentence about "letters": of the alphabet "letras", as mail "cartas"."""
    who = subject(draw)
    verb = draw.pick((lex.WRITE, lex.READ, lex.SEE, lex.LOOK_FOR))
    clause = act(who, verb, tense_for(draw, verb, who), negative=draw.chance(0.1))
    match draw.pick(range(3)):
        case 0:
            letter = chain(noun_phrase(THE, lex.ALPHABET_LETTER), word(*([draw.pick("BCDFLMPRST")] * 2)))
        case 1:
            one = noun_phrase(THE, lex.ALPHABET_LETTER, [draw.pick((lex.FIRST, lex.LAST))])
            of_what = noun_phrase(THE, lex.WORD) if draw.chance(0.5) else noun_phrase(THE, lex.KNOWN_FACTS["name"])
            letter = chain(one, word("of", "de"), of_what)
        case _:
            some = noun_phrase(draw.pick((THE, number(draw))), lex.ALPHABET_LETTER, plural=True)
            letter = chain(some, word("of", "de"), word("the", "el"), word("alphabet", "alfabeto"))
    clause.objects = letter
    return statement(clause)


def living(draw: Draw) -> Phrase:
    who = subject(draw)
    if draw.chance(0.5):
        tense = draw.choose_weighted(((0.7, Tense.PRESENT), (0.3, Tense.PAST)))
        return statement(act(who, lex.LIVE, tense, negative=draw.chance(0.15)).with_adverbials(place(draw)))
    tense = draw.choose_weighted(((0.5, Tense.PAST), (0.3, Tense.FUTURE), (0.2, Tense.GOING_TO)))
    return statement(act(who, lex.ARRIVE, tense, negative=draw.chance(0.1)).with_adverbials(when(draw, tense)))
