"""A GGUF file in llama.cpp itself, where it is installed: pip install llama-cpp-python."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

F32 = 0  # of ggml: keys and values are kept as they are computed, not in float16


def is_installed() -> bool:
    return find_spec("llama_cpp") is not None


class LlamaCpp:
    def __init__(self, file: Path, context: int) -> None:
        import llama_cpp  # pyright: ignore[reportMissingImports] (it has to be built, and few have it)

        self._model: Any = llama_cpp.Llama(
            str(file), n_ctx=context, n_batch=context, logits_all=True, type_k=F32, type_v=F32, flash_attn=False,
            verbose=False, n_threads=torch.get_num_threads(),
        )  # fmt: skip

    def encode(self, text: str) -> list[int]:
        return self._model.tokenize(text.encode(), add_bos=False, special=False)

    def logits(self, tokens: Sequence[int]) -> Tensor:
        """Of what comes after each of them."""
        self._model.reset()
        self._model.eval(list(tokens))
        return torch.from_numpy(np.array(self._model.scores[: len(tokens)]))
