"""Sampling of tokens: `regard.decoding.sample` over arrays, with the same random numbers as torch's generator.

x ~ Mersenne Twister, 32 bits;    u = (x mod 2²⁴) / 2²⁴
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

APART = 1_000_003  # as in `regard.decoding.sample`


class Uniform:
    """Random numbers in [0, 1), in the order of `torch.Generator().manual_seed(seed)`."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.MT19937()
        self._bits._legacy_seeding(seed & 0xFFFFFFFF)

    def __call__(self, count: int) -> np.ndarray:
        raw = np.asarray(self._bits.random_raw(count), np.uint64)
        return ((raw & ((1 << 24) - 1)) / (1 << 24)).astype(np.float32)


def of_sentence(seed: int, number: int) -> Uniform:
    """Return the random numbers of a sampled output, as `regard.decoding.sample` has them."""
    return Uniform((seed * APART + number) % 2**63)


def generators(prompts: Sequence[Sequence[int]], seed: int) -> list[Uniform]:
    """Return one generator for each prompt, seeded by the seed and the prompt; equal prompts get different numbers."""
    seen: Counter[tuple[int, ...]] = Counter()
    made = []
    for prompt in map(tuple, prompts):
        digest = blake2b(f"{seed} {seen[prompt]} {prompt}".encode(), digest_size=8).digest()
        made.append(Uniform(int.from_bytes(digest, "little") >> 1))
        seen[prompt] += 1
    return made


def draw(logits: np.ndarray, uniform: np.ndarray, *, top_k: int = 0, top_p: float = 1.0) -> np.ndarray:
    """Return the token at which the cumulative probability, after top_k and top_p, exceeds `uniform`: N V, N → N."""
    names = None  # the token of each sorted column
    if top_k or top_p < 1.0:
        names = np.argsort(-logits, axis=1, kind="stable")[:, : top_k or None]
        logits = np.take_along_axis(logits, names, axis=1)
    mass = np.exp(logits - logits.max(axis=1, keepdims=True), dtype=np.float32)
    mass /= mass.sum(axis=1, keepdims=True)
    cumulative = mass.cumsum(axis=1)
    if top_p < 1.0:
        mass = np.where(cumulative - mass < top_p, mass, np.float32(0))  # the first token always stays
        cumulative = mass.cumsum(axis=1)
    target = uniform.astype(np.float32) * cumulative[:, -1]
    last = (mass > 0).cumsum(axis=1).argmax(axis=1)  # rounding at the end
    column = np.minimum((cumulative <= target[:, None]).sum(axis=1), last)
    return column if names is None else names[np.arange(len(names)), column]
