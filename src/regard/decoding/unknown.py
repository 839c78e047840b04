"""Unknown words replaced through attention (PosUnk).

An unknown word in the output is most often a name or a rare word, and attention shows its source word:

    y_t = <unk>   →   dictionary(x_s) or x_s itself,      s = argmax_s a[t, s]

Luong et al. 2014, section 3 (arXiv:1410.8206), with attention for the alignment as in Jean et al. 2014, section 4
(arXiv:1412.2007). No torch.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float


def replace_unknown(
    words: Sequence[str],
    weights: Float[np.ndarray, "T S"],
    source_words: Sequence[str],
    *,
    unknown: str = "<unk>",
    dictionary: Mapping[str, str] | None = None,
) -> list[str]:
    """`weights[t, s]`: how much output word t looked at source word s. What is beyond the words is ignored."""
    known = dictionary or {}
    replaced = list(words)
    for place, word in enumerate(words):
        if word == unknown and source_words:
            source = source_words[int(weights[place, : len(source_words)].argmax())]
            replaced[place] = known.get(source, source)
    return replaced
