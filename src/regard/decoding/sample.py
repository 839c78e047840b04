"""Drawing an output from the model's distribution.

    p(y) ∝ exp(logit_y / temperature)   over the top_k most probable tokens,
                                         or the fewest that hold top_p of the probability

Nucleus sampling (top_p): Holtzman et al. 2019, section 3.1 (arXiv:1904.09751).

Each draw inverts the cumulative distribution at one uniform number, and all these numbers are drawn at the start, a row
of them a sentence. So an output depends on the seed and the sentence's place in the batch, not on which others ended.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.constraints import Constraints
from regard.decoding.greedy import token_by_token
from regard.decoding.protocol import Hypothesis, S, Steps
from regard.errors import CallError


def sample(
    model: Steps[S],
    state: S,
    constraints: Constraints,
    *,
    seed: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
) -> list[list[Hypothesis]]:
    """One drawn hypothesis a sentence; its score is its log-probability under the model itself, at temperature 1."""
    if temperature <= 0.0:
        raise CallError(f"temperature={temperature} must be above 0 (greedy is the limit of small ones)")
    if top_k is not None and top_k < 1:
        raise CallError(f"top_k={top_k} must be at least 1")
    if not 0.0 < top_p <= 1.0:
        raise CallError(f"top_p={top_p} must be above 0 and at most 1")
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(state.rows, constraints.longest + 1, generator=generator).to(state.device)

    def choose(logits: Tensor, step: int, sentences: Tensor) -> Tensor:
        return draw(logits / temperature, uniform[sentences, step], top_k=top_k, top_p=top_p)

    return token_by_token(model, state, constraints, choose)


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
