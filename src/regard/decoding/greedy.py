"""One output a sentence, token by token: the most probable next token, or whatever else `choose` takes."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.constraints import Constraints
from regard.decoding.protocol import Hypothesis, S, Steps
from regard.decoding.top import normalizer, top
from regard.special_tokens import END, START
from regard.work import before_step

LEAVING_SHARE = 0.125  # finished rows are dropped in groups of this share: dropping copies the state of all others

Choose = Callable[[Float[Tensor, "N V"], int, Int[Tensor, " N"]], Int[Tensor, " N"]]


def greedy(model: Steps[S], state: S, constraints: Constraints) -> list[list[Hypothesis]]:
    """y_t = argmax p(y | y_<t, x) until the end symbol. One hypothesis a sentence; its score is its log-probability."""

    def choose(logits: Tensor, _step: int, _sentences: Tensor) -> Tensor:
        return top(logits.unsqueeze(1), logits.new_zeros(len(logits), 1), 1).token.squeeze(1)

    return token_by_token(model, state, constraints, choose)


@torch.inference_mode()
def token_by_token(model: Steps[S], state: S, constraints: Constraints, choose: Choose) -> list[list[Hypothesis]]:
    """`choose(logits, step, sentences)` picks one token a row; rows that have ended leave the batch."""
    count = state.rows
    outputs: list[list[int]] = [[] for _ in range(count)]
    totals = torch.zeros(count, device=state.device)
    ended = [False] * count
    sentences = torch.arange(count, device=state.device)  # the sentence of each row still in the batch
    tokens = torch.full_like(sentences, START)
    for step in range(constraints.longest + 1):
        before_step(len(tokens))
        features, state = model.step(tokens, state)
        logits = model.logits(features)
        scale = normalizer(logits)
        constraints.apply(logits, step, sentences)
        tokens = choose(logits, step, sentences)
        gained = logits.gather(1, tokens.unsqueeze(1)).squeeze(1) - scale
        rows, staying = sentences.tolist(), []
        running = torch.tensor([not ended[sentence] for sentence in rows], device=gained.device)
        totals[sentences] += torch.where(running, gained, 0.0).to(totals.dtype)
        for row, (sentence, token) in enumerate(zip(rows, tokens.tolist(), strict=True)):
            if ended[sentence]:
                continue
            if token == END:
                ended[sentence] = True
            else:
                outputs[sentence].append(token)
                staying.append(row)
        if not staying:
            break
        if len(staying) <= (1.0 - LEAVING_SHARE) * len(rows):
            kept = torch.tensor(staying, device=tokens.device)
            state, tokens, sentences = state.select(kept), tokens[kept], sentences[kept]
    return [[Hypothesis(output, total, total)] for output, total in zip(outputs, totals.tolist(), strict=True)]
