"""From sound to hypotheses, and when each token of a text was heard.

Long recordings come in windows that are cut where it is quiet. Decoding is never traced: the winner is forced through
the model once more under a trace, which gives the weights that decoding had.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from regard.attention import Trace
from regard.attention.memory import Memory
from regard.data.batches import pad_sentences
from regard.data.tokenizer import Tokenizer
from regard.decoding.beam import LengthPenalty, beam
from regard.decoding.constraints import Constraints
from regard.decoding.ctc import Prefixes, forced_alignment
from regard.decoding.ctc_joint import Joint, JointState, LanguageModelVoice
from regard.decoding.greedy import greedy
from regard.decoding.protocol import Hypothesis
from regard.decoding.sample import sample
from regard.encoders.audio import memory_lengths
from regard.inputs.sound.batches import Frames, collate
from regard.metrics.speech import expected_times, median_times, middle_spans, peak_times
from regard.models.ctc import SpeechToText
from regard.outputs.text.aligning import Weights, over_the_source
from regard.outputs.text.search import Ids, in_groups
from regard.outputs.text.transcribe_settings import SoundSettings, SpeechDecodingSettings

Features = Float[torch.Tensor, "S F"]


@torch.inference_mode()
def listen(
    model: SpeechToText,
    features: Sequence[Features],
    how: SpeechDecodingSettings,
    *,
    prefix: Ids = (),
    language: LanguageModelVoice | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each recording, best first; in the order of the recordings."""

    def decode(numbers: list[int]) -> list[list[Hypothesis]]:
        memory = model.encode(_frames(model, [features[number] for number in numbers]))
        return search_memory(model, memory, how, prefix=prefix, language=language)

    lengths = [len(one) for one in features]
    found = dict(in_groups(range(len(features)), lengths, how.batch_tokens, decode))
    return [found[number] for number in range(len(features))]


def search_memory(
    model: SpeechToText,
    memory: Memory,
    how: SpeechDecodingSettings,
    *,
    prefix: Ids = (),
    language: LanguageModelVoice | None = None,
) -> list[list[Hypothesis]]:
    rows = len(memory.vectors)
    prefixes = [list(prefix)] * rows if prefix else None
    rules = Constraints(how.max_length, min_length=how.min_length, prefixes=prefixes)
    if how.sample:
        rules.prefixes = [list(prefix)] * rows * how.n_best if prefix else None
        drawn = sample(
            model, model.start(memory, how.n_best), rules,
            seed=how.seed, temperature=how.temperature, top_k=how.top_k or None, top_p=how.top_p,
        )  # fmt: skip
        groups = [[one for (one,) in drawn[i : i + how.n_best]] for i in range(0, len(drawn), how.n_best)]
        return [sorted(found, key=lambda hypothesis: -hypothesis.score) for found in groups]
    ctc = how.ctc if model.ctc is not None else 0.0
    options = {"size": how.beam, "n_best": how.n_best, "coverage": how.coverage_penalty}
    penalty, watch = LengthPenalty(how.length_penalty), how.coverage_penalty > 0
    if ctc == 0 and language is None:
        if how.beam == 1 and not watch:
            return greedy(model, model.start(memory), rules)
        return beam(model, model.start(memory, watch=watch), rules, penalty=penalty, **options)
    state = JointState(
        decoder=model.start(memory, watch=watch),
        prefixes=Prefixes.start(model.ctc_scores(memory), memory_lengths(memory)) if ctc else None,
        language=None if language is None else language.start(rows),
    )
    joint = Joint(model, ctc=ctc, language=language)
    return beam(joint, state, rules, penalty=penalty, normalize=False, **options)


@dataclass(frozen=True)
class Attended:
    """Where a forced text looked: each attention's heads × tokens (the end included) × vectors of the memory."""

    weights: Weights
    ctc: list[tuple[int, int]] | None  # by CTC: the first and last vector of each token

    @property
    def mean(self) -> Float[np.ndarray, "T K"]:
        return np.mean([heads.mean(axis=0) for heads in self.weights.values()], axis=0)


