"""Decoding of one output a sentence, token by token: the most probable next token, or the one of `choose`."""

from collections.abc import Callable

import numpy as np

from regard.light.rules import Hypothesis, Rules, normalizer
from regard.light.steps import State, Steps
from regard.special_tokens import END, START
from regard.work import before_step

Choose = Callable[[np.ndarray, int, np.ndarray], np.ndarray]  # logits N V, step, the sentence of each row → N


def most_probable(logits: np.ndarray, _step: int, _sentences: np.ndarray) -> np.ndarray:
    return logits.argmax(axis=1)


def token_by_token(
    steps: Steps,
    state: State,
    rules: Rules,
    choose: Choose = most_probable,
    tell: Callable[[int], None] = lambda token: None,
) -> list[Hypothesis]:
    """Decode y_t = argmax p(y | y_<t, x) until the end symbol. Finished rows leave the batch; `tell` is called with
    every token of one row.
    """
    outputs: list[list[int]] = [[] for _ in range(state.rows)]
    totals = np.zeros(state.rows)
    sentences = np.arange(state.rows)  # the sentence of each row still in the batch
    tokens = np.full(state.rows, START, np.int64)
    for step in range(rules.max_length + 1):
        before_step(len(tokens))
        tell(int(tokens[0]))
        logits, state = steps.step(tokens, state)
        scale = normalizer(logits)
        rules.apply(logits, step)
        tokens = choose(logits, step, sentences)
        totals[sentences] += logits[np.arange(len(tokens)), tokens] - scale
        going = np.flatnonzero(tokens != END)
        for row in going:
            outputs[sentences[row]].append(int(tokens[row]))
        if not len(going):
            break
        if len(going) < len(tokens):
            state, tokens, sentences = state.select(going), tokens[going], sentences[going]
    return [Hypothesis(output, total, total) for output, total in zip(outputs, totals.tolist(), strict=True)]
