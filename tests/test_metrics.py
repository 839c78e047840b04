"""Metrics against numbers worked out by hand, and against the libraries they rest on."""

from importlib.util import find_spec

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import CallError
from regard.metrics.alignment import (
    Gold,
    alignment_report,
    alignment_score,
    argmax_links,
    merge_subwords,
    read_naacl,
    read_pharaoh,
    two_way_links,
    write_pharaoh,
)
from regard.metrics.speech import edit_distance, error_rates, sequence_error_rate, token_error_rate
from regard.metrics.text import bleu, bleu_by_length, chrf, exact_match, ter, tokenizer_for

HYPOTHESES = ["the cat sat on the mat .", "a dog is running fast in the park", "hello world"]
REFERENCES = ["the cat is on the mat .", "a dog runs fast in the big park", "hello there world"]


def gold(sure, possible=()):
    return Gold(frozenset(sure), frozenset(possible))


# Text


@pytest.mark.parametrize(
    ("ours", "theirs"), [(bleu, sacrebleu.corpus_bleu), (chrf, sacrebleu.corpus_chrf), (ter, sacrebleu.corpus_ter)]
)
def test_text_scores_are_those_of_sacrebleu(ours, theirs):
    score = ours(HYPOTHESES, REFERENCES)
    assert score.score == pytest.approx(theirs(HYPOTHESES, [REFERENCES]).score, abs=1e-9)
    assert 0 < score.score < 100
    assert f"version:{sacrebleu.__version__}" in score.signature
    assert score.signature in str(score)


def test_bleu_signature_names_case_and_tokenizer():
    assert "case:mixed" in bleu(HYPOTHESES, REFERENCES).signature
    assert "tok:13a" in bleu(HYPOTHESES, REFERENCES).signature
    shout = [text.upper() for text in HYPOTHESES]
    assert bleu(shout, REFERENCES, lowercase=True).score == pytest.approx(bleu(HYPOTHESES, REFERENCES).score)
    assert bleu(shout, REFERENCES).score < 5


def test_bleu_with_several_references_of_unequal_number():
    references = [[REFERENCES[0], HYPOTHESES[0]], [REFERENCES[1]], [REFERENCES[2], HYPOTHESES[2], "x"]]
    streams = [REFERENCES, [HYPOTHESES[0], None, HYPOTHESES[2]], [None, None, "x"]]
    expected = sacrebleu.corpus_bleu(HYPOTHESES, streams)
    assert bleu(HYPOTHESES, references).score == pytest.approx(expected.score, abs=1e-9)
    assert bleu(HYPOTHESES, references).score > bleu(HYPOTHESES, REFERENCES).score


def test_perfect_empty_and_impossible():
    assert bleu(REFERENCES, REFERENCES).score == pytest.approx(100)
    assert bleu(["", "", ""], REFERENCES).score == 0
    assert ter(["", "", ""], REFERENCES).score == pytest.approx(100)
    assert exact_match(["a ", "b", "c"], [["x", "a"], "b", "d"]) == pytest.approx(200 / 3)
    with pytest.raises(CallError, match="2 hypotheses but 3 references"):
        bleu(["a", "b"], REFERENCES)
    with pytest.raises(CallError, match="nothing to score"):
        bleu([], [])
    with pytest.raises(CallError, match=r"hypothesis 1 .* has no reference"):
        chrf(["a", "b"], [["a"], []])


def test_bleu_by_length_bins_are_corpus_bleu_of_their_rows():
    sources = ["a b", "a b c d e f", "one two three", "x " * 50]
    hypotheses = ["the cat sat here", "a dog is running fast in the park", "it rains a lot today", "wrong"]
    references = ["the cat sat there", "a dog runs fast in the big park", "it rains a lot today", "so very far off"]
    bins = bleu_by_length(sources, hypotheses, references, edges=[1, 4, 10])
    assert [(b.low, b.high, b.count, b.label) for b in bins] == [
        (1, 3, 2, "1-3"),
        (4, 9, 1, "4-9"),
        (10, None, 1, "10+"),
    ]
    first = sacrebleu.corpus_bleu([hypotheses[0], hypotheses[2]], [[references[0], references[2]]])
    assert bins[0].bleu == pytest.approx(first.score)
    assert bins[2].bleu < 1
    assert [b.low for b in bleu_by_length(["", "a b c d"], ["x", "y"], ["x", "y"], edges=[2, 3, 4])] == [2, 4]
    with pytest.raises(CallError, match="must grow"):
        bleu_by_length(sources, hypotheses, references, edges=[5, 2])
    with pytest.raises(CallError, match="1 sources"):
        bleu_by_length(["a"], hypotheses, references)


# Error rates


def test_edit_distance_by_hand():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("flaw", "lawn") == 2
    assert edit_distance("", "abc") == 3
    assert edit_distance("abc", "") == 3
    assert edit_distance(["N", "AY", "T"], ["N", "AY", "T", "S"]) == 1


