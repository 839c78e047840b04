"""Which method is reliable for which model? All methods of looking, on data whose truth is known.

    python benchmarks/believe.py                        # three seeds of eight small models: about an hour of one core
    python benchmarks/believe.py --seeds 1 --examples 4
    python benchmarks/believe.py --table                # print the cells that are already measured

    pocket   words and their translations               gold: links between words
    shapes   pictures and captions                      gold: the box of what a noun names
    tones    telephone tones and the keys               gold: when each key was pressed
    lag      a series that follows another one          gold: the step that decides, 17 before

The right output is forced through the model, and each method gives a table of its steps over the parts of the input.
All inputs are of the validation part.

    pointing            share of the steps whose largest weight lies on gold; `chance`: of a blind pick
    comprehensiveness   the loss without the parts of most weight, as a multiple of the loss without random parts
    sufficiency         the loss with these parts alone, as a multiple of the same with random parts: low is good

Every model and every method is a line of FOLDER/cells.jsonl. Finished cells are not computed again, so the command may
be stopped at any time, and a second call resumes.
"""

import argparse
import json
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from regard import api, config
from regard.api import Run
from regard.corpora.series import LAG
from regard.data.examples import Example
from regard.errors import CallError
from regard.job import make_job
from regard.look import AttentionRecord
from regard.look.methods import METHODS
from regard.tasks.base import LookOptions

WORDS = {"tokenizer": {"kind": "word"}}
SMALL = {"width": 64, "heads": 4, "feed_forward": 128, "dropout": 0.1}
#: corpus and kind of model → a recipe, and what is changed in it
MODELS: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("pocket", "recurrent"): (
        "translate-recurrent",
        {"data": WORDS, "model": {"width": 96, "embedding": 64}, "training": {"max_steps": 1200}},
    ),
    ("pocket", "transformer"): (
        "translate-transformer", {"data": WORDS, "model": SMALL, "training": {"max_steps": 600}},
    ),
    ("shapes", "recurrent"): (
        "shapes-caption", {"model": {"width": 96, "embedding": 64}, "training": {"max_steps": 900}},
    ),
    ("shapes", "transformer"): (
        "shapes-caption",
        {
            "training": {"max_steps": 1200},
            "new_model": SMALL | {
                "kind": "transformer", "encoder_layers": 0, "decoder_layers": 2,
                "encoder": {"kind": "cnn", "stages": [32, 64, 96]},
            },
        },
    ),
    ("tones", "recurrent"): ("tones", {"model": {"width": 64}, "training": {"max_steps": 500}}),
    ("tones", "transformer"): (
        "tones",
        {
            "training": {"max_steps": 800},
            "new_model": SMALL | {"kind": "transformer", "encoder_layers": 2, "decoder_layers": 1, "ctc": 0.3},
        },
    ),
    ("lag", "recurrent"): (
        "lag",
        {"new_model": {"kind": "recurrent", "width": 64, "dropout": 0.0, "instance_norm": "none"},
            "training": {"max_steps": 2000}},
    ),
    ("lag", "transformer"): ("lag", {"training": {"max_steps": 500}}),
}  # fmt: skip
METRIC = {"pocket": "bleu", "shapes": "exact_match", "tones": "exact_match", "lag": "loss"}
BEST: dict[str, Callable[[Iterable[float]], float]] = {"pocket": max, "shapes": max, "tones": max, "lag": min}


# ---------------------------------------------------------------------------------------------------------------- gold
def linked_words(record: AttentionRecord, run: Run, example: Example) -> dict[int, set[int]]:
    gold = run.job.output.gold(example)
    assert gold is not None
    rows, columns = record.axes["target"].tokens, record.axes["source"].tokens
    return {
        row: {place for place, source in enumerate(columns) if (source.word, token.word) in gold.sure | gold.possible}
        for row, token in enumerate(rows)
        if not token.special
    }


