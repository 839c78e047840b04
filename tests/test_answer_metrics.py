"""Exact match and F1 of answers: values worked by hand from the rules of SQuAD's scripts."""

import pytest

from regard.metrics.classes import AnswerScore, answer_score, best_threshold, mean_score, normalize


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Cat's  hat.", "cats hat"),  # lower, punctuation, articles, white space
        ("a an the", ""),
        ("theatre", "theatre"),  # an article inside a word is none
        ("The-end", "theend"),  # punctuation goes first, and what it separated is one word
        ("“Fünf”", "“fünf”"),  # only ASCII punctuation goes
        ("A. Lincoln", "lincoln"),  # "A." becomes "a", an article
        ("$1,000", "1000"),
    ],
)
def test_normalize(text, normal):
    assert normalize(text) == normal


def test_the_best_right_answer_counts_for_each_score_by_itself():
    # said: {october, 1973}; F1 against "October 1973" is 1, against "1973": p = 1/2, r = 1, F1 = 2/3
    assert answer_score("October 1973", ["1973"]) == AnswerScore(0.0, pytest.approx(2 / 3))
    assert answer_score("the October, 1973", ["1973", "October 1973"]) == (1.0, 1.0)
    assert answer_score("November", ["1973", "October 1973"]) == (0.0, 0.0)


def test_words_count_as_often_as_both_have_them():
    # said "to be to" has to×2, right "to be or not to be" has to×2, be×2: shared 3; p = 3/3, r = 3/6
    assert answer_score("to be to", ["to be or not to be"]).f1 == pytest.approx(2 * 1 * 0.5 / 1.5)


def test_where_nothing_is_left_the_two_scripts_differ():
    assert answer_score("a", ["The"]) == (1.0, 0.0)  # v1.1: equal, but no word is shared
    assert answer_score("a", ["The"], no_answer=True) == (1.0, 1.0)  # v2.0: no right answer is left, and none was given
    assert answer_score("", [], no_answer=True) == (1.0, 1.0)
    assert answer_score("Paris", [], no_answer=True) == (0.0, 0.0)
    assert answer_score("", ["Paris"], no_answer=True) == (0.0, 0.0)
    assert answer_score("Paris", ["the", "Paris"], no_answer=True) == (1.0, 1.0)


def test_means_are_per_cent():
    assert mean_score([AnswerScore(1.0, 1.0), AnswerScore(0.0, 0.5), AnswerScore(0.0, 0.0)]) == (
        pytest.approx(100 / 3),
        pytest.approx(50),
    )
    assert mean_score([]) == (0.0, 0.0)


def test_the_best_threshold_is_found():
    # Log-odds of no answer. Speaking about the first two gives 1 + 0.5 + (silent) 1 + 1 = 3.5 of 4.
    odds, spoken, silent = [-3.0, -1.0, 0.5, 2.0], [1.0, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]
    assert best_threshold(odds, spoken, silent) == (-1.0, pytest.approx(87.5))
    # If silence is best everywhere, nothing may pass: below the surest.
    value, f1 = best_threshold(odds, [0.0] * 4, [1.0] * 4)
    assert (value < -3.0, f1) == (True, 100.0)
    # Questions of equal odds are all spoken about, or none.
    assert best_threshold([0.0, 0.0], [1.0, 0.0], [0.0, 1.0]).f1 == 50.0