@torch.inference_mode()
def attended(model: SpeechToText, features: Sequence[Features], targets: Sequence[Ids], group: int) -> list[Attended]:
    """Where the model looks when it writes each target; with CTC, also what that says."""
    training = model.training
    model.eval()

    def look(numbers: list[int]) -> list[Attended]:
        frames = _frames(model, [features[number] for number in numbers])
        target = pad_sentences([targets[number] for number in numbers]).to(frames.device)
        with Trace(model) as seen:
            memory = model.encode(frames)
            model.features(memory, target)
        tables = {name: seen[name].float().cpu().numpy() for name in over_the_source(seen)}
        counts = memory_lengths(memory).tolist()
        scores = None if model.ctc is None else model.ctc_scores(memory).cpu()
        return [
            Attended(
                {name: table[row, :, : len(targets[n]) + 1, :count] for name, table in tables.items()},
                None if scores is None else forced_alignment(scores[row, :count], list(targets[n])),
            )
            for row, (n, count) in enumerate(zip(numbers, counts, strict=True))
        ]

    lengths = [len(one) for one in features]
    found = dict(in_groups(range(len(features)), lengths, group, look))
    model.train(training)
    return [found[number] for number in range(len(features))]


@torch.inference_mode()
def log_probabilities(
    model: SpeechToText, features: Sequence[Features], targets: Sequence[Ids], group: int
) -> list[float]:
    """log p(target | sound) by the decoder, the end symbol included."""

    def score(numbers: list[int]) -> list[float]:
        frames = _frames(model, [features[number] for number in numbers])
        target = pad_sentences([targets[number] for number in numbers]).to(frames.device)
        return model.score(frames, target).sum(1).tolist()

    found = dict(in_groups(range(len(features)), [len(one) for one in features], group, score))
    return [found[number] for number in range(len(features))]


class Clock:
    """When the vectors of a memory are: each stands for `reduction` frames."""

    def __init__(self, sound: SoundSettings, reduction: int) -> None:
        self.reduction, self.step = reduction, reduction * sound.hop
        # The middle of the first group of frames, less half a step.
        self.first = ((reduction - 1) * sound.hop + sound.window - self.step) / 2

    def edges(self, vectors: int) -> Float[np.ndarray, " K1"]:
        """When each vector begins, and when the last one ends."""
        return self.first + self.step * np.arange(vectors + 1)

    def middles(self, vectors: int) -> Float[np.ndarray, " K"]:
        return self.edges(vectors)[:-1] + self.step / 2

    def readings(self, seen: Attended, tokens: int) -> dict[str, Float[np.ndarray, " T"]]:
        """When each token was heard, by every way of reading it that the model has."""
        found = {}
        if seen.weights:
            mean = seen.mean[:tokens]
            middles = self.middles(mean.shape[1])
            found = {
                "attention": median_times(mean, self.edges(mean.shape[1])),
                "peak": peak_times(mean, middles),
                "expectation": expected_times(mean, middles),
            }
        if seen.ctc is not None:
            found["ctc"] = self.first + self.step * (np.array(seen.ctc).reshape(-1, 2).sum(axis=1) / 2 + 0.5)
        return found

    def spans(self, seen: Attended, tokens: int) -> Float[np.ndarray, "T 2"] | None:
        """From when to when each token was heard: by CTC if the model has it, else by the middle of its attention."""
        if seen.ctc is not None:
            frames = np.array(seen.ctc).reshape(-1, 2)
            return self.first + self.step * (frames + np.array([0, 1]))
        if not seen.weights:
            return None
        mean = seen.mean[:tokens]
        return middle_spans(mean, self.edges(mean.shape[1]))


def pieces(tokenizer: Tokenizer, text: str, start: int, end: int) -> list[int]:
    """The tokens of `text` that stand, in part at least, between two of its characters."""
    return [place for place, span in enumerate(tokenizer.spans(text)) if span.start < end and span.end > start]


def _frames(model: SpeechToText, features: Sequence[Features]) -> Frames:
    return collate(list(features)).to(next(model.parameters()).device)