def recursive_distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    same = recursive_distance(a[1:], b[1:]) + (a[0] != b[0])
    return min(same, recursive_distance(a[1:], b) + 1, recursive_distance(a, b[1:]) + 1)


WORDS = st.lists(st.sampled_from(["a", "ab", "ba"]), max_size=4)


@given(*[st.text("abc", max_size=4) | WORDS] * 2)
def test_edit_distance_is_the_recursive_definition(a, b):
    assert edit_distance(a, b) == recursive_distance(a, b)


def test_error_rates_take_the_nearest_reference():
    hypotheses = [["R", "IY", "D"], ["N", "AY", "T", "S"], []]
    references = [[["R", "EH", "D"], ["R", "IY", "D"]], [["N", "AY", "T"]], [["AH", "B"]]]
    # distances 0, 1, 2 over lengths 3, 3, 2
    assert token_error_rate(hypotheses, references) == pytest.approx(100 * 3 / 8)
    assert sequence_error_rate(hypotheses, references) == pytest.approx(200 / 3)
    assert token_error_rate(["abc"], [["ab", "abcdef"]]) == pytest.approx(50)


def test_error_rates_refuse_what_has_no_answer():
    with pytest.raises(CallError, match="no reference has a word"):
        error_rates(["noise", ""], ["", " "])
    with pytest.raises(CallError, match="no reference has a token"):
        token_error_rate([["a"]], [[[]]])
    with pytest.raises(CallError, match=r"hypothesis 0 .* has no reference"):
        token_error_rate([["a"]], [[]])
    with pytest.raises(CallError, match="1 hypotheses but 2"):
        sequence_error_rate([["a"]], [[["a"]], [["b"]]])
    with pytest.raises(CallError, match="nothing to score"):
        sequence_error_rate([], [])


# Alignments


def test_alignment_error_by_hand():
    # A = {00, 11, 22, 32}, S = {00, 11, 13}, P = S + {22}: |A∩S| = 2, |A∩P| = 3
    score = alignment_score([[(0, 0), (1, 1), (2, 2), (3, 2)]], [gold([(0, 0), (1, 1), (1, 3)], [(2, 2)])])
    assert score.aer == pytest.approx(1 - 5 / 7)
    assert score.precision == pytest.approx(3 / 4)
    assert score.recall == pytest.approx(2 / 3)


def test_alignment_error_sums_over_the_corpus_before_it_divides():
    found = [[(0, 0)], [(0, 0), (1, 0), (2, 0)]]
    right = [gold([(0, 0)]), gold([(0, 1)])]
    assert alignment_score(found, right).aer == pytest.approx(1 - 2 / 6)


def test_alignment_error_at_the_edges():
    assert alignment_score([[]], [gold([])]).aer == 0
    assert alignment_score([[(0, 0)]], [gold([])]).aer == 1
    nothing = alignment_score([[]], [gold([(0, 0)])])
    assert (nothing.aer, nothing.precision, nothing.recall) == (1, 1, 0)
    assert alignment_score([[(0, 0)]], [gold([], [(0, 0)])]).aer == 0
    with pytest.raises(CallError, match="links of 1 sentences but gold alignments of 2"):
        alignment_score([[]], [gold([]), gold([])])
    with pytest.raises(CallError, match="links of 2 sentences but gold alignments of 1"):
        alignment_score([[], []], [gold([])])


def test_pharaoh_and_naacl_say_the_same(tmp_path):
    alignments = [gold([(0, 0), (1, 2)], [(2, 10)]), gold([]), gold([(4, 3)])]
    pharaoh, naacl = tmp_path / "a.pharaoh", tmp_path / "a.naacl"
    write_pharaoh(pharaoh, alignments)
    naacl.write_text("1 1 1 S\n1 2 3 S\n1 3 11 P\n3 5 4 S\n")
    assert pharaoh.read_text() == "0-0 1-2 2?10\n\n4-3\n"
    assert read_pharaoh(pharaoh) == read_naacl(naacl) == alignments
    assert read_naacl(naacl, sentences=4) == [*alignments, gold([])]


def test_formats_as_others_write_them(tmp_path):
    path = tmp_path / "links"
    path.write_text("3p4 0-0\n")
    assert read_pharaoh(path) == [gold([(0, 0)], [(3, 4)])]
    path.write_text("0001 2 3\n0002 1 0 S\n0002 1 1 P 0.7\n")
    assert read_naacl(path) == [gold([(1, 2)]), gold([], [(0, 0)])]


