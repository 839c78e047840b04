"""Every packaged recipe whose data comes with regard, trained for a few steps on the first few examples of its corpus.

A run is trained once, whichever test of whichever process asks for it first: `trained("shapes-draw")`.

    torchrun --nproc-per-node 2 recipe_runs.py FOLDER RECIPE...     each without dropout, in FOLDER/RECIPE
"""

import fcntl
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import regard
from regard import config
from regard.api import Run
from regard.corpora import pocket, shapes, spelling, texts, tones
from regard.corpora import shapes as digits
from regard.corpora import shapes as one_shape
from regard.corpora.series import load_series
from regard.errors import CallError
from regard.job import make_job
from regard.runs import train

FEW = 30  # examples of a split
STEPS = 6
SHORT = 8  # tokens of an output


class Trained(NamedTuple):
    """`input`: the first of its own validation data; `estimates`: what `regard check` says of its cost."""

    run: Run
    input: Any
    estimates: dict[str, str]


@cache
def recipes() -> list[str]:
    """The names of those that need no file."""
    return [name for name in config.packaged_recipes() if str(_train_of(name)).startswith("corpus:")]


def _train_of(name: str) -> Any:
    return config.load_recipe(config.find(name)).get("data", {}).get("train")


@cache
def trained(name: str) -> Trained:
    folder = Path(os.environ["REGARD_TEST_RUNS"]) / "recipes" / name
    folder.parent.mkdir(exist_ok=True)
    with small_corpora(), folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (done := folder.with_suffix(".done")).exists():
            try:
                regard.train(name, output=folder, training={"max_steps": STEPS}, **short(name))
            except CallError as missing:
                if "pip install" not in str(missing):
                    raise
                pytest.skip(str(missing))
            done.touch()
        run = regard.load(folder)
        job = make_job(run.recipe)
        job.restore(folder)
        job.prepare(folder / "cache")
        (example,) = job.output.sample_examples(job.splits["valid"], 1)
        estimates = job.output.estimates(job.splits)
    return Trained(run, example.input, estimates)


def rebuilt(name: str, model: dict[str, Any]) -> Trained:
    """The same data, with another model that knows nothing yet."""
    made = trained(name)
    recipe = config.build(config.as_tree(made.run.recipe) | {"model": model}, name)
    job = make_job(recipe)
    job.restore(made.run.folder)
    torch.manual_seed(1)
    return made._replace(run=Run(made.run.folder, recipe, job.bound(job.build().eval())))


def train_without_dropout(folder: Path, names: Iterable[str]) -> None:
    """In this process, or in those of torchrun: the same steps, whose losses are all logged."""
    with small_corpora():
        for name in names:
            tree = config.as_tree(config.read(name))
            tree["training"] |= {"max_steps": 4, "validate_every": 4, "log_every": 1, "warmup": 1, "looks": 0}
            recipe = config.build(tree | {"model": _without_dropout(tree["model"])}, name)
            train.train(recipe, folder / name, check=False)


def _without_dropout(model: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_dropout(value) if isinstance(value, dict) else 0.0 if key.endswith("dropout") else value
        for key, value in model.items()
    }


def short(name: Any) -> dict[str, Any]:
    """What an untrained model writes has no end of its own."""
    packaged = isinstance(name, str) and name in config.packaged_recipes()  # data may replace a recipe
    how = getattr(config.read(name), "decoding", None) if packaged else None
    return {"decoding": {"max_length": SHORT}} if hasattr(how, "max_length") else {}


@cache
def _few(load: Any) -> Any:
    """The same splits, with examples from all over each."""

    @cache
    def some(split: str, *size: int | None) -> list[Any]:
        found = list(load(split, *size))
        return found[:: max(1, len(found) // FEW)]

    return some


@contextmanager
def small_corpora() -> Iterator[None]:
    """All corpora are still themselves, and short."""

    with pytest.MonkeyPatch.context() as patch:
        for module, maker in ((texts, "languages"), (pocket, "pocket"), (spelling, "pairs"), (digits, "digits")):
            patch.setattr(module, maker, _few(getattr(module, maker)))
        for sizes, split, size in (
            *((those, split, FEW) for those in (shapes.SIZES, tones.SIZES, texts.SIZES) for split in those),
            *((one_shape.EACH, split, 1) for split in one_shape.EACH),
            (pocket.SIZES, "train", 100 * FEW),  # to take a few of them from: sentences are drawn one by one
        ):
            patch.setitem(sizes, split, size)
        patch.setattr(texts, "STORIES", 200)
        texts._all.cache_clear()
        yield
    texts._all.cache_clear()


# -------------------------------------------------------------------------------------------------------- the service
def sent(client: Any, made: Trained) -> str:
    """What stands for the input in a request: a text, or the name of an upload; both, with a tab between."""
    kinds, one = made.run.job.input.kinds, made.input
    if len(kinds) > 1:
        return "\t".join(_sent(client, made, kind, part) for kind, part in zip(kinds, one, strict=True))
    return _sent(client, made, kinds[0], one)


def _sent(client: Any, made: Trained, kind: str, one: Any) -> str:
    if kind == "text":
        return one if isinstance(one, str) else "\n".join(one)  # a question and its document
    if made.run.recipe.job == "classify" and kind == "table":  # a series of the corpus
        return "\n".join(["column 1", *(str(float(number)) for number in one.numbers[:, 0])])
    if kind == "table":
        return as_csv(load_series(made.run.recipe.data.train))
    content = _png(one.pixels) if kind == "image" else _wav(one.load(), made.run.recipe.data.sound.rate)
    return client.post("/api/upload", content=content).json()["name"]


def as_csv(columns: Any) -> str:
    rows = zip(*columns.values(), strict=True)
    return "\n".join(",".join(map(str, row)) for row in (columns, *list(rows)[-200:]))


def _png(pixels: Any) -> bytes:
    from PIL import Image

    written = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(written, "PNG")
    return written.getvalue()


def _wav(samples: Any, rate: int) -> bytes:
    import soundfile

    written = io.BytesIO()
    soundfile.write(written, samples, rate, format="WAV")
    return written.getvalue()


if __name__ == "__main__":
    train_without_dropout(Path(sys.argv[1]), sys.argv[2:])
