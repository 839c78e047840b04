"""Settings of training."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from regard.errors import CallError
from regard.settings.base import Settings

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


def seconds(value: Any) -> Any:
    """Convert 90, "90", "45s", "10m" or "1h30m" to seconds; leave other types to the field's validation."""
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip().lower().replace(" ", ""))
    if match is None or not any(match.groups()):
        raise ValueError("not a length of time; write seconds, or a text such as 45s, 10m, 1h30m")
    hours, minutes, rest = (float(group or 0) for group in match.groups())
    return hours * 3600 + minutes * 60 + rest


#: Validation scores by direction; * matches anything. A score in neither list needs `mode`.
SMALLER = (
    *("loss", "region_loss", "reconstruction", "perplexity", "bits_per_byte", "mse", "mae", "mase", "pinball"),
    *("wer", "cer", "ter", "*error_rate", "*_median_rank"),
)
LARGER = (
    *("accuracy", "*_accuracy", "precision", "recall", "f1", "*_f1", "exact_match", "bleu*", "chrf*", "cider"),
    *("mrr", "*_at_*"),
)


def direction(metric: str) -> Literal["min", "max"] | None:
    """Return "min" or "max", the better direction of this score; None if regard does not know it."""
    if any(fnmatchcase(metric, pattern) for pattern in SMALLER):
        return "min"
    return "max" if any(fnmatchcase(metric, pattern) for pattern in LARGER) else None


class LoraSettings(Settings):
    """Low-rank adapters (arXiv:2106.09685): the start weights are fixed, and small matrices learn what to add."""

    rank: int = Field(8, ge=1, description="rank: width of the small matrices")
    alpha: float = Field(16.0, gt=0, description="the product of the small matrices is multiplied by alpha / rank")
    targets: list[str] = Field(
        ["*.project", "*.project_kv", "*.out", "*.widen", "*.narrow"],
        description="linear maps that get an adapter; * matches anything",
    )


GIVE_MODE = "give training.mode=min (a smaller value is better) or max"
FALLING = ("cosine", "linear")  # schedules that need the last step of a run


class TrainingSettings(Settings):
    """AdamW or Muon on batches of a token budget, with checkpoints that resume a stopped run exactly."""

    seed: int = Field(1, ge=0, lt=2**63, description="random seed of initial weights, the order of batches and dropout")

    # Limits: the first one reached ends the run
    max_steps: int | None = Field(None, ge=1, description="updates of the weights; null is no limit")
    max_epochs: int | None = Field(20, ge=1, description="passes over the data; null is no limit")
    time_limit: Annotated[float | None, BeforeValidator(seconds)] = Field(
        None, gt=0, description="time to train and validate, in total over resumed parts: 90, 10m, 1h30m"
    )
    patience: int = Field(0, ge=0, description="stop after this many validations without a better score; 0 is never")

    # One update
    max_tokens: int = Field(4096, ge=1, description="tokens in a batch, with padding, summed over all processes")
    accumulate: int = Field(1, ge=1, description="batches added up before one update")
    learning_rate: float = Field(1e-3, gt=0, description="highest learning rate of the schedule")
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant"] = Field(
        "inverse_sqrt",
        description="how the learning rate falls after warmup; cosine and linear fall until the run ends",
    )
    warmup: int = Field(
        200,
        ge=0,
        description="updates over which the learning rate rises from 0; at most a fifth of a run",
    )
    final: float = Field(0.0, ge=0, le=1, description="where cosine and linear end, as a share of learning_rate")
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw", description="muon orthogonalizes the updates of hidden matrices and uses adamw for the rest"
    )
    momentum: float = Field(0.95, ge=0, lt=1, description="momentum of muon: decay of the mean gradient")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.98), description="beta1 and beta2 of AdamW: decay of the mean gradient and of its mean square"
    )
    weight_decay: float = Field(0.01, ge=0, description="how much weights shrink in each update")
    decay_all: bool = Field(False, description="decay norms, biases and embeddings as well")
    clip: float = Field(1.0, ge=0, description="maximum gradient norm (clipping); 0 is no limit")
    average: float = Field(0.0, ge=0, lt=1, description="decay of the running average of weights, as 0.999; 0 is off")

    # Fine-tuning
    freeze: list[str] = Field([], description="weights or modules that are not trained, such as encoder or *.norm.*")
    lora: LoraSettings | None = Field(None, description="learn low-rank adapters only; needs a start")

    # Validation and best weights
    validate_every: int = Field(0, ge=0, description="updates between validations; 0 is after every epoch")
    metric: str = Field("loss", description="the validation score that decides which weights are best")
    mode: Literal["auto", "min", "max"] = Field(
        "auto", description="whether a smaller (min) or larger (max) metric is better; auto: as regard knows it"
    )

    score_test: bool = Field(
        False, description="score the test data with the best weights at the end, compared with simple baselines"
    )

    # Checkpoints and messages
    save_every: int = Field(500, ge=1, description="updates between checkpoints")
    keep: int = Field(2, ge=1, description="checkpoints kept")
    log_every: int = Field(50, ge=1, description="updates between lines of metrics.jsonl")
    looks: int = Field(1, ge=0, le=100, description="validation inputs whose attention is kept at every validation")
    tensorboard: bool = Field(False, description="write TensorBoard event files as well")

    # The machine
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, ...")
    precision: Literal["auto", "float32", "bf16"] = Field("auto", description="auto is bf16 on GPUs that have it")
    compile: Literal["auto", "on", "off"] = Field("auto", description="torch.compile; auto is on GPUs only")
    threads: int = Field(0, ge=0, le=4096, description="processor threads of one process; 0 leaves it to torch")
    shard: bool = Field(False, description="split weights and optimizer state over processes (FSDP), for large models")

    @property
    def larger_is_better(self) -> bool:
        """Whether larger values of the metric are better, by `mode` or by the known direction."""
        mode = direction(self.metric) if self.mode == "auto" else self.mode
        if mode is None:
            raise CallError(f"training.metric={self.metric!r} is not a score that regard knows: {GIVE_MODE}")
        return mode == "max"

    def problems(self) -> Iterator[tuple[str, str]]:
        known = direction(self.metric)
        if self.mode == "auto" and known is None:
            yield "metric", f"is not a score that regard knows: {GIVE_MODE}"
        if "auto" != self.mode != (known or self.mode):
            better = "smaller" if known == "min" else "larger"
            why = f"a {better} {self.metric} is better. Leave mode out"
            yield "mode", f"contradicts training.metric={self.metric}: {why}"
        if self.lora is not None and self.shard:
            yield "lora", "cannot be combined with shard=true"
        if self.optimizer == "muon" and self.shard:
            yield "optimizer", "needs whole matrices, but shard=true splits them: use adamw or shard=false"
        if self.max_steps is None and self.max_epochs is None:
            if self.schedule in FALLING and self.time_limit is None:
                yield "schedule", "needs max_steps, max_epochs or time_limit: it falls until then"
            elif self.time_limit is None and self.patience == 0:
                yield "max_steps", "training would never end: set max_steps, max_epochs, time_limit or patience"
