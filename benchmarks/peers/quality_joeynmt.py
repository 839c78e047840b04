"""JoeyNMT's Transformer by its own TrainManager, for `benchmarks/time_to_quality.py`."""

import contextlib
import copy
import io
import logging
import time
from pathlib import Path
from typing import Any

import torch

from peers.messages import peer
from peers.quality import ENOUGH, PACED, SLACK, VALIDATED, Curve, Stopwatch, sizes_of, writer
from regard.data.tables import Role
from regard.job import Job
from regard.special_tokens import SPECIAL_TOKENS

BATCH, WARM_UP, SMOOTHING, DROPOUT = 2048, 1000, 0.1, 0.1
FACTOR = 0.5  # of Noam's schedule, whose peak is FACTOR / sqrt(width * WARM_UP)
NEVER = 10**9  # steps


def joeynmt(
    job: Job, seed: int, folder: Path, seconds: float, rate: float | None = None, dropout: float | None = None
) -> Curve:
    """A Transformer by TrainManager, stopped after so many seconds of training."""
    training, prediction, configs = (peer(f"joeynmt.{name}") for name in ("training", "prediction", "config"))
    for name in logging.root.manager.loggerDict:
        if name.startswith("joeynmt."):
            logging.getLogger(name).setLevel(logging.WARNING)
    words = writer(job).tokenizer
    given = configs.parse_global_args(asked(job, seed, folder, rate, DROPOUT if dropout is None else dropout))
    torch.manual_seed(seed)  # it draws the weights before it sets its seed
    model, train_data, valid_data, _ = prediction.prepare(given, rank=0, mode="train")
    greedy = configs.set_validation_args(given.test)

    def translate() -> list[str]:
        with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
            found = prediction.predict(
                model=model, data=valid_data, device=given.device, n_gpu=0, args=greedy, autocast=given.autocast
            )
        return [words.decode([int(word) for word in said if word.isdigit()]) for said in found[3]]

    class Unsaved(training.TrainManager):
        def _save_checkpoint(self, new_best: bool, score: float) -> None:
            """Not counted with the others either."""

    class Watching(Unsaved):
        validated = 0  # at this step

        def _train_step(self, batch: Any) -> tuple[float, int]:
            self.stats.is_max_update |= watch.seconds > SLACK * seconds
            return super()._train_step(batch)

        def _validate(self, valid_data: Any) -> None:
            self.validated = self.stats.steps
            self.stats.is_max_update |= watch.validated() >= ENOUGH

    def manager(kind: type, model: Any, steps: int, every: int) -> Any:
        how = given.train._replace(
            max_updates=steps, validation_freq=every, logging_freq=every,
            learning_rate_warmup=max(1, min(WARM_UP, steps // 5)),
        )  # fmt: skip
        peer("joeynmt.helpers").set_seed(seed)
        return kind(
            rank=0, model=model, model_dir=folder, device=given.device, autocast=given.autocast, seed=seed,
            train_args=how, dev_args=greedy,
        )  # fmt: skip

    tried = manager(Unsaved, copy.deepcopy(model), PACED, NEVER)  # how long a step takes
    start = time.process_time()
    tried.train_and_validate(train_data, valid_data)
    steps = max(1, int(seconds / (time.process_time() - start) * PACED))
    trained = manager(Watching, model, steps, max(1, steps // VALIDATED))
    watch = Stopwatch(f"JoeyNMT, seed {seed}", translate, [one.texts[0] for one in examples(job, "valid")])
    trained.train_and_validate(train_data, valid_data)
    if trained.validated < trained.stats.steps:
        watch.validated()
    return watch.curve


def examples(job: Job, part: Role) -> list[Any]:
    """Those to validate by are sorted by length, as its search goes over all words again for each: the time of that is
    not counted, but somebody waits for it. It writes at most 1.5 times as many as the longest input of a batch has, its
    default; three of the 1,014 references have more."""
    found, words = job.splits[part].examples(10**6), writer(job).tokenizer
    return sorted(found, key=lambda one: len(words.encode(one.input))) if part == "valid" else list(found)


def asked(job: Job, seed: int, folder: Path, rate: float | None, dropout: float) -> dict[str, Any]:
    """JoeyNMT's configuration, and the files that it names: sentences of our subwords, each written as its number."""
    words, sizes = writer(job).tokenizer, sizes_of(job)
    folder.mkdir(parents=True)
    vocabulary = folder / "vocabulary.txt"  # it puts its own special tokens before, which are as many as ours
    vocabulary.write_text("".join(f"{number}\n" for number in range(len(SPECIAL_TOKENS), words.size)))
    for part in ("train", "valid"):
        with open(folder / f"{part}.source", "w") as source, open(folder / f"{part}.target", "w") as target:
            for one in examples(job, part):
                for file, text in ((source, one.input), (target, one.texts[0])):
                    print(*words.encode(text), file=file)
    side = {"level": "word", "voc_file": str(vocabulary)}
    stack = {
        "type": "transformer", "num_heads": sizes.heads, "hidden_size": sizes.width, "ff_size": sizes.feed_forward,
        "dropout": dropout, "layer_norm": "pre", "activation": "relu",
        "embeddings": {"embedding_dim": sizes.width, "scale": True, "dropout": 0.0},
    }  # fmt: skip
    return {
        "name": "time to quality", "model_dir": str(folder), "use_cuda": False, "random_seed": seed,
        "data": {
            "train": str(folder / "train"), "dev": str(folder / "valid"), "dataset_type": "plain",
            "src": {"lang": "source", **side}, "trg": {"lang": "target", **side},
        },
        "testing": {"batch_size": 128, "batch_type": "sentence"},
        "training": {
            "optimizer": "adam", "adam_betas": [0.9, 0.999], "scheduling": "warmupinversesquareroot",
            "learning_rate": rate or FACTOR * (sizes.width * WARM_UP) ** -0.5, "learning_rate_min": 1e-8,
            "normalization": "tokens", "label_smoothing": SMOOTHING, "batch_size": BATCH, "batch_type": "token",
            "epochs": NEVER,
        },
        "model": {
            "initializer": "xavier_uniform", "embed_initializer": "xavier_uniform", "bias_initializer": "zeros",
            "tied_embeddings": True, "tied_softmax": True,
            "encoder": {**stack, "num_layers": sizes.encoder_layers},
            "decoder": {**stack, "num_layers": sizes.decoder_layers},
        },
    }  # fmt: skip