@pytest.mark.parametrize(
    ("read", "lines", "message"),
    [
        (read_pharaoh, "0-0\n0-1 1:2\n", r"links:2: '1:2' is no link; Pharaoh"),
        (read_pharaoh, "-1-0\n", r"links:1: '-1-0'"),
        (read_naacl, "1 1 1\n1 x 2 S\n", r"links:2: '1 x 2 S' is no link; NAACL"),
        (read_naacl, "1 1\n", r"links:1"),
        (read_naacl, "1 1 1 Q\n", r"links:1"),
        (read_naacl, "0 1 1 S\n", r"links:1: sentence 0"),
    ],
)
def test_bad_lines_are_named(tmp_path, read, lines, message):
    path = tmp_path / "links"
    path.write_text(lines)
    with pytest.raises(CallError, match=message):
        read(path)


def test_unreadable_files_are_explained(tmp_path):
    with pytest.raises(CallError, match=r"cannot read .*nowhere"):
        read_pharaoh(tmp_path / "nowhere")
    (tmp_path / "latin").write_bytes("0-0 ñ".encode("latin-1"))
    with pytest.raises(CallError, match="not UTF-8"):
        read_pharaoh(tmp_path / "latin")
    (tmp_path / "short").write_text("3 1 1 S\n")
    with pytest.raises(CallError, match="short:1: sentence 3 is not one of 1 to 2"):
        read_naacl(tmp_path / "short", sentences=2)


# Reading weights: 2 target words ("estamos", "comiendo") × 3 source words ("we", "are", "eating")

WEIGHTS = np.array([[0.45, 0.5, 0.05], [0.1, 0.0, 0.9]])


def test_two_readings():
    assert argmax_links(WEIGHTS) == {(1, 0), (2, 1)}
    assert two_way_links(WEIGHTS) == {(0, 0), (1, 0), (2, 1)}
    assert argmax_links(np.zeros((0, 3))) == two_way_links(np.zeros((0, 3))) == set()
    assert argmax_links(np.zeros((3, 0))) == set()


def test_merge_sums_over_source_pieces_and_averages_over_target_pieces():
    pieces = np.arange(20.0).reshape(4, 5)  # target pieces: a a b </s>; source pieces: x y y y </s>
    merged = merge_subwords(pieces, [(0, 1), (1, 4)], [(0, 2), (2, 3)])
    np.testing.assert_allclose(merged, [[(0 + 5) / 2, (6 + 21) / 2], [10, 36]])
    late = merge_subwords(pieces, [(0, 1), (1, 4)], [(0, 2), (2, 3)], shift=True)
    np.testing.assert_allclose(late, [[(5 + 10) / 2, (21 + 36) / 2], [15, 51]])


def test_merge_keeps_leading_axes_and_refuses_spans_that_do_not_fit():
    pieces = np.random.default_rng(0).random((2, 3, 4, 5))
    merged = merge_subwords(pieces, [(0, 2), (2, 5)], [(0, 1), (1, 3), (3, 4)])
    assert merged.shape == (2, 3, 3, 2)
    np.testing.assert_allclose(merged[1, 2], merge_subwords(pieces[1, 2], [(0, 2), (2, 5)], [(0, 1), (1, 3), (3, 4)]))
    np.testing.assert_allclose(merged.sum(-1)[..., 0], pieces.sum(-1)[..., 0])  # no weight is lost
    assert merge_subwords(pieces, [], [(0, 1)]).shape == (2, 3, 1, 0)
    with pytest.raises(CallError, match=r"source span \(4, 6\)"):
        merge_subwords(pieces, [(4, 6)], [(0, 1)])
    with pytest.raises(CallError, match=r"target span \(3, 4\) does not fit the 3"):
        merge_subwords(pieces, [(0, 1)], [(3, 4)], shift=True)


def test_report_finds_the_head_that_looks_right():
    random = np.random.default_rng(1)
    weights, right = [], []
    for _ in range(30):
        order = random.permutation(7)
        perfect = np.eye(7)[order]
        lost = np.roll(perfect, 1, axis=1)
        weights.append({"decoder.0": np.stack([lost, perfect]), "decoder.1": np.stack([lost, lost, lost])})
        right.append(gold([(int(source), target) for target, source in enumerate(order)]))
    report = {(row.layer, row.head): row.score.aer for row in alignment_report(weights, right)}
    layers = [("decoder.0", "0"), ("decoder.0", "1"), ("decoder.0", "mean")]
    layers += [("decoder.1", "0"), ("decoder.1", "1"), ("decoder.1", "2"), ("decoder.1", "mean"), ("all", "mean")]
    assert list(report) == [*layers, *(("baseline", name) for name in ("uniform", "diagonal", "shuffled"))]
    assert report["decoder.0", "1"] == 0
    assert report["decoder.0", "0"] == report["decoder.1", "mean"] == 1
    assert report["baseline", "uniform"] == pytest.approx(6 / 7)
    assert 0.7 < report["baseline", "diagonal"] < 1
    assert 0.7 < report["baseline", "shuffled"] < 1


