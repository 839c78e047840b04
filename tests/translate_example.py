"""A translator that is not trained, and pairs that are prepared: what tests of text to text begin with."""

import torch

from regard import jobs
from regard.data.tokenizer import Tokenizer
from regard.inputs.text.pair_prepare import PreparedPairs, prepare
from regard.job import Job
from regard.outputs.text.settings import TranslateRecipe

TEXTS = ["one red cat", "two blue dogs sleep", "the cat sees three dogs"]


def translator(settings, kind="bpe", **decoding) -> Job:
    """With the vocabulary of three sentences, for both sides, and weights at random."""
    tokenizer = Tokenizer.train(TEXTS, kind, size=40)
    job = jobs.make(
        TranslateRecipe.model_validate(
            {"job": "translate", "data": {"train": "x.tsv"}, "model": settings.model_dump(), "decoding": decoding}
        )
    )
    job.input._tokenizer = job.output._tokenizer = tokenizer
    torch.manual_seed(1)
    return job.bound(job.output.build())


def prepared(settings, cache, *, tokenizers=None, **how) -> PreparedPairs:
    """The pairs of these settings, with vocabularies as a translator learns them."""
    job = jobs.make(
        TranslateRecipe.model_validate({"job": "translate", "data": settings, "model": {"kind": "recurrent"}})
    )
    job.input._tokenizer, job.output._tokenizer = tokenizers or (None, None)
    return prepare(settings, cache, job.input, job.output, **how)
