"""Clauses: verb groups in every tense, with negation, clitics, questions and dropped pronouns.

English builds a clause as subject, auxiliary, not, verb, objects; Spanish as subject, no, clitics, verb, objects. A
subject that Spanish drops is linked to its finite verb: "we are eating", "estamos comiendo", has "we" and "are" on
"estamos".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from regard.corpora.pocket.lexicon import ESTAR, IR, PODER, TENER, WANT, Adjective, Verb
from regard.corpora.pocket.noun_phrases import FIRST_SINGULAR, THIRD_SINGULAR, NounPhrase, Pronoun
from regard.corpora.pocket.spanish import Conjugation, English, Gender, Phrase, Spanish, chain, mark_object, word


class Tense(Enum):
    PRESENT = auto()  # eats, come
    PROGRESSIVE = auto()  # is eating, está comiendo
    PAST = auto()  # ate, comió
    PAST_PROGRESSIVE = auto()  # was eating, estaba comiendo
    FUTURE = auto()  # will eat, va a comer
    GOING_TO = auto()  # is going to eat, va a comer
    WANT = auto()  # wants to eat, quiere comer
    CAN = auto()  # can eat, puede comer
    HAVE_TO = auto()  # has to eat, tiene que comer


@dataclass(slots=True)
class Clause:
    """The pieces of a clause before they are put in order. `objects` and `adverbials` keep the same order in both."""

    subject: NounPhrase
    auxiliary: list[English]  # goes before the subject in a question, and before "not"
    verb: list[English]
    spanish_verb: list[Spanish]
    negation: Phrase = field(default_factory=Phrase)
    clitics: list[Spanish] = field(default_factory=list)
    frequency: Phrase = field(default_factory=Phrase)  # "always", before the verb
    objects: Phrase = field(default_factory=Phrase)
    adverbials: Phrase = field(default_factory=Phrase)

    def spanish_group(self) -> list[Spanish]:
        return [*self.frequency.spanish, *self.negation.spanish, *self.clitics, *self.spanish_verb]

    def english_group(self) -> list[English]:
        """Return what follows the subject, or in a question the auxiliary and the subject."""
        return [*self.negation.english, *self.frequency.english, *self.verb]

    def with_adverbials(self, *adverbials: Phrase) -> "Clause":
        return replace(self, adverbials=chain(self.adverbials, *adverbials))

    def rest(self) -> Phrase:
        return chain(self.objects, self.adverbials)


def to_be(person: int, past: bool) -> str:
    if past:
        return "was" if person in (FIRST_SINGULAR, THIRD_SINGULAR) else "were"
    return {FIRST_SINGULAR: "am", THIRD_SINGULAR: "is"}.get(person, "are")


def act(
    subject: NounPhrase,
    verb: Verb,
    tense: Tense,
    *,
    negative: bool = False,
    question: bool = False,
    frequency: Phrase | None = None,
) -> Clause:
    """Return a clause with subject and verb; the functions below add objects and adverbials."""
    split = negative or question  # English then needs an auxiliary: "does not eat", "does she eat"
    auxiliary, english, spanish = _verb_group(subject, verb, tense, split)
    if verb.particle:
        particle = English(verb.particle)
        english = [*english, particle]
        spanish[-1].possible += (particle,)
    clause = Clause(subject, auxiliary, english, spanish, frequency=frequency or Phrase())
    if negative:
        clause.negation = word("not", "no")
    return clause


def _verb_group(
    subject: NounPhrase, verb: Verb, tense: Tense, split: bool
) -> tuple[list[English], list[English], list[Spanish]]:
    """Return (auxiliary, rest of the English group, Spanish group); the finite Spanish verb carries the subject."""
    person, dropped = subject.person, subject.dropped
    third = person == THIRD_SINGULAR
    spanish = verb.spanish
    base = English(verb.base)

    def infinitive(*more: English) -> Spanish:
        return Spanish(spanish.infinitive, base, possible=more)

    match tense:
        case Tense.PRESENT | Tense.PAST:
            past = tense is Tense.PAST
            finite = (spanish.past if past else spanish.present)[person]
            if split:
                do = English("did" if past else "does" if third else "do")
                return [do], [base], [Spanish(finite, *dropped, base, possible=(do,))]
            main = English(verb.past if past else verb.third if third else verb.base)
            return [], [main], [Spanish(finite, *dropped, main)]
        case Tense.PROGRESSIVE | Tense.PAST_PROGRESSIVE:
            past = tense is Tense.PAST_PROGRESSIVE
            be, main = English(to_be(person, past)), English(verb.ing)
            finite = (ESTAR.past if past else ESTAR.present)[person]
            return [be], [main], [Spanish(finite, *dropped, be), Spanish(spanish.gerund, main)]
        case Tense.FUTURE:
            will = English("will")
            go = Spanish(IR.present[person], *dropped, will)
            return [will], [base], [go, Spanish("a", possible=(will,)), infinitive()]
        case Tense.GOING_TO:
            be, going, to = English(to_be(person, False)), English("going"), English("to")
            return (
                [be],
                [going, to, base],
                [Spanish(IR.present[person], *dropped, be, going), Spanish("a", to), infinitive()],
            )
        case Tense.CAN:
            can = English("can")
            return [can], [base], [Spanish(PODER.present[person], *dropped, can), infinitive()]
        case Tense.WANT | Tense.HAVE_TO:
            want = tense is Tense.WANT
            texts = (WANT.base, WANT.third) if want else ("have", "has")
            forms = (WANT.spanish if want else TENER).present
            main = English(texts[0] if split else texts[third])
            do = [English("does" if third else "do")] if split else []
            to = English("to")
            finite = Spanish(forms[person], *dropped, main, possible=do)
            if want:
                return do, [main, to, base], [finite, infinitive(to)]
            return do, [main, to, base], [finite, Spanish("que", to), infinitive()]


def with_object(clause: Clause, thing: NounPhrase) -> Clause:
    """Add a direct object; before a person Spanish adds "a", which translates the "for" of "wait for"."""
    spanish = thing.spanish
    if thing.human:
        particle = clause.verb[-1] if len(clause.verb) > 1 and clause.verb[-1].text == "for" else None
        sure = (particle,) if particle else ()
        spanish = [Spanish("a", *sure, possible=() if particle else tuple(thing.english[-1:])), *spanish]
    return replace(clause, objects=chain(clause.objects, Phrase(thing.english, spanish)))


def with_pronoun(clause: Clause, which: Pronoun) -> Clause:
    """Add a pronoun as direct object, which precedes the verb in Spanish: "sees him", "lo ve"."""
    english = English(which.object)
    mark_object([english], True)
    return _clitic(clause, [english], Spanish(which.direct, english))


def with_it(clause: Clause, gender: Gender, *, plural: bool = False) -> Clause:
    """Add "it" or "them", for things: lo, la, los, las, by the gender of the noun mentioned before."""
    english = English("them" if plural else "it")
    mark_object([english], False)
    text = ("lo" if gender == "m" else "la") + ("s" if plural else "")
    return _clitic(clause, [english], Spanish(text, english))


def with_receiver(clause: Clause, receiver: NounPhrase | Pronoun) -> Clause:
    """ "to the queen", "a la reina"; "to her", "le" (and "se" if lo, la, los or las follows)."""
    to = English("to")
    if isinstance(receiver, NounPhrase):
        both = Phrase([to, *receiver.english], [Spanish("a", to), *receiver.spanish])
        return replace(clause, objects=chain(clause.objects, both))
    english = English(receiver.object)
    mark_object([english], True)
    text = "se" if clause.clitics and receiver.receiver in ("le", "les") else receiver.receiver
    return _clitic(clause, [to, english], Spanish(text, to, english))


def _clitic(clause: Clause, english: list[English], spanish: Spanish) -> Clause:
    """Add a clitic in front, because receivers precede direct objects (se lo, me la), and are added last."""
    objects = Phrase([*clause.objects.english, *english], clause.objects.spanish)
    return replace(clause, objects=objects, clitics=[spanish, *clause.clitics])


def be(
    subject: NounPhrase, verb: Conjugation, complement: Phrase, *, past: bool = False, negative: bool = False
) -> Clause:
    """Return a clause with "to be". The caller chooses ser, estar or tener for Spanish."""
    english = English(to_be(subject.person, past))
    finite = Spanish((verb.past if past else verb.present)[subject.person], *subject.dropped, english)
    clause = Clause(subject, [english], [], [finite], objects=complement)
    if negative:
        clause.negation = word("not", "no")
    return clause


def quality(subject: NounPhrase, adjective: Adjective) -> Phrase:
    """Return an adjective after "is", in agreement with the subject."""
    return word(adjective.english, _predicate(subject, adjective))


def comparison(subject: NounPhrase, adjective: Adjective, other: NounPhrase) -> Phrase:
    """ "bigger than", "más grande que"; "more expensive than", "más caro que"."""
    spanish = _predicate(subject, adjective)
    if adjective.comparative:
        more = word(adjective.comparative, f"más {spanish}")
    else:
        more = chain(word("more", "más"), word(adjective.english, spanish))
    return chain(more, word("than", "que"), other)


def _predicate(subject: NounPhrase, adjective: Adjective) -> str:
    return replace(adjective, short="").form(subject.gender, subject.plural)


def age(years: Phrase) -> Phrase:
    """ "is nine years old", "tiene nueve años"; `years` is "nine years"."""
    old = English("old")
    years.spanish[-1].possible += (old,)
    return Phrase([*years.english, old], years.spanish)


def like(subject: NounPhrase | Pronoun, thing: NounPhrase, *, negative: bool = False) -> Phrase:
    """ "she likes bread", "le gusta el pan"; "the girl likes bread", "a la niña le gusta el pan".

    The liked thing is the subject in Spanish: the verb agrees with it, and the person is a clitic.
    """
    is_pronoun = isinstance(subject, Pronoun)
    who = [English(subject.subject)] if is_pronoun else subject.english
    if is_pronoun:
        mark_object(who, True)
    third = subject.person == THIRD_SINGULAR
    clitic_text = subject.receiver if is_pronoun else "les" if subject.plural else "le"
    main = English("likes" if third and not negative else "like")
    do = [English("does" if third else "do")] if negative else []
    negation = word("not", "no") if negative else Phrase()
    clitic = Spanish(clitic_text, *who) if is_pronoun else Spanish(clitic_text, possible=(who[-1],))
    full = [] if is_pronoun else [Spanish("a", possible=(who[-1],)), *subject.spanish]
    verb = Spanish("gustan" if thing.plural else "gusta", main, possible=do)
    english = [*who, *do, *negation.english, main, *thing.english]
    return Phrase(english, [*full, *negation.spanish, clitic, verb, *thing.spanish])


def there_is(thing: NounPhrase, place: Phrase, *, past: bool = False) -> Phrase:
    """ "there are twelve chairs in the kitchen", "hay doce sillas en la cocina"."""
    return chain(word(f"there {to_be(thing.person, past)}", "había" if past else "hay"), thing, place)


def statement(clause: Clause) -> Phrase:
    english = [*clause.subject.english, *clause.auxiliary, *clause.english_group()]
    return chain(Phrase(english, [*clause.subject.spanish, *clause.spanish_group()]), clause.rest())


def yes_no_question(clause: Clause) -> Phrase:
    """ "Is the woman eating bread?", "¿La mujer está comiendo pan?": Spanish keeps the order of a statement."""
    english = [*clause.auxiliary, *clause.subject.english, *clause.english_group()]
    return chain(Phrase(english, [*clause.subject.spanish, *clause.spanish_group()]), clause.rest())


def make_question(asked: Phrase, clause: Clause) -> Phrase:
    """ "What is the woman eating?", "¿Qué está comiendo la mujer?": the Spanish subject follows its verb."""
    english = [*asked.english, *clause.auxiliary, *clause.subject.english, *clause.english_group()]
    return chain(Phrase(english, [*asked.spanish, *clause.spanish_group(), *clause.subject.spanish]), clause.rest())


def who_does(clause: Clause) -> Phrase:
    """ "Who is painting the house?", "¿Quién está pintando la casa?": the subject of the clause is a gap."""
    return chain(word("who", "quién"), statement(clause))


def relative(owner: NounPhrase, clause: Clause, by: str) -> NounPhrase:
    """ "the man who is eating", "el hombre que está comiendo"; "the house that she bought", "la casa que compró".

    If the subject is a gap, the clause is unchanged; otherwise Spanish puts the subject behind the verb.
    """
    english = [*clause.subject.english, *clause.auxiliary, *clause.english_group()]
    inner = Phrase(english, [*clause.spanish_group(), *clause.subject.spanish])
    both = chain(owner, word(by, "que"), inner, clause.rest())
    return replace(owner, english=both.english, spanish=both.spanish)


def join_clauses(first: Phrase, english: str, spanish: str, second: Phrase, *, comma: bool = False) -> Phrase:
    """Join two clauses with a conjunction."""
    marks: Sequence[Phrase] = (word(",", ","),) if comma else ()
    return chain(first, *marks, word(english, spanish), second)
