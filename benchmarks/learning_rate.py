"""Does a run need a learning-rate range test? Validation scores at 1/3, 1 and 3 times the recipe's rate.

    OMP_NUM_THREADS=1 python benchmarks/learning_rate.py [--seconds 60] [--seed 1] [RECIPE ...]

The recipe's own rate trains for --seconds (or until the recipe ends); the other two train for as many steps, so that
the speed of the machine changes nothing. The table has the best validation score of each, and whether the recipe's rate
is within 2% of the best of the three. If a rate were wrong by a factor of three, a range test (Smith 2015,
arXiv:1506.01186) would be worth its time at the start of every run.
"""

import tempfile
from pathlib import Path

import click

import regard
from regard import config
from regard.cost.hardware import processor

RECIPES = ("digits-vit", "tones-classify", "language-model", "translate-transformer", "lag")
FACTORS = (1 / 3, 1, 3)
CLOSE = 0.02


def score(recipe: str, rate: float, seed: int, **limit: float) -> tuple[float, int]:
    """The best validation score, and the steps that were taken."""
    with tempfile.TemporaryDirectory() as folder:
        training = {"learning_rate": rate, "seed": seed, "looks": 0, **limit}
        summary = regard.train(recipe, training=training, output=Path(folder) / "run").summary()
    return summary["best"]["value"], summary["step"]


@click.command(context_settings={"show_default": True})
@click.argument("recipes", nargs=-1)
@click.option("--seconds", default=60.0, help="for the recipe's own rate")
@click.option("--seed", default=1)
def main(recipes: tuple[str, ...], seconds: float, seed: int) -> None:
    print(processor())
    print("| recipe | rate | score | steps | " + " | ".join(f"×{factor:.2g}" for factor in FACTORS) + " | close |")
    print("|---|---:|---|---:|" + "---:|" * len(FACTORS) + "---|", flush=True)
    for name in recipes or RECIPES:
        settings = config.read(name).training
        rate = settings.learning_rate
        found = {}
        found[1], steps = score(name, rate, seed, time_limit=seconds)
        for factor in FACTORS:
            if factor not in found:
                found[factor], _ = score(name, rate * factor, seed, max_steps=steps)
        best = min(found.values()) if settings.mode == "min" else max(found.values())
        close = abs(found[1] - best) <= CLOSE * abs(best)
        row = [name, f"{rate:g}", settings.metric, f"{steps:,}", *(f"{found[factor]:.4g}" for factor in FACTORS)]
        print("| " + " | ".join([*row, "yes" if close else "NO"]) + " |", flush=True)


if __name__ == "__main__":
    main()
