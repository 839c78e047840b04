"""What every system of `benchmarks/time_to_quality.py` is measured by."""

import time
from collections.abc import Callable, Sequence

from sacrebleu.metrics.bleu import BLEU

from regard.job import Job
from regard.settings.model import TransformerSettings
from regard.tasks.text.translation import Translation

ENOUGH = 36.0
PACED = 40  # steps of the others that are timed before
VALIDATED = 10  # times in a run of the others
SLACK = 1.2  # that they may take longer than was asked, so that a schedule comes to its end

Curve = list[dict[str, float]]


class Stopwatch:
    """Seconds of the processor since it was made, without what `validated` takes."""

    def __init__(self, name: str, translate: Callable[[], Sequence[str]], references: Sequence[str]) -> None:
        self.name, self.translate, self.references = name, translate, references
        self.start, self.curve = time.process_time(), Curve()

    @property
    def seconds(self) -> float:
        return time.process_time() - self.start

    def validated(self) -> float:
        now = self.seconds
        score = BLEU().corpus_score(list(self.translate()), [list(self.references)]).score
        self.curve.append({"seconds": now, "bleu": score})
        print(f"{self.name}: {score:.2f} BLEU after {now:.0f} s", flush=True)
        self.start += self.seconds - now
        return score


def writer(job: Job) -> Translation:
    assert isinstance(job.output, Translation)
    return job.output


def sizes_of(job: Job) -> TransformerSettings:
    sizes = writer(job).recipe.model
    assert isinstance(sizes, TransformerSettings)
    return sizes
