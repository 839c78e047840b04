"""Every encoder with every decoder: steps equal forward, padding and batches change nothing, each learns."""

import itertools

import pytest
import torch
from torch import nn

from regard.attention.memory import Memory
from regard.attention.positions import Learned, Rotary, Sinusoidal
from regard.attention.scores import Additive, Bilinear
from regard.attention.trace import Trace
from regard.data.examples import ExampleBatch
from regard.decoders import native_steps
from regard.decoders.decoder import share
from regard.decoders.recurrent import RecurrentDecoder
from regard.decoders.transformer import TransformerDecoder
from regard.encoders.text import RecurrentEncoder, TransformerEncoder
from regard.errors import CallError
from regard.generation.beam import Beam, LengthPenalty, beam
from regard.generation.engine import Constraints, Sentence, decode
from regard.generation.sampling import TokenByToken, greedy
from regard.kernels import inference
from regard.layers import packed
from regard.layers.embedding import Embedding
from regard.layers.transformer import Block
from regard.models.seq2seq import Seq2Seq

SOURCE_WORDS, TARGET_WORDS, EMBEDDED, WIDTH, MEMORY, HEADS = 13, 11, 9, 10, 14, 2


def pairs(source, target):
    return ExampleBatch(source, target)


def recurrent_decoder(context, cell="gru", depth=1, feeding=False, score=Additive):
    built = {Additive: lambda: Additive(WIDTH, MEMORY, 7), Bilinear: lambda: Bilinear(WIDTH, MEMORY)}[score]
    return RecurrentDecoder(
        Embedding(TARGET_WORDS, EMBEDDED),
        WIDTH,
        memory_width=MEMORY,
        summary_width=MEMORY,
        context=context,
        score=built() if context in ("previous", "current") else None,
        input_feeding=feeding,
        cell=cell,
        depth=depth,
    )


def transformer_decoder(positions=None, rotary=None, norm_first=True, kv_heads=None):
    layers = [
        Block(12, HEADS, 15, cross=True, memory_width=MEMORY, norm_first=norm_first, rotary=rotary, kv_heads=kv_heads)
        for _ in range(2)
    ]
    return TransformerDecoder(
        Embedding(TARGET_WORDS, 12, positions=positions), layers, final_norm="layer" if norm_first else None
    )


DECODERS = {
    "initial": lambda: recurrent_decoder("initial"),
    "initial-lstm": lambda: recurrent_decoder("initial", cell="lstm", depth=2),
    "constant": lambda: recurrent_decoder("constant"),
    "previous": lambda: recurrent_decoder("previous"),
    "previous-lstm": lambda: recurrent_decoder("previous", cell="lstm", depth=2, score=Bilinear),
    "current": lambda: recurrent_decoder("current", score=Bilinear),
    "current-feeding": lambda: recurrent_decoder("current", cell="lstm", depth=2, feeding=True),
    "transformer": lambda: transformer_decoder(Sinusoidal(12)),
    "transformer-learned": lambda: transformer_decoder(Learned(12, 40), norm_first=False),
    "transformer-rotary": lambda: transformer_decoder(rotary=Rotary(6), kv_heads=1),
}
ENCODERS = {
    "gru": lambda: RecurrentEncoder(Embedding(SOURCE_WORDS, EMBEDDED), MEMORY),
    "lstm": lambda: RecurrentEncoder(Embedding(SOURCE_WORDS, EMBEDDED), MEMORY, cell="lstm", depth=2),
    "one-way": lambda: RecurrentEncoder(Embedding(SOURCE_WORDS, EMBEDDED), MEMORY, depth=2, bidirectional=False),
    "transformer": lambda: TransformerEncoder(
        Embedding(SOURCE_WORDS, MEMORY, positions=Sinusoidal(MEMORY)), [Block(MEMORY, 2, 15) for _ in range(2)]
    ),
}


def some_memory(rows=5, size=7):
    generator = torch.Generator().manual_seed(4)
    vectors = torch.randn(rows, size, MEMORY, generator=generator)
    mask = torch.arange(size) < torch.tensor([size, 3, size - 1, 1, 4])[:rows, None]
    return Memory(vectors, mask, torch.randn(rows, MEMORY, generator=generator))


