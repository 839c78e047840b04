"""What all language models have in common when they become runs of the job `generate`."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.pretrained.config_file import ConfigFile
from regard.pretrained.imported import NO_DATA, Imported
from regard.pretrained.weights import Weights


def language_run(
    config: ConfigFile,
    left: Weights,
    weights: dict[str, Tensor],
    settings: Mapping[str, Any],
    tokenizer: Tokenizer,
    *,
    context: int,
    name: str,
    begins: bool = False,
) -> Imported:
    """
    left      what the family did not take: the output layer, if it is not the table of embeddings
    context   the most tokens that the model reads
    begins    whether the begin token stands before every prompt
    """
    vocabulary = len(weights["decoder.embedding.table.weight"])
    tied = config.get("tie_word_embeddings", True)
    if tied:
        left.drop(r"lm_head\.weight")
    else:
        weights["output.weight"] = left.take("lm_head.weight")
    left.finish()
    if tokenizer.size > vocabulary:
        raise CallError(f"{config.where}: {tokenizer.size} tokens do not fit weights for {vocabulary}")
    recipe = {
        "job": "generate",
        "about": f"A language model, {config.get('_name_or_path', '') or name}",
        "data": {"train": NO_DATA},
        "model": {**settings, "context": context, "vocabulary": vocabulary, "tied": tied},
        "training": {"max_tokens": max(4096, context)},
        "decoding": {"begin": True if begins else None},
    }
    return Imported(recipe, weights, {"tokenizer.json": tokenizer})


def with_frame(tokenizer: Tokenizer, start: int | None, end: int | None) -> Tokenizer:
    """The tokenizer with the tokens that begin and end a text, where its file does not say which they are."""
    specials = tokenizer.specials
    if (start, end) in ((None, None), (specials.start, specials.end)):
        return tokenizer
    return tokenizer.framed_by(start, end)
