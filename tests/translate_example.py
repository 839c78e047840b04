"""A translator that is not trained, and pairs that are prepared: what tests of text to text begin with."""

from typing import NamedTuple

import torch

from regard.data.check_report import CheckReport
from regard.data.store import Store
from regard.data.tokenizer import Tokenizer
from regard.job import Job, make_job
from regard.tasks.text.settings import TranslateRecipe

TEXTS = ["one red cat", "two blue dogs sleep", "the cat sees three dogs"]


def translator(settings, kind="bpe", **decoding) -> Job:
    """With the vocabulary of three sentences, for both sides, and weights at random."""
    tokenizer = Tokenizer.train(TEXTS, kind, size=40)
    job = make_job(
        TranslateRecipe.model_validate(
            {"job": "translate", "data": {"train": "x.tsv"}, "model": settings.model_dump(), "decoding": decoding}
        )
    )
    job.input._tokenizer = job.output._tokenizer = tokenizer
    torch.manual_seed(1)
    return job.bound(job.output.build())


class Prepared(NamedTuple):
    job: Job
    splits: dict

    @property
    def source(self) -> Tokenizer:
        return self.job.input.tokenizer

    @property
    def target(self) -> Tokenizer:
        return self.job.output.vocabulary

    def store(self, role="train") -> Store:
        return self.splits[role].store

    def ids(self, role="train") -> list[tuple[list[int], list[int]]]:
        store = self.store(role)
        return [(store.row("source", row).tolist(), store.row("target", row).tolist()) for row in range(len(store))]

    def texts(self, role="train") -> list[tuple[str, str]]:
        return [(self.source.decode(one), self.target.decode(other)) for one, other in self.ids(role)]

    def check(self) -> CheckReport:
        return self.job.output.check(self.splits)


def prepared(settings, cache, *, tokenizers=None, strict=True) -> Prepared:
    """The pairs of these settings, with vocabularies as a translator learns them."""
    job = make_job(
        TranslateRecipe.model_validate({"job": "translate", "data": settings, "model": {"kind": "recurrent"}})
    )
    job.input._tokenizer, job.output._tokenizer = tokenizers or (None, None)
    return Prepared(job, job.input.prepare(cache, job.output, strict=strict))
