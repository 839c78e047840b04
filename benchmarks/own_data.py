"""`regard train DATA` compared with a recipe made by hand for that data, in the same time.

    python benchmarks/own_data.py --minutes 10            # all data sets: about 3 hours; a second call resumes
    python benchmarks/own_data.py --minutes 1.5 trec japanese
    python benchmarks/own_data.py --table                 # print the table of --results

The recipe by hand is the shipped one that is best within --minutes, and its learning rate must fall to its end within
that time: a schedule that has no end (inverse_sqrt, constant) is refused. For Multi30k that is multi30k-quick, and not
multi30k-transformer, which is made for an hour.

Both are trained side by side, as two processes of one thread each, so that a disturbance of the machine affects both;
with --in-turn one after the other, where only one core is free. Run it on a machine with nothing else to do: the budget
is seconds. Both have the same training data, and are scored on the same test data once. What a user must say in any
case (the horizon of a forecast, which steps are for testing) is given to both.

Each finished run is a line of --results, and is not repeated. Public data is read from the folder REGARD_DATA; a data
set that is missing is named and left out. The other sets are made by `made_data.py`.
"""

import argparse
import json
import multiprocessing
import os
import re
import tarfile
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from made_data import MADE, Made

DATA = Path(os.environ.get("REGARD_DATA", "data"))
ARMS = ("hand", "auto")


class Case(NamedTuple):
    """`make(folder)` gives the training data as a user has it and the test data, None where the one file has both.

    `hand`: what an expert changes in the nearest shipped recipe. `shared`: the settings that both get.
    """

    make: Callable[[Path], Made]
    recipe: str
    metric: str
    hand: dict[str, Any] = {}  # noqa: RUF012
    shared: dict[str, Any] = {}  # noqa: RUF012
    less: bool = False  # whether a lower score is better
    auto_metric: str = ""  # the name of the metric in the automatic recipe, if it differs


# ------------------------------------------------------------------------------------------------- data of the folder
def found(train: str, test: str | None) -> Callable[[Path], Made]:
    return lambda folder: (DATA / train, DATA / test if test else None)


