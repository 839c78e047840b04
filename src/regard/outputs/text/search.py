"""From memories to hypotheses: greedy, beam or by chance, with all that a recipe says of it. The same for any input."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.beam import LengthPenalty, beam
from regard.decoding.constraints import Constraints
from regard.decoding.ctc import Prefixes
from regard.decoding.ctc_joint import Joint, JointState, LanguageModelVoice
from regard.decoding.greedy import greedy
from regard.decoding.protocol import Hypothesis, Steps
from regard.decoding.sample import sample
from regard.encoders.audio import memory_lengths
from regard.models.ctc import SpeechToText
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text.cross_attention import Ids
from regard.outputs.text.settings import DecodingSettings
from regard.special_tokens import PAD, START, UNK


class TellingSteps(Steps[Any]):
    """A model that tells each token which it is given: decoding feeds what it has chosen into the next step."""

    def __init__(self, model: Seq2Seq, tell: Callable[[int], None]) -> None:
        self._model, self._tell = model, tell

    def step(self, tokens: Int[Tensor, " N"], state: Any) -> tuple[Float[Tensor, "N D"], Any]:
        self._tell(int(tokens[0]))
        return self._model.step(tokens, state)

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        return self._model.logits(features)


@torch.inference_mode()
def search(
    model: Seq2Seq,
    memory: Memory,
    how: DecodingSettings,
    prefix: Ids = (),
    *,
    ctc: float = 0.0,
    language: LanguageModelVoice | None = None,
    tell: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses for each row of a memory, best first: by their score, log p / length ** how.length_penalty.

    `ctc`: its weight in the search, of a model that has it; `language`: a second opinion on texts. `tell` is told every
    token of one row that is decoded without a beam.
    """
    rows, copies = len(memory.vectors), how.n_best if how.sample else 1
    prefixes = [list(prefix)] * rows * copies if prefix else None
    says_unknown = how.unknown or how.replace_unknown or UNK in prefix
    never = (PAD, START) if says_unknown else (PAD, START, UNK)
    rules = Constraints(how.max_length, min_length=how.min_length, prefixes=prefixes, forbidden=never)
    steps: Steps[Any] = model if tell is None else TellingSteps(model, tell)
    penalty, watch = LengthPenalty(how.length_penalty), how.coverage_penalty > 0
    if how.sample or (how.beam == 1 and not (watch or ctc or language)):
        state = model.start(memory, copies)
        found = greedy(steps, state, rules) if not how.sample else sample(
            steps, state, rules, seed=how.seed, temperature=how.temperature, top_k=how.top_k or None, top_p=how.top_p
        )  # fmt: skip
        ranked = [one._replace(score=one.log_probability / penalty(len(one.tokens) + 1)) for (one,) in found]
        groups = (ranked[start : start + copies] for start in range(0, len(ranked), copies))
        return [sorted(group, key=lambda one: -one.score) for group in groups]
    options = {"size": how.beam, "n_best": how.n_best, "coverage": how.coverage_penalty, "penalty": penalty}
    if not ctc and language is None:
        return beam(model, model.start(memory, watch=watch), rules, **options)
    state = JointState(
        decoder=model.start(memory, watch=watch),
        prefixes=Prefixes.start(model.ctc_scores(memory), memory_lengths(memory))
        if ctc and isinstance(model, SpeechToText)
        else None,
        language=None if language is None else language.start(rows),
    )
    return beam(Joint(model, ctc=ctc, language=language), state, rules, normalize=False, **options)