def test_report_of_sentences_in_order_is_won_by_the_diagonal():
    weights = [{"cross": np.full((2, 6, 6), 1 / 6)}]
    report = alignment_report(weights, [gold([(i, i) for i in range(6)])])
    assert {row.head: row.score.aer for row in report}["diagonal"] == 0
    uneven = alignment_report([{"cross": np.ones((1, 2, 4))}], [gold([(1, 0), (3, 1)])])
    assert {row.head: row.score.aer for row in uneven}["diagonal"] == 0


def test_report_takes_another_reading_and_refuses_a_mismatch():
    weights = [{"cross": WEIGHTS[None]}]
    right = [gold([(0, 0), (1, 0), (2, 1)])]
    [head] = [row for row in alignment_report(weights, right) if row.head == "0"]
    assert head.score.aer == pytest.approx(1 - 4 / 5)
    [head] = [row for row in alignment_report(weights, right, two_way_links) if row.head == "0"]
    assert head.score.aer == 0
    with pytest.raises(CallError, match="weights of 1 sentences but gold alignments of 2"):
        alignment_report(weights, right * 2)
    with pytest.raises(CallError, match="nothing to align"):
        alignment_report([], [])


# ------------------------------------------------------------------------------------------- scripts without spaces
@pytest.mark.parametrize(
    ("text", "tokenizer"),
    [
        ("the cat sat on the mat", "13a"),
        ("오늘은 날씨가 좋습니다", "13a"),
        ("今天的天气很好。", "zh"),
        ("วันนี้อากาศดีมาก", "char"),
        ("他说 OK", "13a"),
        ("", "13a"),
        ("123 456", "13a"),
    ],
)
def test_the_tokenizer_is_that_of_the_script(text, tokenizer):
    assert tokenizer_for([text]) == tokenizer_for([[text, text]]) == tokenizer


def test_one_wrong_character_of_raw_japanese_is_not_all_of_it():
    references = ["今日はとても天気がいいですね。", "明日は雨が降るかもしれません。"]
    hypotheses = ["今日はとても天気がよいですね。", "明日は雨が降るかもしれません。"]
    chosen = tokenizer_for(references)
    assert chosen == ("ja-mecab" if find_spec("MeCab") and find_spec("ipadic") else "char")
    found = bleu(hypotheses, references)
    assert f"tok:{chosen}" in found.signature
    assert found.score > 60
    assert bleu(hypotheses, references, tokenizer="char").score > 80
    assert chrf(hypotheses, references).score > 60


def test_a_tokenizer_that_is_unknown_is_the_callers_mistake():
    with pytest.raises(CallError, match="tokenizer='charr' is none of sacreBLEU's; did you mean 'char'"):
        bleu(HYPOTHESES, REFERENCES, tokenizer="charr")


# ------------------------------------------------------------------------------------------------- links are checked
def test_links_past_the_end_ask_whether_they_are_counted_from_1(tmp_path):
    file = tmp_path / "gold"
    file.write_text("1-1 2-2\n1p1\n")
    assert read_pharaoh(file, [(3, 3), (2, 2)]) == [gold([(1, 1), (2, 2)]), gold([], [(1, 1)])]
    with pytest.raises(CallError, match=r"gold:1: '2-2' .*2 source and 3 target words.*counted from 1\?"):
        read_pharaoh(file, [(2, 3), (2, 2)])
    assert read_pharaoh(file, [(2, 2), (1, 1)], first=1) == [gold([(0, 0), (1, 1)]), gold([], [(0, 0)])]
    with pytest.raises(CallError, match="links of 2 sentences, but there are 3"):
        read_pharaoh(file, [(2, 2)] * 3)
    file.write_text("0-1\n")
    with pytest.raises(CallError, match="counted from 0"):
        read_pharaoh(file, first=1)


def test_links_between_bars_are_read_and_checked(tmp_path):
    file = tmp_path / "gold"
    file.write_text("the cat ||| le chat ||| 0-0 1-1\na ||| b ||| \n0-0 ||| -1.5\n")
    assert read_pharaoh(file) == [gold([(0, 0), (1, 1)]), gold([]), gold([(0, 0)])]
    file.write_text("the cat ||| le chat ||| 1-1 2-2\n")
    with pytest.raises(CallError, match=r"'2-2' .*counted from 1\?"):
        read_pharaoh(file)


def test_naacl_links_past_the_end_are_refused(tmp_path):
    file = tmp_path / "gold"
    file.write_text("1 2 3\n")
    assert read_naacl(file, lengths=[(2, 3), (1, 1)]) == [gold([(1, 2)]), gold([])]
    with pytest.raises(CallError, match="a link to a word that is not there: the pair has 2 source and 2 target"):
        read_naacl(file, lengths=[(2, 2)])
