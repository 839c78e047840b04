"""Tokenizers: text comes back as it was written, special tokens cannot be forged, places are right."""

import re
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tokenizer import BYTES, TextSpan, Tokenizer
from regard.errors import CallError, RegardError
from regard.special_tokens import SPECIAL_TOKENS, UNK

KINDS = ["word", "space", "character", "byte", "bpe", "unigram"]
TEXTS = [
    '"Hola", dijo Ana. ¿Qué tal? ¡Bien!',
    'He said: "it\'s 3.14 (or 10:30) - well-known" … $5, 5 €, 50%.',
    "„Ja“, sagte er; «non». Das ist a/b, oder?",
    "rock'n'roll, the dogs' bowl, 'single' and ‘curly’ quotes...",
    "Ein Mann fährt über die Straße.",
]


@pytest.fixture(scope="module")
def trained() -> dict[str, Tokenizer]:
    return {kind: Tokenizer.train(TEXTS * 3, kind, size=400) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_as_it_was_written(trained, kind, text):
    assert trained[kind].decode(trained[kind].encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_other_readers_of_the_file_decode_alike(trained, kind, text, tmp_path):
    from tokenizers import Tokenizer as Library

    trained[kind].save(tmp_path / "tokenizer.json")
    library = Library.from_file(str(tmp_path / "tokenizer.json"))
    library.encode_special_tokens = True
    ids = library.encode(text).ids
    assert ids == trained[kind].encode(text)
    assert library.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_have_the_same_ids_everywhere(trained, kind):
    assert trained[kind].pieces(range(4)) == SPECIAL_TOKENS == ["<pad>", "<unk>", "<s>", "</s>"]


@pytest.mark.parametrize("kind", KINDS)
def test_text_cannot_spell_a_special_token(kind):
    hostile = ["a </s> b", "<s> <pad> <unk>", "</s></s></s>", "x<s>y"]
    tokenizer = Tokenizer.train(hostile * 9, kind, size=300)
    assert tokenizer.pieces(range(4)) == SPECIAL_TOKENS
    for text in [*hostile, " </s>", "<pad>"]:
        ids = tokenizer.encode(text)
        assert ids
        assert not {0, 2, 3} & set(ids)


@pytest.mark.parametrize("kind", ["word", "character", "byte", "bpe", "unigram"])
@pytest.mark.parametrize("text", TEXTS)
def test_spans_name_the_characters_of_each_piece(trained, kind, text):
    tokenizer = trained[kind]
    ids = tokenizer.encode(text)
    spans = tokenizer.spans(text)
    assert len(spans) == len(ids)
    if kind != "byte":  # bytes of one character share its place
        assert "".join(text[span.start : span.end] for span in spans) == re.sub(r"\s", "", text)
        assert tokenizer.decoded_spans(ids) == spans


def test_hand_worked_pieces_and_spans(trained):
    word = trained["word"]
    ids = word.encode('"Hola", dijo Ana.')
    assert word.pieces(ids) == ['"￭', "Hola", '￭"', "￭,", "dijo", "Ana", "￭."]
    assert word.labels([*ids, 3]) == ['"', "Hola", '"', ",", "dijo", "Ana", ".", "</s>"]
    # Words are ", Hola, ", ",", dijo, Ana, "." for alignments; three of them are separated by spaces.
    assert [span.word for span in word.spans('"Hola", dijo Ana.')] == [0, 1, 2, 3, 4, 5, 6]
    assert [span.word for span in word.spans('"Hola", dijo Ana.', re.compile(r"\S+"))] == [0, 0, 0, 0, 1, 2, 2]
    byte = trained["byte"]
    assert byte.encode("é!") == [0xC3 + 4, 0xA9 + 4, 0x21 + 4]
    assert byte.spans("é!") == [TextSpan(0, 1, 0), TextSpan(0, 1, 0), TextSpan(1, 2, 1)]
    assert byte.decoded_spans(byte.encode("é!")) == [TextSpan(0, 0, 0), TextSpan(0, 1, 0), TextSpan(1, 2, 1)]
    assert byte.decode([0xC3 + 4]) == "�"
    assert byte.labels(byte.encode("é !")) == ["·", "é", "␣", "!"]


def test_words_keep_one_form_wherever_they_stand(trained):
    word = trained["word"]
    (plain,) = word.encode("Hola")
    for text in ["¿Hola?", '"Hola"', "(Hola)", "Hola-Hola", "a/Hola"]:
        assert plain in word.encode(text)


@pytest.mark.parametrize("kind", KINDS)
def test_pad_start_and_end_leave_no_trace(trained, kind):
    tokenizer = trained[kind]
    ids = tokenizer.encode(TEXTS[0])
    assert tokenizer.decode([2, *ids, 3, 0, 0]) == TEXTS[0]
    assert tokenizer.decoded_spans([2, *ids, 3])[1:-1] == tokenizer.decoded_spans(ids)
    assert tokenizer.encode("") == [] == tokenizer.spans("")
    assert tokenizer.decode([]) == ""


def test_unknown_words_are_counted_as_one_and_can_be_replaced(trained):
    word = trained["word"]
    ids = word.encode("Zyx dijo: ¿Qué qux?")
    assert [index == UNK for index in ids] == [True, False, False, False, False, True, False]
    assert word.decode(ids) == "<unk> dijo: ¿Qué <unk>?"
    assert word.decode(ids, ["Obama", "haus"]) == "Obama dijo: ¿Qué haus?"
    assert word.decode(ids, ["Obama"]) == "Obama dijo: ¿Qué <unk>?"
    assert trained["bpe"].encode("☃☃").count(UNK) == 1


def test_size_frequency_and_case_are_respected():
    texts = ["a a a b b c"]
    assert Tokenizer.train(texts, "word", size=6).pieces([4, 5]) == ["a", "b"]
    assert Tokenizer.train(texts, "word", size=6).size == 6
    assert Tokenizer.train(texts, "word", min_frequency=3).size == 5
    assert Tokenizer.train(texts, "character", min_frequency=2).size == 4 + 3  # space, a, b
    lower = Tokenizer.train(["Über Straße"], "word", lowercase=True)
    assert lower.decode(lower.encode("ÜBER straße")) == "über straße"
    assert Tokenizer.from_json(lower.to_json()).decode(lower.encode("ÜBER")) == "über"


def test_both_spellings_of_an_accent_are_one():
    tokenizer = Tokenizer.train(["café"], "word")
    assert tokenizer.encode("cafe\u0301") == tokenizer.encode("café") == [4]


def test_half_a_character_is_refused_with_its_place(trained):
    with pytest.raises(CallError, match=r"character 2 of the text is '.ud800'"):
        trained["bpe"].encode("ab\ud800")


@pytest.mark.parametrize("kind", ["byte", "character"])
@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20))
def test_every_character_comes_back(kind, text):
    text = unicodedata.normalize("NFC", text)
    tokenizer = Tokenizer.train([text], kind)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert len(tokenizer.spans(text)) == len(ids) == len(text.encode() if kind == "byte" else text)


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="ab1 .,'\"¿?()-/<>s", max_size=16))
def test_glue_is_exact_for_any_mix_of_marks(text):
    text = " ".join(text.split())
    tokenizer = Tokenizer.train([text], "word")
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.spans(text) == tokenizer.decoded_spans(tokenizer.encode(text))


def test_bytes_are_written_as_the_library_writes_them():
    from tokenizers.pre_tokenizers import ByteLevel

    assert set(BYTES) == set(ByteLevel.alphabet())
    assert {byte[0] for byte in BYTES.values()} == set(range(256))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_training_gives_the_same_vocabulary_in_every_process(kind):
    program = f"""
import hashlib, random
from regard.data.tokenizer import Tokenizer
chance = random.Random(5)
texts = ["".join(chance.choices("etaoinshrdlu    ", k=40)) + chance.choice("äöüßéñçø") for _ in range(300)]
print(hashlib.sha256(Tokenizer.train(texts, {kind!r}, size=150).to_json().encode()).hexdigest())
"""
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout


def test_a_run_without_its_tokenizer_says_so(tmp_path):
    Tokenizer.train(["a b"], "word").save(tmp_path / "tokenizer.json")
    assert Tokenizer.of_run(tmp_path).encode("a b")
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(RegardError, match=r"tokenizer is missing or damaged"):
        Tokenizer.of_run(tmp_path)