def some_tokens(rows, length, words=TARGET_WORDS, seed=3):
    return torch.randint(4, words, (rows, length), generator=torch.Generator().manual_seed(seed))


# Without gradients, steps take other ways: by compiled kernels and packed weights, or without them.
PLAIN = ("transformer", "transformer-learned")
WAYS = [(name, way) for name in DECODERS for way in ("general", "native")] + [(name, "plain") for name in PLAIN]


@pytest.fixture(params=WAYS, ids="-".join)
def decoder(request, monkeypatch):
    name, way = request.param
    torch.manual_seed(7)
    steps_by(way, monkeypatch)
    with torch.set_grad_enabled(way == "general"):
        yield DECODERS[name]().eval()


def steps_by(way, monkeypatch):
    if way == "native" and not inference.available():
        pytest.skip("no C compiler: apt-get install gcc, or whatever your system calls it")
    monkeypatch.setattr(packed, "USES", 0)  # weights are packed at once
    if way == "plain":
        monkeypatch.setattr(inference, "available", lambda *tensors: False)


def stepped(decoder, tokens, state):
    features = []
    for t in range(tokens.shape[1]):
        now, state = decoder.step(tokens[:, t], state)
        features.append(now)
    return torch.stack(features, 1), state


def test_steps_equal_forward(decoder):
    memory, tokens = some_memory(), some_tokens(5, 6)
    whole = decoder(tokens, memory)
    assert whole.shape == (5, 6, decoder.feature_width)
    one_by_one, _ = stepped(decoder, tokens, decoder.start(memory))
    torch.testing.assert_close(one_by_one, whole, rtol=1e-4, atol=1e-5)


def test_the_future_changes_nothing(decoder):
    memory, tokens = some_memory(), some_tokens(5, 6)
    other = tokens.clone()
    other[:, 4:] = (other[:, 4:] - 3) % 7 + 4
    torch.testing.assert_close(decoder(tokens, memory)[:, :4], decoder(other, memory)[:, :4])
    assert not torch.equal(decoder(tokens, memory)[:, 4:], decoder(other, memory)[:, 4:])


def test_copies_share_a_memory_row(decoder):
    memory, tokens = some_memory(), some_tokens(15, 4)
    got, _ = stepped(decoder, tokens, decoder.start(memory, copies=3))
    wanted = decoder(tokens, memory.select(torch.arange(5).repeat_interleave(3)))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "rows",
    [
        [2, 0, 1, 5, 4, 4, 6, 6, 7, 11, 10, 9, 14, 13, 12],  # beams change places within their sentences
        [3, 5, 4, 12, 12, 13],  # sentences leave
        [1, 9, 3, 4, 14],  # one row each is left, and sentences change places
        [8, 0, 0, 1, 13],  # groups of different sizes
    ],
)
def test_selected_rows_go_on_as_they_would_have(decoder, rows):
    memory, tokens = some_memory(), some_tokens(15, 5)
    _, state = stepped(decoder, tokens[:, :3], decoder.start(memory, copies=3))
    got, _ = stepped(decoder, tokens[rows, 3:], state.select(torch.tensor(rows)))
    owners = torch.tensor(rows) // 3
    wanted = decoder(tokens[rows], memory.select(owners))[:, 3:]
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_step_leaves_its_state_as_it_was(decoder):
    """State is a value: two ways on from one state, taken in turns, do not disturb each other."""
    memory, tokens, others = some_memory(), some_tokens(5, 6), some_tokens(5, 6, seed=9)
    _, one = stepped(decoder, tokens[:, :2], decoder.start(memory))
    other = one
    for t in range(2, 6):
        features, one = decoder.step(tokens[:, t], one)
        different, other = decoder.step(others[:, t], other)
    torch.testing.assert_close(features, decoder(tokens, memory)[:, -1], rtol=1e-4, atol=1e-5)
    mixed = torch.cat([tokens[:, :2], others[:, 2:]], dim=1)
    torch.testing.assert_close(different, decoder(mixed, memory)[:, -1], rtol=1e-4, atol=1e-5)


