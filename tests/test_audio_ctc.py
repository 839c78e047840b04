"""CTC against all paths written out, encoders against their padding, and the joint search against all outputs."""

from dataclasses import dataclass
from itertools import groupby, pairwise, product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.data.batches import Padded
from regard.data.examples import ExampleBatch
from regard.encoders.audio import memory_lengths, together
from regard.generation.alignment import BLANK, forced_alignment
from regard.generation.beam import LengthPenalty, beam
from regard.generation.ctc import JointScores, JointState, LanguageModelFusion, Prefixes
from regard.generation.engine import Constraints
from regard.inputs.sound.input import SoundInput
from regard.special_tokens import END
from regard.tasks.text.output import build_writer
from regard.tasks.text.settings import ListenerSettings, SpeechTransformerSettings, TranscribeRecipe

K, V = 5, 7  # tokens 4, 5, 6 are text
TEXT = (4, 5, 6)
BANDS = 9
MODELS = {
    "pyramid": ListenerSettings(width=12, embedding=6, pyramid=2, stack=3, ctc=0.4, dropout=0.0),
    "convolution": SpeechTransformerSettings(
        width=12, heads=3, feed_forward=17, encoder_layers=2, decoder_layers=1, channels=5, ctc=0.4, dropout=0.0
    ),
}


def chances(seed=0, rows=1):
    logits = torch.randn(rows, K, V, generator=torch.Generator().manual_seed(seed))
    logits[:, :, 1:4] = -30.0  # specials are never heard
    return logits.log_softmax(-1)


def read_off(path):
    """Repeats and blanks taken out."""
    return tuple(token for token, _ in groupby(path) if token != BLANK)


def all_outputs(scores):
    """p(output) of every output, by adding up all paths."""
    found = {}
    for path in product((BLANK, *TEXT), repeat=len(scores)):
        p = np.exp(sum(float(scores[t, token]) for t, token in enumerate(path)))
        found[read_off(path)] = found.get(read_off(path), 0.0) + p
    return found


@pytest.mark.parametrize("beginning", [(), (4,), (4, 4), (5, 6), (6, 6, 4)])
def test_prefix_scores_are_sums_over_all_paths(beginning):
    scores = chances(3)
    outputs = all_outputs(scores[0])
    prefixes = Prefixes.start(scores, torch.tensor([K]))
    for token in beginning:
        prefixes = prefixes.step(torch.tensor([token]))
    psi = (prefixes.gains() + prefixes.psi.unsqueeze(1)).exp()[0]
    for token in TEXT:
        longer = (*beginning, token)
        wanted = sum(p for output, p in outputs.items() if output[: len(longer)] == longer)
        assert float(psi[token]) == pytest.approx(wanted, abs=1e-6)
    assert float(psi[END]) == pytest.approx(outputs.get(beginning, 0.0), abs=1e-6)


def test_prefixes_of_several_recordings_and_beams_keep_apart():
    scores, lengths = chances(1, rows=2), torch.tensor([K, 3])
    both = Prefixes.start(scores, lengths, copies=2).step(torch.tensor([4, 5, 6, 4]))
    for row, (recording, token) in enumerate([(0, 4), (0, 5), (1, 6), (1, 4)]):
        length = int(lengths[recording])
        alone = Prefixes.start(scores[recording : recording + 1, :length], torch.tensor([length]))
        alone = alone.step(torch.tensor([token]))
        torch.testing.assert_close(both.gains()[row, 3:], alone.gains()[0, 3:])
    uneven = both.select(torch.tensor([3, 0, 1]))
    torch.testing.assert_close(uneven.gains(), both.gains()[[3, 0, 1]])


@pytest.mark.parametrize("tokens", [[4], [4, 4], [5, 6, 4]])
def test_forced_alignment_is_the_best_of_all_paths(tokens):
    scores = chances(5)[0]
    best = max(
        (path for path in product((BLANK, *TEXT), repeat=K) if read_off(path) == tuple(tokens)),
        key=lambda path: sum(float(scores[t, token]) for t, token in enumerate(path)),
    )
    wanted, place = [], 0
    for token, run in groupby(best):
        size = len(list(run))
        if token != BLANK:
            wanted.append((place, place + size - 1))
        place += size
    assert forced_alignment(scores, tokens) == wanted


def test_a_text_that_is_too_long_for_its_sound_has_no_alignment():
    assert forced_alignment(chances()[0], [4, 4, 4, 4]) is None  # four equal ones need seven frames
    assert forced_alignment(chances()[0], []) == []


