"""Sampling an output from the model's distribution.

    p(y) ∝ exp(logit_y / temperature)   over the top_k most probable tokens,
                                         or the fewest that hold top_p of the probability

Nucleus sampling (top_p): Holtzman et al. 2019, section 3.1 (arXiv:1904.09751).

Each draw inverts the cumulative distribution at one uniform number. A sentence has numbers of its own, which the seed
and its own number decide: it comes out the same whoever is decoded with it.
"""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.constraints import Constraints
from regard.decoding.engine import Sentence, decode_all
from regard.decoding.greedy import TokenByToken
from regard.decoding.protocol import Hypothesis, S, Steps
from regard.errors import CallError

APART = 1_000_003  # seeds of neighbors differ by this, so that no two sentences of near seeds draw alike


class Drawing:
    """Picks a token at random; for `TokenByToken`, whose score is then the log-probability under the model itself."""

    def __init__(self, *, seed: int, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0) -> None:
        if temperature <= 0.0:
            raise CallError(f"temperature={temperature} must be above 0 (greedy is the limit of small ones)")
        if top_k is not None and top_k < 1:
            raise CallError(f"top_k={top_k} must be at least 1")
        if not 0.0 < top_p <= 1.0:
            raise CallError(f"top_p={top_p} must be above 0 and at most 1")
        self.seed, self.temperature, self.top_k, self.top_p = seed, temperature, top_k, top_p
        self._chance: WeakKeyDictionary[Sentence, torch.Generator] = WeakKeyDictionary()

    def __call__(self, logits: Float[Tensor, "N V"], sentences: Sequence[Sentence]) -> Int[Tensor, " N"]:
        uniform = torch.cat([torch.rand(1, generator=self._generator(one)) for one in sentences]).to(logits.device)
        return draw(logits / self.temperature, uniform, top_k=self.top_k, top_p=self.top_p)

    def _generator(self, sentence: Sentence) -> torch.Generator:
        if sentence not in self._chance:
            seed = (self.seed * APART + sentence.number) % 2**63
            self._chance[sentence] = torch.Generator().manual_seed(seed)
        return self._chance[sentence]


def sample(
    model: Steps[S],
    state: S,
    constraints: Constraints | Sequence[Constraints],
    *,
    seed: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
) -> list[list[Hypothesis]]:
    """One drawn hypothesis a sentence, for sentences that begin together."""
    pick = Drawing(seed=seed, temperature=temperature, top_k=top_k, top_p=top_p)
    return decode_all(model, TokenByToken(pick), state, constraints)


def draw(
    logits: Float[Tensor, "N V"], uniform: Float[Tensor, " N"], *, top_k: int | None = None, top_p: float = 1.0
) -> Int[Tensor, " N"]:
    """The token at which the cumulative probability of what top_k and top_p leave passes `uniform` (in [0, 1))."""
    names = None  # the token of each column, once they are sorted
    if top_k is not None:
        logits, names = logits.topk(min(top_k, logits.shape[1]), dim=1)
    elif top_p < 1.0:
        logits, names = logits.sort(dim=1, descending=True)
    mass = logits.softmax(1, dtype=torch.float32)
    cumulative = mass.cumsum(1)
    if top_p < 1.0:
        mass = mass.where(cumulative - mass < top_p, 0.0)  # the first token always stays
        cumulative = mass.cumsum(1)
    target = uniform.unsqueeze(1).to(mass.dtype) * cumulative[:, -1:]
    # The first column whose cumulative probability is above the target: one of probability 0 never is the first.
    column = torch.searchsorted(cumulative, target, right=True).clamp_(max=mass.shape[1] - 1)
    column = torch.minimum(column, (mass > 0).cumsum(1).argmax(1, keepdim=True))  # rounding at the very end
    return (column if names is None else names.gather(1, column)).squeeze(1)
