"""`regard train DATA` against the recipe that was made by hand for that data, in the same time.

    python benchmarks/own_data.py --minutes 10            # all data sets, two threads: about 4 hours
    python benchmarks/own_data.py --minutes 2 trec pocket

For each data set both are trained with the same time limit, one after the other, and scored on the test part (where
there is none, on the validation part that the hand-made recipe holds out). Data that is not ours to ship is looked for
in the folder REGARD_DATA; what is not there is left out, and said.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from regard import api, config, corpora
from regard.auto.begin import begin
from regard.cost.hardware import processor

DATA = Path(os.environ.get("REGARD_DATA", "data"))


class Case(NamedTuple):
    """`make(folder)` gives the data as a user has it, its test part (for `data.test`), and what the recipe is told."""

    make: Callable[[Path], tuple[str, str | None, dict[str, Any]]]
    recipe: str
    metric: str
    more: bool = True  # is better
    overrides: tuple[str, ...] = ()


def shipped(name: str, endings: str = "tsv") -> Callable[[Path], tuple[str, str | None, dict[str, Any]]]:
    """A corpus of ours, written as files that do not say what they are."""

    def make(folder: Path) -> tuple[str, str | None, dict[str, Any]]:
        for role in ("train", "test"):
            lines = [f"{pair.source}\t{pair.target}" for pair in corpora.load(name, role)]
            (folder / f"{role}.{endings}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(folder / f"train.{endings}"), str(folder / f"test.{endings}"), {}

    return make


def _placed(names: str) -> str:
    return ",".join(str(DATA / name) for name in names.split(","))


def found(train: str, test: str | None) -> Callable[[Path], tuple[str, str | None, dict[str, Any]]]:
    def make(folder: Path) -> tuple[str, str | None, dict[str, Any]]:
        where = [None if name is None else _placed(name) for name in (train, test)]
        for one in (where[0] or "").split(","):
            if not Path(one).exists():
                raise FileNotFoundError(one)
        return str(where[0]), where[1], {}

    return make


FASHION = "fashion-mnist/fashion_mnist.npz"
ETTH1 = ("data.horizon=96", "data.split=8640,2880,2880")
CASES = {
    "pocket": Case(shipped("pocket"), "translate-recurrent", "bleu"),
    "languages": Case(shipped("languages"), "languages", "accuracy"),
    "multi30k": Case(
        found("multi30k/train.en,multi30k/train.de", "multi30k/test_2016_flickr.en,multi30k/test_2016_flickr.de"),
        "multi30k-transformer", "bleu",
    ),
    "trec": Case(found("trec/train.tsv", "trec/test.tsv"), "trec-recurrent", "accuracy"),
    "sst2": Case(found("sst2/train.tsv", "sst2/test.tsv"), "sst2-recurrent", "accuracy"),
    "fashion": Case(found(FASHION, FASHION), "fashion-cnn", "accuracy"),
    "shakespeare": Case(found("tinyshakespeare/input.txt", None), "shakespeare", "bits_per_byte", more=False),
    "squad": Case(found("squad/train-part-v1.1.json", "squad/dev-v1.1.json"), "squad-recurrent", "f1"),
    "etth1": Case(found("ett/ETTh1.csv", None), "etth1-96", "mse", more=False, overrides=ETTH1),
    "flickr8k": Case(found("flickr8k/captions.tsv", None), "flickr8k-caption", "bleu4"),
}  # fmt: skip


def scored(run: Any, test: str | None, metric: str) -> float:
    found = run.evaluate(**({} if test is None else {"test": test}))
    return float(found.values[metric])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*CASES, []], help="data sets; by default all")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--json", type=Path, help="write the table here, too")
    args = parser.parse_args()
    rows = []
    print(f"{processor()}; {args.minutes:g} minutes each\n")
    print("| data | score | by hand | `regard train DATA` | ratio |\n|---|---|---:|---:|---:|")
    for name in args.names or CASES:
        case = CASES[name]
        with tempfile.TemporaryDirectory(prefix="regard-own-") as place:
            folder = Path(place)
            try:
                data, test, _ = case.make(folder)
            except FileNotFoundError as missing:
                print(f"| {name} | {missing} is not there |")
                continue
            seconds = args.minutes * 60
            begun = time.monotonic()
            recipe = begin(data, folder / "auto", seconds=seconds, overrides=case.overrides)
            own = api.train(recipe, output=folder / "auto")
            spent = time.monotonic() - begun
            hand = api.train(
                config.read(case.recipe, {"training.time_limit": seconds, "data.cache": None}), output=folder / "hand"
            )
            by_hand, by_itself = scored(hand, None, case.metric), scored(own, test, case.metric)
            ratio = by_itself / by_hand if case.more else by_hand / by_itself
            row = {"data": name, "metric": case.metric, "hand": by_hand, "auto": by_itself}
            rows.append(row | {"ratio": ratio, "seconds": spent})
            print(f"| {name} | {case.metric} | {by_hand:.4g} | {by_itself:.4g} | {ratio:.3f} |", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
