"""Handwritten digits, 8×8 pixels, 1,797 of them: real data that comes with scikit-learn (from the UCI repository).

The last fifth is for testing (as in scikit-learn's own example, which keeps the order because writers differ along
it); of the rest every tenth is for validation.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from regard.corpora.pictures import Pictured
from regard.errors import CallError, pip_install

TEST_FROM = 1437


def digits(split: str) -> Iterator[Pictured]:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise CallError(f"the corpus 'digits' needs scikit-learn: {pip_install('regard[digits]')}") from None
    found: Any = load_digits()
    images = np.round(found["images"] * (255 / 16)).astype(np.uint8)[..., None]
    for row, (image, label) in enumerate(zip(images, found["target"], strict=True)):
        if split == ("test" if row >= TEST_FROM else "valid" if row % 10 == 9 else "train"):
            yield Pictured(image, (str(label),))
