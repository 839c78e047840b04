"""Greedy, beam and sampling on a toy that can be worked out by hand: a Markov chain a sentence."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.errors import CallError
from regard.generation.alignment import replace_unknown
from regard.generation.beam import Beam, LengthPenalty, beam, normalizer, top
from regard.generation.engine import Constraints, Sentence, decode
from regard.generation.sampling import Sampler, TokenByToken, draw, greedy, sample
from regard.special_tokens import END, PAD, START
from regard.tasks.text.search import Sorted


@dataclass(frozen=True)
class ChainState:
    tables: Tensor  # N V V: logits of the next token after each token, one table a row
    rows: int
    weights: Tensor | None = None

    @property
    def device(self):
        return self.tables.device

    joins = True

    def join(self, other):
        return ChainState(torch.cat([self.tables, other.tables]), self.rows + other.rows)

    def select(self, rows):
        weights = None if self.weights is None else self.weights[rows]
        return ChainState(self.tables[rows], len(rows), weights)


class Chain:
    """Features are the logits of the next token already."""

    def __init__(self, sentences, words=7, seed=0, scale=2.0):
        generator = torch.Generator().manual_seed(seed)
        self.tables = scale * torch.randn(sentences, words, words, generator=generator)

    def start(self, only=slice(None)):
        return ChainState(self.tables[only], len(self.tables[only]))

    def step(self, tokens, state):
        return state.tables[torch.arange(state.rows), tokens], state

    def logits(self, features):
        return features.clone()

    def log_probability(self, sentence, tokens):
        table = self.tables[sentence].log_softmax(1)
        return sum(float(table[a, b]) for a, b in itertools.pairwise([START, *tokens, END]))


def best_by_trying_all(chain, sentence, max_length, penalty, n_best):
    words = [w for w in range(chain.tables.shape[1]) if w not in (PAD, START, END)]
    found = []
    for length in range(max_length + 1):
        for tokens in itertools.product(words, repeat=length):
            total = chain.log_probability(sentence, tokens)
            found.append((total / penalty(length + 1), list(tokens)))
    found.sort(key=lambda pair: -pair[0])
    return found[:n_best]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("gnmt", [False, True])
def test_a_wide_beam_finds_what_trying_all_finds(alpha, gnmt):
    chain, penalty = Chain(5, words=6), LengthPenalty(alpha, gnmt)
    results = beam(chain, chain.start(), Constraints(4), size=200, n_best=3, penalty=penalty)
    for sentence, hypotheses in enumerate(results):
        expected = best_by_trying_all(chain, sentence, 4, penalty, 3)
        assert [h.tokens for h in hypotheses] == [tokens for _, tokens in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-4)


def test_early_stopping_changes_nothing():
    """With n_best = size the second stopping rule hardly ever applies, with n_best = 1 it nearly always does."""
    chain = Chain(40, words=9)
    for alpha in (0.0, 1.0):
        settings = {"size": 4, "penalty": LengthPenalty(alpha)}
        patient = beam(chain, chain.start(), Constraints(12), n_best=4, **settings)
        hasty = beam(chain, chain.start(), Constraints(12), n_best=1, **settings)
        assert [h[0].tokens for h in hasty] == [h[0].tokens for h in patient]


def test_beam_one_is_greedy():
    chain = Chain(30)
    ours = beam(chain, chain.start(), Constraints(9), size=1)
    plain = greedy(chain, chain.start(), Constraints(9))
    assert [h[0].tokens for h in ours] == [h[0].tokens for h in plain]
    assert [h[0].log_probability for h in ours] == pytest.approx([h[0].log_probability for h in plain], abs=1e-4)


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_log_probability_is_that_of_the_tokens(search):
    chain, limits = Chain(30), Constraints(9, min_length=2)
    state = chain.start()
    results = greedy(chain, state, limits) if search == "greedy" else beam(chain, state, limits, size=3, n_best=3)
    for sentence, hypotheses in enumerate(results):
        for hypothesis in hypotheses:
            assert hypothesis.log_probability == pytest.approx(
                chain.log_probability(sentence, hypothesis.tokens), abs=1e-4
            )


def run_all(chain, only, limits):
    state = chain.start(only)
    return greedy(chain, state, limits), beam(chain, state, limits, size=3, n_best=2)


def test_neither_order_nor_size_of_the_batch_changes_outputs():
    chain, limits = Chain(23), Constraints(9)
    together = run_all(chain, slice(None), limits)
    order = torch.randperm(23, generator=torch.Generator().manual_seed(3))
    for result, shuffled in zip(together, run_all(chain, order, limits), strict=True):
        assert shuffled == [result[i] for i in order.tolist()]
    for i in (0, 11, 22):
        for result, alone in zip(together, run_all(chain, slice(i, i + 1), limits), strict=True):
            assert alone == [result[i]]


@pytest.mark.parametrize("search", [TokenByToken(), TokenByToken(Sampler(seed=4)), Beam(3, 2)])
def test_whoever_joins_a_running_batch_is_told_what_it_is_told_alone(search):
    """One or two newcomers after each step."""
    chain = Chain(23)
    together, alone = ([Sentence(Constraints(9), number) for number in range(23)] for _ in range(2))
    for number, one in enumerate(alone):
        waiting = [(chain.start([number]), [one])]
        list(decode(chain, search, lambda waiting=waiting: waiting.pop() if waiting else None))
    left, under_way = list(range(23)), []

    def arrivals():
        under_way.append(sum(one.step > 0 and not one.done for one in together))
        some = [left.pop(0) for _ in range(min(len(left), 1 + len(left) % 2))]
        return (chain.start(some), [together[number] for number in some]) if some else None

    done = [one for some in decode(chain, search, arrivals) for one in some]
    assert {one.number for one in done} == set(range(23))
    assert max(under_way) > 2  # at different steps
    for one, expected in zip(together, alone, strict=True):
        assert [h.tokens for h in one.found] == [h.tokens for h in expected.found]
        assert [h.score for h in one.found] == pytest.approx([h.score for h in expected.found], abs=1e-4)


def test_the_next_sentences_of_a_list_join_when_a_quarter_of_a_batch_is_left():
    lengths = [*range(1, 17), 0]  # the last is empty, and never begins
    source = Sorted("abcdefghijklmnopq", lengths, tokens=4 * 17, prefix=[])
    came = [one.key for one in source.take(())]
    assert came == [15, 14, 13, 12], "the longest first, as many as have 68 tokens with their ends, padding counted"
    assert source.take(came[:2]) == [], "more than a quarter is under way"
    assert [one.item for one in source.take(came[:1])] == ["l", "k", "j", "i", "h"]
    assert [one.key for one in source.take([7])] == [6, 5, 4, 3, 2, 1, 0], "one of five is left"
    assert [one.key for one in source.take(())] == []
    assert not source.is_cancelled(0)


def test_who_is_cancelled_leaves_and_nobody_else_notices():
    chain = Chain(6, scale=0.1)
    sentences, asked = [Sentence(Constraints(30, 20), number) for number in range(6)], []

    def arrivals():
        asked.append(None)
        sentences[2].cancelled = len(asked) > 4
        return (chain.start(), sentences) if len(asked) == 1 else None

    done = [one for some in decode(chain, TokenByToken(), arrivals) for one in some]
    assert done[0] is sentences[2]
    assert sentences[2].step < 6
    alone = greedy(chain, chain.start(), Constraints(30, 20))
    assert [one.found for n, one in enumerate(sentences) if n != 2] == [f for n, f in enumerate(alone) if n != 2]


def test_lengths_and_prefixes_hold():
    chain = Chain(12)
    limits = [5 + number % 3 for number in range(12)]
    prefixes = [[4, 5, 6][: number % 4] for number in range(12)]
    rules = [Constraints(limit, 4, prefix) for limit, prefix in zip(limits, prefixes, strict=True)]
    outputs = greedy(chain, chain.start(), rules)
    outputs += beam(chain, chain.start(), rules, size=3, n_best=3)
    outputs += sample(chain, chain.start(), rules, seed=1)
    for number, hypotheses in enumerate(outputs):
        assert hypotheses
        for hypothesis in hypotheses:
            prefix = prefixes[number % 12]
            assert hypothesis.tokens[: len(prefix)] == prefix
            assert 4 <= len(hypothesis.tokens) <= limits[number % 12]
            assert not {PAD, START, END} & set(hypothesis.tokens)
    assert any(len(h[0].tokens) > 4 for h in outputs)


def test_an_output_of_length_zero_is_possible():
    chain = Chain(3)
    assert [h[0].tokens for h in greedy(chain, chain.start(), Constraints(0))] == [[], [], []]
    assert [h[0].tokens for h in beam(chain, chain.start(), Constraints(0))] == [[], [], []]


def test_n_best_are_different_and_in_order():
    chain = Chain(8)
    for hypotheses in beam(chain, chain.start(), Constraints(7), size=5, n_best=5):
        assert len(hypotheses) == 5
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(h.tokens) for h in hypotheses}) == 5


def test_sampling_is_reproducible_and_follows_the_model():
    chain = Chain(1, words=6, scale=1.0)
    copies = chain.start().select(torch.zeros(4000, dtype=torch.long))
    first = sample(chain, copies, Constraints(1), seed=5)
    assert first == sample(chain, copies, Constraints(1), seed=5)
    assert first != sample(chain, copies, Constraints(1), seed=6)
    # With at most one token, an output is that token or nothing: compare frequencies with the first step's softmax.
    allowed = [w for w in range(6) if w not in (PAD, START)]
    wanted = chain.tables[0, START, allowed].softmax(0)
    drawn = [h[0].tokens[0] if h[0].tokens else END for h in first]
    for word, probability in zip(allowed, wanted.tolist(), strict=True):
        assert drawn.count(word) / 4000 == pytest.approx(probability, abs=0.035)


def test_top_k_of_one_is_greedy():
    chain = Chain(15)
    plain = greedy(chain, chain.start(), Constraints(8))
    for settings in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}):
        assert sample(chain, chain.start(), Constraints(8), seed=9, **settings) == plain


def test_draw_by_hand():
    logits = torch.tensor([[0.1, 0.5, 0.0, 0.4]]).log().expand(5, 4)
    uniform = torch.tensor([0.0, 0.099, 0.101, 0.61, 0.9999])
    assert draw(logits, uniform).tolist() == [0, 0, 1, 3, 3]
    assert draw(logits, uniform, top_k=2).tolist() == [1, 1, 1, 3, 3]  # 5/9 and 4/9
    assert draw(logits, uniform, top_p=0.6).tolist() == [1, 1, 1, 3, 3]
    assert draw(logits, uniform, top_p=0.45).tolist() == [1, 1, 1, 1, 1]


class Watched(Chain):
    """A chain that looks at the source word with the number of the token it reads, and at padding (column 8) never."""

    def step(self, tokens, state):
        features, state = super().step(tokens, state)
        weights = torch.full((state.rows, 9), 0.02).scatter(1, tokens.unsqueeze(1), 0.86)
        weights[:, 8] = 0.0
        return features, ChainState(state.tables, state.rows, weights)


def test_coverage_ranks_by_the_formula():
    chain, rules, beta = Watched(6), Constraints(5), 0.7
    results = beam(chain, chain.start(), rules, size=6, n_best=6, penalty=LengthPenalty(1.0), coverage=beta)
    plain = beam(chain, chain.start(), rules, size=6, n_best=6, penalty=LengthPenalty(1.0))
    assert results != plain
    for hypotheses in results:
        for h in hypotheses:
            covered = torch.zeros(8)
            for token in [START, *h.tokens]:
                covered += 0.02
                covered[token] += 0.84
            expected = h.log_probability / (len(h.tokens) + 1) + beta * float(covered.clamp(max=1).log().sum())
            assert h.score == pytest.approx(expected, abs=1e-4)
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)


def test_wrong_calls_say_what_is_wrong():
    chain = Chain(2)
    with pytest.raises(CallError, match="n_best=3"):
        beam(chain, chain.start(), Constraints(4), size=2, n_best=3)
    with pytest.raises(CallError, match="watch=True"):
        beam(chain, chain.start(), Constraints(4), coverage=0.2)
    with pytest.raises(CallError, match="min_length=5"):
        Constraints(4, min_length=5)
    with pytest.raises(CallError, match="the prefix has 2 tokens"):
        Constraints(1, prefix=[4, 5])
    with pytest.raises(CallError, match="temperature=0"):
        sample(chain, chain.start(), Constraints(4), seed=0, temperature=0.0)


def test_unknown_words_are_replaced_by_what_they_looked_at():
    weights = np.array([[0.1, 0.7, 0.2, 0.9], [0.6, 0.3, 0.1, 0.9], [0.1, 0.2, 0.7, 0.9]])
    words, source = ["<unk>", "besucht", "<unk>"], ["visits", "Anna", "Rome"]
    assert replace_unknown(words, weights, source) == ["Anna", "besucht", "Rome"]
    assert replace_unknown(words, weights, source, dictionary={"Rome": "Rom"}) == ["Anna", "besucht", "Rom"]


@pytest.mark.parametrize(("words", "count"), [(7, 3), (256, 4), (257, 10), (1003, 10), (1003, 300), (5, 20)])
def test_top_finds_what_sorting_finds(words, count):
    logits = torch.randn(3, 4, words, generator=torch.Generator().manual_seed(words))
    logits[0, :, ::2] = -torch.inf
    offset = torch.tensor([[0.0, 1.0, -torch.inf, 0.3]]).expand(3, 4)
    found = top(logits, offset, count)
    expected = (logits + offset.unsqueeze(2)).flatten(1).sort(dim=1, descending=True)
    real = expected.values[:, :count] > -torch.inf
    torch.testing.assert_close(found.value, expected.values[:, :count])
    place = found.row * words + found.token
    assert torch.equal(place[real], expected.indices[:, :count][real])


def test_normalizer_is_the_logarithm_of_the_sum():
    logits = 50 * torch.randn(301, 1003, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(normalizer(logits), logits.logsumexp(1))