def boxes(record: AttentionRecord, run: Run, example: Example) -> dict[int, set[int]]:
    axis = record.axes["source"]
    assert axis.grid is not None
    assert axis.image is not None
    height, width = (size / cells for size, cells in zip(axis.image.shape[:2], axis.grid, strict=True))
    found: dict[int, set[int]] = {}
    for noun in example.gold[0]:
        row = max(place for place, token in enumerate(record.axes["target"].tokens) if token.word == noun.word)
        top, left, bottom, right = noun.box
        for place in axis.upon():
            down, across = (place // axis.grid[1] + 0.5) * height, (place % axis.grid[1] + 0.5) * width
            if top <= down < bottom and left <= across < right:
                found.setdefault(row, set()).add(place)
    return found


def heard(record: AttentionRecord, run: Run, example: Example) -> dict[int, set[int]]:
    edges, found = record.axes["source"].edges, {}
    for row, segment in enumerate(example.gold):
        within = (edges[:-1] < segment.end) & (edges[1:] > segment.start)
        found[row] = set(np.flatnonzero(within).tolist())
    return found


def lagged(record: AttentionRecord, run: Run, example: Example) -> dict[int, set[int]]:
    columns = {label: place for place, label in enumerate(record.axes["source"].labels)}
    wanted = {row: str(int(label) - LAG) for row, label in enumerate(record.axes["target"].labels)}
    return {row: {columns[label]} for row, label in wanted.items() if label in columns}


GOLD: dict[str, Callable[[AttentionRecord, Run, Example], dict[int, set[int]]]] = {
    "pocket": linked_words, "shapes": boxes, "tones": heard, "lag": lagged,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ measures
def trained(corpus: str, kind: str, seed: int, folder: Path) -> Run:
    recipe, changes = MODELS[corpus, kind]
    place = folder / f"{corpus}-{kind}-{seed}"
    if (place / "summary.json").is_file():
        return api.load(place)
    tree = config.as_tree(config.read(recipe))
    model = changes.get("new_model") or tree["model"] | (changes.get("model") or {})
    training = tree["training"] | {"seed": seed, "looks": 0, "max_epochs": None} | changes.get("training", {})
    tree |= {"model": model, "training": training, "data": tree["data"] | changes.get("data", {})}
    return regard.train(config.build(tree), output=place, check=False)


def examples_of(run: Run, most: int) -> list[Example]:
    data = make_job(run.recipe)
    data.prepare(run.folder / "cache")
    return data.output.sample_examples(data.splits["valid"], most)


def cell(run: Run, corpus: str, method: str, examples: Iterable[Example]) -> dict[str, Any]:
    """Of one model and one method, over all examples."""
    hits: list[float] = []
    chance: list[float] = []
    figures: dict[str, list[tuple[float, float]]] = {"comprehensiveness": [], "sufficiency": []}
    for example in examples:
        options = LookOptions(output=run.job.output.reference(example), method=method, evidence=True)
        try:
            record = run.job.look(example.input, options)
        except CallError as error:
            return {"refused": str(error)}
        weights, real = record.matrix("cross").weights, np.array(record.axes["source"].real())
        for row, columns in GOLD[corpus](record, run, example).items():
            if columns:
                hits.append(float(real[weights[row, real].argmax()] in columns))
                chance.append(len(columns) / len(real))
        for figure in record.evidence:
            if figure.name in figures:  # some methods bring figures of their own
                assert figure.uniform is not None
                figures[figure.name].append((figure.value, figure.uniform))
    lost = {name: np.mean(pairs, axis=0).tolist() for name, pairs in figures.items() if pairs}
    return {"pointing": float(np.mean(hits)), "chance": float(np.mean(chance)), "steps": len(hits), **lost}


def measure(folder: Path, corpora: Collection[str], seeds: Iterable[int], most: int) -> None:
    file = folder / "cells.jsonl"
    done = {(one["corpus"], one["model"], one["seed"], one["method"]) for one in cells(file)}
    for seed in seeds:
        for corpus, kind in MODELS:
            if corpus not in corpora:
                continue
            left = [method for method in METHODS if (corpus, kind, seed, method) not in done]
            if not left:
                continue
            run = trained(corpus, kind, seed, folder)
            examples = examples_of(run, most)
            quality = BEST[corpus](
                one["scores"][METRIC[corpus]] for one in run.summary()["history"] if one["kind"] == "validation"
            )
            for method in left:
                began = time.process_time()
                found = cell(run, corpus, method, examples)
                line = {"corpus": corpus, "model": kind, "seed": seed, "method": method, "quality": quality, **found}
                line["seconds"] = round(time.process_time() - began, 1)
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)


def cells(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


# --------------------------------------------------------------------------------------------------------------- table
def table(found: list[dict[str, Any]]) -> str:
    """In Markdown: pointing in percent; comprehensiveness and sufficiency as multiples of random."""
    head = ("corpus", "model", "method", "pointing", "chance", "comprehensiveness", "sufficiency", "seeds")
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for corpus, kind in MODELS:
        for method in METHODS:
            some = [one for one in found if (one["corpus"], one["model"], one["method"]) == (corpus, kind, method)]
            own = [one for one in some if "pointing" in one]
            if own:
                pointing = [100 * one["pointing"] for one in own]
                ratios = [_ratio([one[name] for one in own]) for name in ("comprehensiveness", "sufficiency")]
                chance = f"{100 * np.mean([one['chance'] for one in own]):.0f}"
                row = [_mean(pointing, 0), chance, *ratios]
            elif some:
                row = ["—"] * 4
            else:
                continue
            lines.append(f"| {' | '.join([corpus, kind, method, *row, str(len(some))])} |")
    return "\n".join(lines)


def _ratio(pairs: list[list[float]]) -> str:
    """As multiples of what random parts give."""
    return _mean([value / random for value, random in pairs], 2)


def _mean(values: list[float], digits: int) -> str:
    """With how far the seeds are apart, where there are several."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values):.{digits}f}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/believe"), help="of runs and cells")
    parser.add_argument("--corpora", nargs="+", default=list(GOLD), choices=list(GOLD))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--examples", type=int, default=16, help="validation examples of each model")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if not options.table:
        measure(options.folder, options.corpora, options.seeds, options.examples)
    print(table(cells(options.folder / "cells.jsonl")))


if __name__ == "__main__":
    main()