def test_what_the_mask_hides_changes_nothing(decoder):
    memory, tokens = some_memory(), some_tokens(5, 6)
    noise = torch.where(memory.mask.unsqueeze(2), memory.vectors, 100.0)
    other = Memory(noise, memory.mask, memory.summary)
    torch.testing.assert_close(decoder(tokens, other), decoder(tokens, memory))


def test_looking_changes_nothing_and_sees_the_same_in_steps(decoder):
    memory, tokens = some_memory(), some_tokens(5, 6)
    plain = decoder(tokens, memory)
    with Trace(decoder) as seen:
        looked = decoder(tokens, memory)
        attends = seen._kept != {}
    torch.testing.assert_close(looked, plain, rtol=1e-4, atol=1e-5)
    if not attends:
        with pytest.raises(CallError, match="watch needs attention"):
            decoder.start(memory, watch=True)
        return
    name = seen.names[-1]
    weights = seen[name]
    assert weights.shape[0::2] == (5, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert (weights.masked_select(~memory.mask[:, None, None]) == 0).all()
    state = decoder.start(memory, watch=True)
    for t in range(6):
        _, state = decoder.step(tokens[:, t], state)
        torch.testing.assert_close(state.weights, weights[:, :, t].mean(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", ["native", "plain"])
@pytest.mark.parametrize("name", PLAIN)
def test_beams_that_share_their_keys_go_on_as_beams_with_their_own(name, way, monkeypatch):
    """Over more steps than a buffer has room for, so that keys of beams that were given up are dropped."""
    steps_by(way, monkeypatch)
    monkeypatch.setattr(native_steps, "STEPS", 16)
    torch.manual_seed(7)
    decoder, memory = DECODERS[name]().eval(), some_memory()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        shared, own = decoder.start(memory), decoder.start(memory, watch=True)
        assert type(shared) is not type(own)
        for step in range(38):
            rows = own.rows
            tokens = torch.randint(4, TARGET_WORDS, (rows,), generator=generator)
            (features, shared), (expected, own) = decoder.step(tokens, shared), decoder.step(tokens, own)
            torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-5)
            sentences, width = (5, 1) if step == 0 else (rows // 3, 3)
            origin = torch.randint(0, width, (sentences, 3), generator=generator)
            chosen = (torch.arange(sentences).unsqueeze(1) * width + origin)[1 if step == 20 else 0 :].flatten()
            shared, own = shared.select(chosen), own.select(chosen)
        kept = shared.past.rows.shape[1] / shared.rows if way == "native" else shared.keys / 3
        assert kept < 38, "keys of nobody were never dropped"


@pytest.mark.parametrize("name", ENCODERS)
def test_padding_changes_nothing(name):
    torch.manual_seed(5)
    encoder = ENCODERS[name]().eval()
    tokens = some_tokens(4, 6, SOURCE_WORDS)
    lengths = [6, 2, 5, 1]
    for row, length in enumerate(lengths):
        tokens[row, length:] = 0
    together = encoder(nn.functional.pad(tokens, (0, 3)))
    assert together.vectors.shape == (4, 9, MEMORY)
    for row, length in enumerate(lengths):
        alone = encoder(tokens[row : row + 1, :length])
        torch.testing.assert_close(together.vectors[row, :length], alone.vectors[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(together.summary[row], alone.summary[0], rtol=1e-4, atol=1e-5)
        assert together.mask[row].tolist() == [True] * length + [False] * (9 - length)


def test_recurrent_encoder_is_torch_bidirectional_gru():
    encoder = RecurrentEncoder(Embedding(SOURCE_WORDS, EMBEDDED), MEMORY)
    reference = nn.GRU(EMBEDDED, MEMORY // 2, bidirectional=True, batch_first=True)
    for suffix, part in (("", encoder.ahead[0]), ("_reverse", encoder.back[0])):
        for name, value in part.state_dict().items():
            reference.state_dict()[name + suffix].copy_(value)
    tokens = some_tokens(3, 5, SOURCE_WORDS)
    outputs, last = reference(encoder.embedding(tokens))
    memory = encoder(tokens)
    torch.testing.assert_close(memory.vectors, outputs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(memory.summary, torch.cat([last[0], last[1]], dim=1), rtol=1e-4, atol=1e-5)


def test_an_empty_source_is_no_reason_to_fail():
    for encoder, decoder in itertools.product(ENCODERS.values(), DECODERS.values()):
        model = Seq2Seq(encoder(), decoder(), tie="none")
        loss = model(pairs(torch.zeros(2, 3, dtype=torch.long), some_tokens(2, 4)))
        assert loss.total.isfinite()


def toy_model(decoder, tie="none"):
    torch.manual_seed(11)
    model = Seq2Seq(ENCODERS["gru"](), DECODERS[decoder](), tie=tie)
    for parameter in model.parameters():  # far from uniform, so that rounding does not decide between hypotheses
        nn.init.normal_(parameter, std=0.6)
    return model.eval()


@pytest.mark.parametrize("name", ["constant", "previous", "current-feeding", "transformer", "transformer-rotary"])
def test_decoding_does_not_depend_on_the_batch(name):
    model = toy_model(name)
    source = some_tokens(7, 6, SOURCE_WORDS)
    for row in range(7):
        source[row, 1 + row % 6 :] = 0
    limits = Constraints(8)

    @torch.no_grad()
    def run(source):
        state = model.start(model.encode(source))
        return greedy(model, state, limits), beam(model, state, limits, size=3, n_best=2)

    def close(one, other):
        for found, expected in zip(one, other, strict=True):
            assert [h.tokens for h in found] == [h.tokens for h in expected]
            assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-3)

    together = run(source)
    wider = run(nn.functional.pad(source, (0, 4)))
    backwards = run(source.flip(0))
    for number in range(2):
        close(wider[number], together[number])
        close(backwards[number][::-1], together[number])
        close([run(source[row : row + 1])[number][0] for row in (0, 4)], [together[number][row] for row in (0, 4)])
    for search, expected in zip((TokenByToken(), Beam(3, 2)), together, strict=True):
        close(one_after_the_other(model, source, search, limits), expected)


def one_after_the_other(model, source, search, limits):
    """A row joins at each step, without the padding that it has beside longer ones."""
    sentences, came = [Sentence(limits) for _ in source], iter(range(len(source)))

    @torch.no_grad()
    def arrivals():
        row = next(came, None)
        if row is None:
            return None
        real = source[row : row + 1, : int((source[row] != 0).sum())]
        return model.start(model.encode(real)), [sentences[row]]

    list(decode(model, search, arrivals))
    return [sentence.found for sentence in sentences]


@pytest.mark.parametrize("name", ["previous", "transformer"])
def test_a_hypothesis_scores_as_the_pair_does(name):
    model = toy_model(name)
    source = some_tokens(4, 5, SOURCE_WORDS)
    with torch.no_grad():
        results = beam(model, model.start(model.encode(source)), Constraints(7), size=4, n_best=3)
    for row, hypotheses in enumerate(results):
        for hypothesis in hypotheses:
            target = torch.tensor([[*hypothesis.tokens, 3]])
            total = float(model.score(source[row : row + 1], target).sum().detach())
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize("name", ["previous", "transformer"])
def test_coverage_watches_the_real_decoder(name):
    model = toy_model(name)
    source = some_tokens(3, 5, SOURCE_WORDS)
    settings = {"size": 4, "n_best": 4, "penalty": LengthPenalty(1.0)}
    memory = model.encode(source)
    results = beam(model, model.start(memory, watch=True), Constraints(6), coverage=0.5, **settings)
    for row, hypotheses in enumerate(results):
        for h in hypotheses:
            with Trace(model) as seen:
                model.features(memory.select(torch.tensor([row])), torch.tensor([[*h.tokens, 3]]))
            covered = seen[seen.names[-1]].mean(1).sum(1)[0]
            expected = h.log_probability / (len(h.tokens) + 1) + 0.5 * float(covered.clamp(max=1).log().sum())
            assert h.score == pytest.approx(expected, abs=1e-3)


def test_score_is_the_loss_token_by_token():
    model = toy_model("previous")
    source, target = some_tokens(3, 5, SOURCE_WORDS), some_tokens(3, 4)
    target[1, 2:] = 0
    scores, loss = model.score(source, target), model(pairs(source, target))
    torch.testing.assert_close(-scores.sum(), loss.total, rtol=1e-4, atol=1e-4)
    assert loss.count == 10
    assert (scores[1, 2:] == 0).all()


def test_ties():
    def parts():
        encoder = TransformerEncoder(Embedding(TARGET_WORDS, 12), [Block(12, HEADS, 15)])
        block = Block(12, HEADS, 15, cross=True)
        return encoder, TransformerDecoder(Embedding(TARGET_WORDS, 12), [block])

    table = TARGET_WORDS * 12
    sizes = {}
    for tie in ("none", "output", "all"):
        model = Seq2Seq(*parts(), tie=tie)
        sizes[tie] = sum(p.numel() for p in model.parameters())
    assert sizes["none"] - sizes["output"] == sizes["output"] - sizes["all"] == table
    with pytest.raises(CallError, match="one table for both sides"):
        Seq2Seq(ENCODERS["gru"](), DECODERS["transformer"](), tie="all")
    with pytest.raises(CallError, match="score"):
        RecurrentDecoder(Embedding(5, 4), 4, memory_width=3, summary_width=3, context="previous")


def test_share_keeps_groups_together():
    rows, copies = share(torch.tensor([2, 0, 1, 5, 3, 4]), 2, 3)
    assert (rows, copies) == (None, 3)
    rows, copies = share(torch.tensor([0, 0, 1, 1, 2, 2]), 3, 1)
    assert (rows, copies) == (None, 2)
    rows, copies = share(torch.tensor([4, 3]), 2, 3)
    assert (rows.tolist(), copies) == ([1], 2)
    rows, copies = share(torch.tensor([0, 1, 3]), 2, 3)
    assert (rows.tolist(), copies) == ([0, 0, 1], 1)


@pytest.mark.parametrize("name", DECODERS)
def test_each_model_learns_to_reverse(name):
    """Four letters backwards: one batch of pairs, learned by heart."""
    torch.manual_seed(1)
    source = some_tokens(8, 4, TARGET_WORDS, seed=8)
    target = torch.cat([source.flip(1), torch.full((8, 1), 3)], dim=1)
    model = Seq2Seq(RecurrentEncoder(Embedding(TARGET_WORDS, EMBEDDED), MEMORY), DECODERS[name](), tie="none")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(200):
        loss = model(pairs(source, target))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
        if loss.total.item() < 0.1 * loss.count and int(loss.correct) == loss.count:
            break
    model.eval()
    with torch.no_grad():
        found = greedy(model, model.start(model.encode(source)), Constraints(9))
    assert [h[0].tokens for h in found] == source.flip(1).tolist()


@torch.no_grad()
def test_a_decoder_without_memory_is_a_language_model():
    torch.manual_seed(2)
    decoder = TransformerDecoder(
        Embedding(TARGET_WORDS, 12, positions=Sinusoidal(12)), [Block(12, HEADS, 15) for _ in range(2)]
    ).eval()
    tokens = some_tokens(5, 20)  # longer than the first buffer of the cache
    whole = decoder(tokens)
    one_by_one, _ = stepped(decoder, tokens, decoder.start(copies=5))
    torch.testing.assert_close(one_by_one, whole, rtol=1e-4, atol=1e-5)
    _, state = stepped(decoder, tokens[:, :17], decoder.start(copies=5))
    rows = torch.tensor([4, 0, 0])
    rest, _ = stepped(decoder, tokens[rows, 17:], state.select(rows))
    torch.testing.assert_close(rest, whole[rows, 17:], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_row_with_nothing_to_attend_to_is_the_same_in_steps():
    torch.manual_seed(2)
    decoder, memory, tokens = DECODERS["transformer"]().double().eval(), some_memory(), some_tokens(5, 4)
    mask = memory.mask & (torch.arange(5) != 2)[:, None]
    empty = Memory(memory.vectors.double(), mask, memory.summary.double())
    one_by_one, _ = stepped(decoder, tokens, decoder.start(empty))
    torch.testing.assert_close(one_by_one, decoder(tokens, empty))
