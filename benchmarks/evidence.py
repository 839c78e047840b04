"""What evidence costs: a look with comprehensiveness and sufficiency compared with the same look without, for all jobs.

    python benchmarks/evidence.py [RECIPE ...] [--tokens 200] [--rounds 5] [--folder runs/evidence]

Only time is measured, so models are barely trained (ten updates). Texts have --tokens tokens, made of validation
examples one after the other; pictures, recordings and series are as they are. Outputs have the length of the references
(`min_length`), or --write tokens. One thread, processor time. The two ways take turns, and the median of the ratios of
the rounds counts. A recipe whose needs are missing is named and left out.
"""

import statistics
import time
from pathlib import Path
from typing import Any

import click
import torch

import regard
from regard import api, config
from regard.api import Run
from regard.cost.hardware import processor
from regard.errors import RegardError
from regard.inputs.question.files import QuestionRow
from regard.job import make_job

RECIPES = (
    "translate-recurrent", "translate-transformer", "answer-recurrent", "answer-transformer", "languages",
    "texts-classify", "tags", "language-model", "shapes-caption", "shapes-ask", "digits-vit", "tones", "tones-classify",
    "lag", "series-classify",
)  # fmt: skip
UPDATES = 10


def trained(recipe: str, folder: Path) -> Run:
    place = folder / recipe
    if not (place / "summary.json").is_file():
        changes = {"training.max_steps": UPDATES, "training.max_epochs": None, "training.looks": 0}
        regard.train(config.read(recipe, changes), output=place, check=False)
    return api.load(place)


def longer(one: Any, other: Any) -> Any:
    """A text with another after it; of a question, its document. What is no text stays as it is."""
    if isinstance(one, str):
        return f"{one} {other}"
    if isinstance(one, QuestionRow):
        return one._replace(document=f"{one.document} {other.document}")
    return one


def inputs_of(run: Run, tokens: int, most: int) -> list[tuple[Any, int]]:
    """So many of validation, with the number of tokens of their references."""
    data = make_job(run.recipe)
    data.prepare(run.folder / "cache")
    examples = data.output.sample_examples(data.splits["valid"], 400)
    made = []
    for first in range(most):
        given, words = examples[first].input, list(examples[first].texts[:1])
        for following in examples[first + 1 :]:
            if run.job.input.length(run.job.input.read(given)) >= tokens or longer(given, following.input) is given:
                break
            given = longer(given, following.input)
            words += following.texts[:1]
        made.append((given, len(" ".join(words).split())))
    return made


def seconds(run: Run, given: Any, write: int, *, evidence: bool) -> tuple[float, str, int]:
    """Of a look, with the size of its table and the number of its figures."""
    written: dict[str, Any] = {"min_length": write} if write and "min_length" in run.decoding_defaults() else {}
    start = time.process_time()
    record = run.look(given, evidence=evidence, **written)
    took = time.process_time() - start
    shape = record.matrix("cross").weights.shape if "cross" in record.kinds else ()
    return took, " × ".join(map(str, shape)), len(record.evidence)


@click.command()
@click.argument("recipes", nargs=-1)
@click.option("--tokens", type=click.IntRange(min=1), default=200, help="Of a text.")
@click.option("--write", type=click.IntRange(min=0), default=0, help="Tokens of an output; 0: as the references.")
@click.option("--rounds", type=click.IntRange(min=1), default=5)
@click.option("--folder", type=click.Path(path_type=Path), default=Path("runs/evidence"))
def main(recipes: tuple[str, ...], tokens: int, write: int, rounds: int, folder: Path) -> None:
    torch.set_num_threads(1)
    print(processor())
    print(f"{'recipe':<24}{'rows × columns':>16}{'look, ms':>10}{'more for evidence':>19}")
    for recipe in recipes or RECIPES:
        try:
            print(f"{recipe:<24}{measured(trained(recipe, folder), tokens, write, rounds)}", flush=True)
        except RegardError as error:
            print(f"{recipe:<24}{error}")


def measured(run: Run, tokens: int, write: int, rounds: int) -> str:
    looks, ratios, size, figures = [], [], "", 0
    for number, (given, words) in enumerate(inputs_of(run, tokens, rounds + 1)):
        plain, _, _ = seconds(run, given, write or words, evidence=False)
        asked, size, figures = seconds(run, given, write or words, evidence=True)
        if number:  # the first warms up
            looks.append(1e3 * plain)
            ratios.append(asked / plain - 1)
    if not figures:
        return "no evidence: there is no table between outputs and parts of the input"
    return f"{size:>16}{statistics.median(looks):>10.0f}{statistics.median(ratios):>18.2f}×"


if __name__ == "__main__":
    main()