# --------------------------------------------------------------------------------------------------------------- models
def sounds(*lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Padded.of([torch.randn(length, BANDS, generator=generator) for length in lengths])


def build(settings):
    data = {"train": "corpus:tones", "sound": {"bands": BANDS}}
    recipe = TranscribeRecipe.model_validate({"data": data, "model": settings.model_dump()})
    return build_writer(settings, V, SoundInput(recipe).encoder(settings)).eval()


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(0)
    return build(MODELS[request.param])


def test_padding_changes_nothing(model):
    frames = sounds(29, 17)
    both = model.encode(frames)
    alone = model.encode(Padded(frames.values[1:, :17], frames.lengths[1:]))
    size = alone.vectors.shape[1]
    assert memory_lengths(both).tolist() == [both.vectors.shape[1], size]
    torch.testing.assert_close(both.vectors[1, :size], alone.vectors[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(both.summary[1], alone.summary[0], atol=1e-5, rtol=1e-4)
    noisy = frames.values.clone()
    noisy[1, 17:] = 99.0
    torch.testing.assert_close(
        model.encode(Padded(noisy, frames.lengths)).vectors[1, :size], alone.vectors[0], atol=1e-5, rtol=1e-4
    )


def test_reduction_is_what_the_settings_say():
    for name, settings in MODELS.items():
        size = build(settings).encode(sounds(61)).vectors.shape[1]
        assert size == -(-61 // settings.reduction), name


def test_neighbors_are_put_together_in_order():
    x = torch.arange(1.0, 11).view(1, 5, 2)
    joined, mask = together(x, torch.tensor([[True, True, True, False, False]]), 2)
    assert joined.tolist() == [[[1, 2, 3, 4], [5, 6, 0, 0], [0, 0, 0, 0]]]
    assert mask.tolist() == [[True, True, False]]


def test_the_joint_loss_is_the_weighted_sum_of_both(model):
    batch = ExampleBatch(sounds(48, 36), torch.tensor([[4, 5, END], [6, END, 0]]))
    memory = model.encode(batch.source)
    attention = -model.score(batch.source, batch.target).sum()
    losses = [
        F.ctc_loss(
            model.ctc_scores(memory)[row, :size].unsqueeze(1), torch.tensor([target]),
            torch.tensor([size]), torch.tensor([len(target)]), reduction="sum",
        )
        for row, (size, target) in enumerate(zip(memory_lengths(memory).tolist(), [[4, 5], [6]], strict=True))
    ]  # fmt: skip
    found = model(batch)
    assert found.count == 5
    torch.testing.assert_close(found.total, 0.6 * attention + 0.4 * sum(losses))


def test_a_share_without_rows_counts_nothing_and_gives_no_gradient(model):
    loss = model(ExampleBatch(sounds(20), torch.zeros(1, 1, dtype=torch.int64)))
    assert loss.total.item() == 0
    assert loss.count == 0


# --------------------------------------------------------------------------------------------------------- joint search
@dataclass(frozen=True)
class Written:
    """The state of a bigram model: the last token."""

    last: torch.Tensor

    @property
    def rows(self):
        return len(self.last)

    @property
    def device(self):
        return self.last.device

    def select(self, rows):
        return Written(self.last[rows])


class Bigrams:
    """A model that knows the last token only; its logits stand in a table."""

    def __init__(self, seed, size=V):
        self.table = torch.randn(size, size, generator=torch.Generator().manual_seed(seed))

    def step(self, tokens, state):
        return self.table[tokens], Written(tokens)

    def logits(self, features):
        return features.clone()

    def log_probability(self, tokens):
        path = [2, *tokens, END]
        chances = self.table.log_softmax(-1)
        return sum(float(chances[a, b]) for a, b in pairwise(path))


@pytest.mark.parametrize(("ctc", "weight"), [(0.0, 0.5), (0.4, 0.0), (0.4, 0.5)])
def test_the_joint_search_finds_the_best_sum_of_all_opinions(ctc, weight):
    scores, model, language = chances(2), Bigrams(0), Bigrams(1, V + 1)
    names = torch.tensor([0, 1, 2, 3, 7, 4, 6])  # the language model has another order of tokens
    outputs = all_outputs(scores[0])

    def opinion(tokens):
        total = (1 - ctc) * model.log_probability(tokens)
        total += ctc * np.log(max(outputs.get(tuple(tokens), 0.0), 1e-30)) if ctc else 0.0
        return total + (weight * language.log_probability([int(names[token]) for token in tokens]) if weight else 0.0)

    candidates = [tokens for length in range(4) for tokens in product((1, *TEXT), repeat=length)]
    wanted = max(candidates, key=opinion)
    voice = LanguageModelFusion(language, lambda rows: Written(torch.zeros(rows, dtype=torch.int64)), weight, names)
    state = JointState(
        Written(torch.zeros(1, dtype=torch.int64)),
        Prefixes.start(scores, torch.tensor([K])) if ctc else None,
        voice.start(1) if weight else None,
    )
    joint = JointScores(model, ctc=ctc, language=voice if weight else None)
    ((best,),) = beam(joint, state, Constraints(3), size=64, penalty=LengthPenalty(0.0), normalize=False)
    assert tuple(best.tokens) == wanted
    assert best.score == pytest.approx(opinion(wanted), abs=1e-4)
