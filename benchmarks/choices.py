"""Choose settings on validation data, then score the test part once.

    python benchmarks/choices.py etth1-96 etth1-336 fsdd-digits shapes-draw tones [--output runs/choices] [--json]

For each recipe: train every candidate, score it on data that is not in the test part, take the best, and evaluate only
that one on the test part. Runs are kept in --output; a second call trains only what is missing. Public data is read
from the folder REGARD_DATA (default: data). One thread; training is limited by epochs, so the speed of the machine
changes nothing.

etth1-96, etth1-336   one setting changed at a time; the mean squared error on the validation months decides.
fsdd-digits           the score that chooses the weights. Candidates train without takes 0 to 4 (the test part) and
                      are compared on takes 8 to 10, which no candidate trains on.
shapes-draw           the temperature; one model, drawings for all validation sentences.
tones                 the weight of the CTC loss; the share of keys of validation calls whose attention lies in time.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

import regard
from own_data import digits
from regard import api, config
from regard.job import make_job

Settings = dict[str, Any]


class Choice(NamedTuple):
    """Candidates of one recipe. `inner(folder)`: what all candidates have, and the final model has not."""

    metric: str
    candidates: list[Settings]
    score: Callable[[regard.Run, Settings, str], float]
    inner: Callable[[Path], Settings] = lambda folder: {}
    is_lower_better: bool = False
    is_decoding: bool = False  # candidates differ in decoding only, and share one model


def score_best_validation(run: regard.Run, candidate: Settings, metric: str) -> float:
    """Return the score of the validation that chose the weights."""
    return run.best_scores()[metric]


def score_inner_test(run: regard.Run, candidate: Settings, metric: str) -> float:
    """Return the score on the part that `inner` names as test data."""
    return run.evaluate().values[metric]


def score_validation_examples(run: regard.Run, candidate: Settings, metric: str) -> float:
    """Return the score that `evaluate` would give for the validation part."""
    overrides = [text for text in list_overrides(candidate) if text.startswith("decoding.")]
    job = run.job.with_recipe(config.apply_overrides(run.recipe, overrides, {}, str(run.folder)))
    output: Any = job.output
    data = make_job(run.recipe)  # a job of its own: the run's keeps what it has learned
    data.prepare(run.folder / "cache")
    return output.test_scores(run.model, data.splits["valid"].examples(10**6), False).values[metric]


def digits_without_test(folder: Path) -> Settings:
    """Write the recordings without takes 0 to 4, and name takes 8 to 10 as the test part of the candidates."""
    folder.mkdir(parents=True, exist_ok=True)
    train = folder / "train.tar"
    if not train.exists():
        digits(folder)
    return {
        "data.train": str(train.resolve()),
        "data.name_text": r"(?P<text>\d)_[a-z]+_\d+\.wav$",
        "data.valid_names": r"_[5-7]\.wav$",
        "data.test_names": r"_([89]|10)\.wav$",
    }


HORIZON_CANDIDATES: list[Settings] = [
    {},
    {"model.shortcut": False},
    {"data.look_back": 336},
    {"model.dropout": 0.1},
    {"training.learning_rate": 1e-3},
]
CHOICES = {
    "etth1-96": Choice("mse", HORIZON_CANDIDATES, score_best_validation, is_lower_better=True),
    "etth1-336": Choice(
        "mse",
        [{"data.look_back": 512} | one for one in HORIZON_CANDIDATES],
        score_best_validation,
        is_lower_better=True,
    ),
    "fsdd-digits": Choice(
        "exact_match",
        [{}, {"training.metric": "exact_match", "training.mode": "max"}],
        score_inner_test,
        digits_without_test,
    ),
    "tones": Choice("inside_attention", [{"model.ctc": value} for value in (0.0, 0.3, 0.6)], score_validation_examples),
    "shapes-draw": Choice(
        "right",
        [{"decoding.temperature": value} for value in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)],
        score_validation_examples,
        is_decoding=True,
    ),
}


def list_overrides(settings: Settings) -> list[str]:
    return [f"{name}={value}" for name, value in settings.items()]


def name_candidate(settings: Settings) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "as in the recipe"


def choose(recipe: str, output: Path) -> dict[str, Any]:
    """Return the scores of all candidates, the chosen settings, and the test scores of these."""
    choice, folder = CHOICES[recipe], output / recipe
    inner, rows = choice.inner(folder / "data"), []
    for number, candidate in enumerate(choice.candidates):
        settings = {} if choice.is_decoding else candidate
        place = folder / ("final" if choice.is_decoding else f"candidate-{number}")
        run = regard.train(config.read(recipe, inner | settings), output=place, check=False)
        score = choice.score(run, candidate, choice.metric)
        rows.append({"candidate": name_candidate(candidate), "score": score})
        print(f"{recipe}: {name_candidate(candidate)}: {choice.metric} {score:.4g} (not the test part)", flush=True)
    best = (min if choice.is_lower_better else max)(range(len(rows)), key=lambda number: rows[number]["score"])
    chosen = choice.candidates[best]
    if choice.is_decoding or not inner:
        run = api.load(folder / ("final" if choice.is_decoding else f"candidate-{best}"))
    else:
        run = regard.train(config.read(recipe, chosen), output=folder / "final", check=False)
    scores = run.evaluate(list_overrides(chosen) if choice.is_decoding else []).values
    print(f"{recipe}: chosen: {name_candidate(chosen)}; test {choice.metric} {scores[choice.metric]:.4g}", flush=True)
    return {"recipe": recipe, "metric": choice.metric, "candidates": rows, "chosen": chosen, "test": scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help=f"all by default: {', '.join(CHOICES)}")
    parser.add_argument("--output", type=Path, default=Path("runs/choices"), help="folder of the runs")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    options = parser.parse_args()
    if unknown := [name for name in options.recipes if name not in CHOICES]:
        parser.error(f"{unknown[0]} has no candidates; choose from {', '.join(CHOICES)}")
    torch.set_num_threads(1)
    results = [choose(recipe, options.output) for recipe in options.recipes or CHOICES]
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
