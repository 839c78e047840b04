"""One output a sentence, token by token: the most probable next token, or whatever else `choose` takes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.constraints import Constraints, constrain
from regard.decoding.engine import Batch, Choice, Sentence, decode_all
from regard.decoding.protocol import Hypothesis, S, Steps
from regard.decoding.top import most_probable, normalizer
from regard.special_tokens import END

ITSELF = [0]  # the one beam that a sentence has goes on from itself
Choose = Callable[[Float[Tensor, "N V"], Sequence[Sentence]], Int[Tensor, " N"]]


def greedily(logits: Float[Tensor, "N V"], _sentences: Sequence[Sentence]) -> Int[Tensor, " N"]:
    """y_t = argmax p(y | y_<t, x)"""
    return most_probable(logits)[1]


@dataclass(frozen=True)
class TokenByToken:
    """`pick(logits, sentences)` takes one token a sentence, until the end symbol. One hypothesis a sentence; its score
    is its log-probability."""

    pick: Choose = greedily

    def choose(self, logits: Float[Tensor, "N V"], batch: Batch) -> Choice:
        scale = normalizer(logits)
        constrain(logits, [(sentence.constraints, sentence.step) for sentence in batch.sentences])
        picked = self.pick(logits, batch.sentences).unsqueeze(1)
        scores = batch.scores + (logits.gather(1, picked) - scale.unsqueeze(1)).to(batch.scores.dtype)
        for row, (sentence, tokens) in enumerate(zip(batch.sentences, picked.tolist(), strict=True)):
            if sentence.done:
                continue
            if tokens[0] == END:
                total = float(scores[row, 0])
                sentence.found, sentence.done = [Hypothesis(sentence.said(), total, total)], True
            else:
                sentence.origins.append(ITSELF)
                sentence.tokens.append(tokens)
        return Choice(picked, scores)


def greedy(model: Steps[S], state: S, constraints: Constraints | Sequence[Constraints]) -> list[list[Hypothesis]]:
    """The most probable token at each step, for sentences that begin together."""
    return decode_all(model, TokenByToken(), state, constraints)