def parallel(train: str, test: str) -> Callable[[Path], Made]:
    """Two files, line by line, become one table."""

    def make(folder: Path) -> Made:
        for stem, name in ((train, "train.tsv"), (test, "test.tsv")):
            sides = [(DATA / f"{stem}.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
            rows = [f"{one}\t{other}\n" for one, other in zip(*sides, strict=True)]
            (folder / name).write_text("".join(rows), encoding="utf-8")
        return folder / "train.tsv", folder / "test.tsv"

    return make


def shakespeare(folder: Path) -> Made:
    """The last tenth is for testing, as everybody does."""
    text = (DATA / "tinyshakespeare/input.txt").read_text(encoding="utf-8")
    cut = int(0.9 * len(text))
    (folder / "train.txt").write_text(text[:cut], encoding="utf-8")
    (folder / "test.txt").write_text(text[cut:], encoding="utf-8")
    return folder / "train.txt", folder / "test.txt"


def digits(folder: Path) -> Made:
    """Takes 0 to 4 are for testing, as the data set says."""
    for name, takes in (("train", r"_\d+(?<!_[0-4])\.wav$"), ("test", r"_[0-4]\.wav$")):
        with (
            tarfile.open(DATA / "fsdd/recordings.tar") as all_of_them,
            tarfile.open(folder / f"{name}.tar", "w") as part,
        ):
            for member in all_of_them:
                if re.search(takes, member.name):
                    part.addfile(member, all_of_them.extractfile(member))
    return folder / "train.tar", folder / "test.tar"


FASHION = "fashion-mnist/fashion_mnist.npz"
CASES = {
    "multi30k": Case(
        parallel("multi30k/train", "multi30k/test_2016_flickr"), "multi30k-quick", "bleu"
    ),
    "trec": Case(found("trec/train.tsv", "trec/test.tsv"), "trec-recurrent", "accuracy"),
    "sst2": Case(found("sst2/train.tsv", "sst2/test.tsv"), "sst2-recurrent", "accuracy"),
    "fashion": Case(found(FASHION, FASHION), "fashion-vit", "accuracy"),
    "shakespeare": Case(shakespeare, "shakespeare", "bits_per_byte", less=True),
    "squad": Case(found("squad/train-part-v1.1.json", "squad/dev-v1.1.json"), "squad-recurrent", "f1"),
    "etth1": Case(
        found("ett/ETTh1.csv", None), "etth1-96", "mse",
        shared={"data.horizon": 96, "data.split": [8640, 2880, 2880]}, less=True,
    ),
    "flickr8k": Case(found("flickr8k/captions.tsv", None), "flickr8k-caption", "bleu4"),
    "fsdd": Case(
        digits, "fsdd-digits", "exact_match", {"data.name_text": r"(?P<text>\d)_[a-z]+_\d+\.wav$", "data.spoken": {}},
        auto_metric="accuracy",
    ),
    "japanese": Case(
        MADE["japanese"], "translate-transformer", "bleu",
        {
            "data.header": False, "data.tokenizer": {"kind": "bpe", "size": 600, "joint": False},
            "data.max_length": 64, "data.valid_share": 0.1, "model.dropout": 0.1, "training.max_tokens": 2000,
            "training.max_epochs": 40, "training.learning_rate": 3e-3, "training.warmup": 100,
            "training.metric": "bleu", "training.mode": "max", "decoding.max_length": 64,
        },
    ),
    "badges": Case(
        MADE["badges"], "digits-cnn", "accuracy",
        {
            "data.height": 20, "data.width": 48, "data.channels": 3, "data.augment": {"shift": 2},
            "model": {"kind": "cnn", "stages": [32, 64, 96], "depth": 1, "attention": [2], "dropout": 0.1},
            "training.max_tokens": 1000, "training.max_epochs": 60, "training.validate_every": 0,
            "training.schedule": "cosine",
        },
    ),
    "meters": Case(
        MADE["meters"], "etth1-96", "mse",
        {
            "data.look_back": 336, "model.patch": 24, "model.stride": 12, "model.dropout": 0.1,
            "training.max_tokens": 23040, "training.max_epochs": 20, "training.warmup": 50,
        },
        {"data.horizon": 24, "data.split": [4200, 600, 1200]}, less=True,
    ),
    "calls": Case(
        MADE["calls"], "tones-classify", "accuracy",
        {
            "data.sound": {"rate": 16000, "bands": 64}, "data.augment": {"speeds": [0.9, 1.0, 1.1]},
            "data.valid_share": 0.15, "model.width": 128, "model.pyramid": 2, "model.dropout": 0.2,
            "training.max_epochs": 80, "training.learning_rate": 3e-3, "training.validate_every": 0,
        },
    ),
    "numbers": Case(MADE["numbers"], "speech", "cer", less=True),
    "shops": Case(
        MADE["shops"], "stocks-forecast", "mse",
        {
            "data.look_back": 28, "data.calendar": ["weekday"], "model.quantiles": [], "model.instance_norm": "window",
            "model.width": 64, "training.max_tokens": 2240, "training.max_epochs": 30, "training.warmup": 50,
        },
        {"data.horizon": 7, "data.time": "date", "data.id": "shop"}, less=True,
    ),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ training
def read_hand_recipe(case: Case, train: Path, seconds: float) -> Any:
    """Return the recipe by hand with its limit of time, within which its learning rate must come to its end."""
    from regard import config
    from regard.settings.training import FALLING

    place: dict[str, Any] = {"data.train": str(train), "data.test": None, "training.time_limit": seconds}
    recipe = config.read(case.recipe, place | case.shared | case.hand)
    if recipe.training.schedule not in FALLING:
        raise SystemExit(
            f"{case.recipe}: training.schedule={recipe.training.schedule} has no end; choose {' or '.join(FALLING)}"
        )
    return recipe


def arm(name: str, which: str, folder: Path, train: Path, test: Path | None, seconds: float) -> dict[str, Any]:
    """Train one of the two, and score it."""
    import torch

    import regard
    from regard import config
    from regard.cost.hardware import processor

    torch.set_num_threads(1)
    case, begun = CASES[name], time.monotonic()
    if which == "hand":
        run = regard.train(read_hand_recipe(case, train, seconds), output=folder / which)
    else:
        from regard.detect.begin import make_recipe

        file = make_recipe(str(train), folder / which, seconds=seconds, overrides=case.shared)
        run = regard.train(config.read(file), output=folder / which)
    spent = time.monotonic() - begun
    scores = run.evaluate(**({} if test is None else {"test": str(test)})).values
    metric = (which == "auto" and case.auto_metric) or case.metric
    found = {"data": name, "arm": which, "minutes": seconds / 60, "metric": case.metric, "score": float(scores[metric])}
    steps = run.summary()["step"]
    return {**found, "valid": run.best_scores(), "seconds": round(spent, 1), "steps": steps, "processor": processor()}


def pair(name: str, minutes: float, results: Path, keep: Path | None, at_once: int) -> None:
    """Both, so many at once; a line is written as soon as one is finished."""
    with tempfile.TemporaryDirectory(prefix="regard-own-") as place:
        folder = keep / name if keep else Path(place)
        data = folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        try:
            train, test = CASES[name].make(data)
            for file in filter(None, (train, test)):
                file.stat()
        except FileNotFoundError as missing:
            print(f"{name}: {missing.filename} is not there: left out", flush=True)
            return
        context = multiprocessing.get_context("spawn")  # torch's threads are counted when it is loaded
        with ProcessPoolExecutor(at_once, context, max_tasks_per_child=1) as pool:
            both = [pool.submit(arm, name, which, folder, train, test, 60 * minutes) for which in ARMS]
            for one in as_completed(both):
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(one.result()) + "\n")


Finished = dict[tuple[str, float], dict[str, dict[str, Any]]]


def finished(results: Path) -> Finished:
    """Lines by data and minutes, then by arm; of two the later."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    rows: Finished = {}
    for line in map(json.loads, lines):
        rows.setdefault((line["data"], line["minutes"]), {})[line["arm"]] = line
    return rows


def table(rows: Finished) -> str:
    lines = ["| data | minutes | score | by hand | `regard train DATA` | of it |", "|---|---:|---|---:|---:|---:|"]
    for (name, minutes), both in rows.items():
        if len(both) < len(ARMS):
            continue
        hand, auto = (both[which]["score"] for which in ARMS)
        share = hand / auto if CASES[name].less else auto / hand
        metric = CASES[name].metric + (" (less is better)" if CASES[name].less else "")
        lines.append(f"| {name} | {minutes:g} | {metric} | {hand:.4g} | {auto:.4g} | {share:.0%} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"data sets; by default all: {', '.join(CASES)}")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--results", type=Path, default=Path("runs/own-data.jsonl"), help="a line for each that is done"
    )
    parser.add_argument("--keep", type=Path, help="a folder for the runs; by default they are deleted")
    parser.add_argument("--in-turn", action="store_true", help="one after the other, not side by side")
    parser.add_argument("--table", action="store_true", help="print what is there, and train nothing")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in CASES]:
        parser.error(f"{unknown[0]} is not known; there are {', '.join(CASES)}")
    os.environ["OMP_NUM_THREADS"] = "1"
    args.results.parent.mkdir(parents=True, exist_ok=True)
    for name in () if args.table else args.names or CASES:
        if len(finished(args.results).get((name, args.minutes), {})) < len(ARMS):
            pair(name, args.minutes, args.results, args.keep, 1 if args.in_turn else len(ARMS))
    print(table(finished(args.results)))


if __name__ == "__main__":
    main()
