"""The training loop: for any model whose `forward(batch)` gives a sum of losses and a count, on one process or many.

The position in the data is two integers, (epoch, index), and everything else depends on the step: random numbers are
seeded by (seed, step, process). So a killed run resumes from its last checkpoint exactly.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import CallError, RegardError
from regard.settings.training import TrainingSettings
from regard.training import budget
from regard.training.budget import Budget
from regard.training.checkpoint import Checkpoint, Checkpoints, LossWindow, Result, RunState, differences, write_weights
from regard.training.initial_weights import merge_adapters, save_adapters
from regard.training.lock import Interrupt, Stopped
from regard.training.metrics import Metrics
from regard.training.optimizer import BatchSource
from regard.training.parallel import Parallel, pick_device
from regard.training.progress import display
from regard.training.update import Update

READ_EVERY = 10  # steps between reads of results from the device, because each read waits for it
BAD_STEPS = 10  # skipped steps in a row that end the run

Evaluate = Callable[[nn.Module], dict[str, float]]
Sample = Callable[[nn.Module], str]
Watch = Callable[[nn.Module, int], None]
Say = Callable[[str], None]
Clock = Callable[[], float]


class DivergenceError(RegardError):
    """The loss is NaN or explodes in many steps in a row."""


def fit(
    model: nn.Module,
    batches: BatchSource,
    settings: TrainingSettings,
    folder: str | Path,
    *,
    evaluate: Evaluate | None = None,
    sample: Sample | None = None,
    watch: Watch | None = None,
    config: dict[str, Any] | None = None,
    complete: Callable[[dict[str, Any]], dict[str, Any]] = lambda old: old,
    parallel: Parallel | None = None,
    on_message: Say | None = None,
    unit: str = "tokens",
    validating: float = 1.0,
    clock: Clock = time.perf_counter,
) -> Result:
    """Train until a limit of the settings is reached; resume from the folder's last checkpoint if there is one.

    `evaluate(model)` returns validation scores, including `settings.metric`; `sample(model)` a text to show with them.
    `watch(model, step)` is called with the model at every validation, on the first process. `config` is the resolved
    recipe: a folder started with another recipe is refused. `complete(old)` adds settings that are newer than an old
    recipe, at their defaults. The best weights (by the metric; averaged, if `settings.average`) are written to
    `folder/model.safetensors`. `unit` is what the loss counts. `validating` is the share of the time that validation
    may take. `clock()` returns the time in seconds.
    """
    if settings.threads:
        torch.set_num_threads(settings.threads)
    config = {"training": settings.model_dump(mode="json")} if config is None else config
    parallel = parallel or Parallel(device=pick_device(settings.device))
    trainer = _Trainer(
        model,
        batches,
        settings,
        Path(folder),
        evaluate,
        sample,
        watch,
        config,
        complete,
        parallel,
        on_message,
        unit,
        validating,
        clock,
    )
    try:
        return trainer.train()
    finally:
        trainer.close()


class _Trainer:
    def __init__(
        self,
        model: nn.Module,
        batches: BatchSource,
        settings: TrainingSettings,
        folder: Path,
        evaluate: Evaluate | None,
        sample: Sample | None,
        watch: Watch | None,
        config: dict[str, Any],
        complete: Callable[[dict[str, Any]], dict[str, Any]],
        parallel: Parallel,
        on_message: Say | None,
        unit: str,
        validating: float,
        clock: Clock,
    ) -> None:
        self.model, self.batches, self.settings, self.folder = model, batches, settings, folder
        self.evaluate, self.sample, self.watch = evaluate, sample, watch
        self.larger = evaluate is not None and settings.larger_is_better  # of the metric, the larger value is better
        self.config, self.parallel, self.unit = config, parallel, unit
        self.progress = display()
        self.say: Say = (on_message or self.progress.say) if parallel.main else lambda text: None

        self.checkpoints = Checkpoints(folder / "state", settings.keep)
        step = parallel.share(self.checkpoints.latest(self.say) if parallel.main else None)
        checkpoint = None if step is None else self.checkpoints.load(step)
        if checkpoint is not None:
            _refuse_another_recipe(folder, complete(checkpoint.run["config"]), config)

        self.update = Update(model, settings, parallel, spare=lambda: next(batches.epoch(0)))
        self.clock, self.now = clock, clock()
        self.busy = self.waited = 0.0  # seconds of training, and of waiting for data, since the last line of metrics
        self.ended = False  # whether an epoch ended with the last step, perhaps with batches left over
        self.passes = 0.0  # epochs done: 1.5 is half-way through the second epoch
        self.run, self.saved = RunState(), None  # saved: content of the last checkpoint
        if checkpoint is not None:
            self._restore(checkpoint)
        self.metrics = Metrics(folder, self.run.step, settings.tensorboard) if parallel.main else None
        self.pending: list[tuple[int, int, int, Tensor]] = []  # step, epoch, index, what the device computed
        self.budget = Budget(settings, batches.len_epoch, self.run, validating)
        self.rate = self.budget.rate()  # of the last step, once there is one

    # -------------------------------------------------------------------------------------------------- the run
    def train(self) -> Result:
        run = self.run
        if run.step and self._limit():
            self.say(f"{self.folder} has been trained to the end: {self._limit()} is reached at step {run.step:,}")
        elif run.step:
            self.say(f"{self.folder} resumes from step {run.step:,}")
        if self.parallel.main:
            self.progress.start()
        with Interrupt(self.say) as interrupt:
            stream = self._stream()
            while not self._limit():
                validated = run.validated == run.step
                self._step(self._next(stream))
                stop, seconds = self.parallel.largest([interrupt.asked, run.seconds * self.parallel.main])
                self.budget.advance(seconds, validated)
                if self._limit():
                    break
                self._log_validate_save()
                if stop:
                    self._stop()
            self._finish()
        waiting = run.waiting / run.busy if run.busy else 0.0
        return Result(run.step, run.best, run.history, run.seconds, self._limit(), round(waiting, 4))

    def close(self) -> None:
        self.progress.stop()
        if self.metrics is not None:
            self.metrics.close()

    def _stream(self) -> Iterator[tuple[Any, int, int]]:
        """Yield batches from the position of the run, each with the position that follows it."""
        epoch, index = self.run.epoch, self.run.index
        while self.settings.max_epochs is None or epoch < self.settings.max_epochs:
            length = self.batches.len_epoch(epoch)
            if length == 0:
                raise CallError("nothing to train on: the data has no batch")
            for share in self.batches.epoch(epoch, index, self.parallel.rank, self.parallel.world):
                index += 1
                self.passes = epoch + index / length
                yield share, epoch + index // length, index % length
            if index != length:
                raise RuntimeError(f"epoch {epoch} should have {length} batches but had {index}")
            epoch, index = epoch + 1, 0

    def _next(self, stream: Iterator[tuple[Any, int, int]]) -> list[tuple[Any, int, int]]:
        """Return the batches of one update. Time spent here is waiting for data; prefetched batches cost nothing."""
        started = self.clock()
        group = list(islice(stream, self.settings.accumulate))
        waited = self.clock() - started
        self.waited += waited
        self.run.waiting += waited
        return group

    def _limit(self) -> str:
        return budget.reached_limit(self.run, self.settings, self.budget.out_of_time)

    def _step(self, group: list[tuple[Any, int, int]]) -> None:
        run = self.run
        self.rate = self.budget.rate()
        run.step += 1
        computed = self.update(run.step, [share for share, _, _ in group], self.rate)
        self.pending.append((run.step, run.epoch, run.index, computed))
        former = run.epoch
        _, run.epoch, run.index = group[-1]
        self.ended = run.epoch > former
        if self.budget.timing:
            self._read()
        self._tick(training=True)

    def _log_validate_save(self) -> None:
        step, settings = self.run.step, self.settings
        if step % READ_EVERY == 0:
            self._read()
        if step % settings.log_every == 0:
            self._log()
        due = step % settings.validate_every == 0 if settings.validate_every else self.ended
        if due and self.budget.has_time_to_validate():
            self._validate()
        if step % settings.save_every == 0:
            self._save()

    def _stop(self) -> None:
        self._save()
        if self.run.best is None:
            self._write_weights()
        best, metric = self.run.best, self.settings.metric
        score = "not validated yet" if best is None else f"best {metric} {best['value']:.4g}"
        where = f"saved in {self.folder}; run the same command again to resume"
        message = f"stopped at step {self.run.step:,} ({score}) and {where}"
        self.say(message)
        raise Stopped(message)

    def _finish(self) -> None:
        self._read()
        if self.run.window.steps:
            self._log()
        if self.run.validated != self.run.step:
            self._validate()
        if self.run.best is None and self.saved != self._standing():
            self._write_weights()
        self._save()

    # ---------------------------------------------------------------------------------------------- read and log
    def _read(self) -> None:
        """Read the results from the device, and report skipped steps."""
        run, pending, self.pending = self.run, self.pending, []
        rows = torch.stack([computed for *_, computed in pending]).tolist() if pending else []
        for (step, epoch, index, _), (total, count, length, bad) in zip(pending, rows, strict=True):
            run.items += int(count)
            if not bad:
                run.bad_in_a_row = 0
                run.window.add(total, count, length)
                continue
            run.skipped += 1
            run.bad_in_a_row += 1
            what = f"loss {total / count:.4g}, gradient {length:.4g}, epoch {epoch + 1}, batch {index + 1}"
            self.say(f"step {step:,} was skipped and the weights were not changed: {what}")
            if run.bad_in_a_row >= BAD_STEPS:
                raise DivergenceError(
                    f"{BAD_STEPS} steps in a row gave no usable gradient, the last one with {what}. In a new "
                    f"folder, try a smaller training.learning_rate (now {self.settings.learning_rate:g}), a longer "
                    f"training.warmup (now {self.settings.warmup}) or a smaller training.clip (now "
                    f"{self.settings.clip:g}). If it happens from the first step on, check the data"
                )
        self._tick(training=True)

    def _log(self) -> None:
        self._read()
        run, window = self.run, self.run.window
        record = {
            "kind": "train",
            "step": run.step,
            "epoch": self.passes,
            "loss": window.total / window.count if window.count else math.nan,
            "gradient": window.length / window.steps if window.steps else math.nan,
            "learning_rate": self.rate,
            "unit": self.unit,
            "items": run.items,
            "items_per_second": window.count / self.busy if self.busy else 0.0,
            "waiting": round(self.waited / self.busy, 4) if self.busy else 0.0,
            "skipped": run.skipped,
            "seconds": round(run.seconds, 3),
        }
        run.window, self.busy, self.waited = LossWindow(), 0.0, 0.0
        if self.metrics is not None:
            self.metrics.write(record)
            done = budget.share_done(run, self.settings, self.passes)
            self.progress.train(record, done, run.seconds * (1 - done) / done if done else None)

    # ---------------------------------------------------------------------------------- validate, save, restore
    def _validate(self) -> None:
        run, settings = self.run, self.settings
        run.validated = run.step
        if self.evaluate is None:
            return
        self._read()
        scores, text = None, ""
        self.parallel.seed(settings.seed, run.step)
        with self.update.use_average(), self.parallel.validating(self.model) as whole, torch.no_grad():
            if whole is not None:
                scores = self.evaluate(whole)
                text = self.sample(whole) if self.sample is not None else ""
                if self.watch is not None:
                    self.watch(whole, run.step)
        scores, text = self.parallel.share((scores, text))
        if settings.metric not in scores:
            raise CallError(f"training.metric={settings.metric!r}: validation gives {', '.join(scores)}")
        value = float(scores[settings.metric])
        better = math.isfinite(value) and run.step > run.skipped and self._better(value, scores)
        self._tick()
        record = {"kind": "validation", "step": run.step, "epoch": self.passes, "seconds": round(run.seconds, 3)}
        record |= {"scores": scores, "best": better, "sample": text}
        run.history.append(record)
        run.worse_in_a_row = 0 if better else run.worse_in_a_row + 1
        if self.metrics is not None:
            self.metrics.write(record)
            self.progress.validation(record)
        if better:  # the state first, so that the file of weights is never newer than the state
            run.best = {"step": run.step, "value": value, "scores": scores}
            self._save()
            self._write_weights()

    def _better(self, value: float, scores: dict[str, float]) -> bool:
        """Whether these scores are better than the best so far; ties are broken by the loss."""
        if self.run.best is None:
            return True
        former = self.run.best["value"]
        if value == former:
            return scores.get("loss", math.inf) < self.run.best["scores"].get("loss", math.inf)
        return value > former if self.larger else value < former

    def _standing(self) -> tuple[int, int]:
        return self.run.step, self.run.validated

    def _save(self) -> None:
        self._read()
        if self.saved == self._standing():
            return
        tensors = self.update.tensors()
        if self.parallel.main:
            self._tick()
            assert self.metrics is not None
            self.metrics.flush()
            about = {"config": self.config, "threads": torch.get_num_threads(), "processes": self.parallel.world}
            self.checkpoints.save(self.run.step, Checkpoint({**about, "run": asdict(self.run)}, tensors))
        self.parallel.wait_for_main()
        self.saved = self._standing()
        self._tick()

    def _write_weights(self) -> None:
        weights = self.update.weights()
        if self.parallel.main:
            write_weights(merge_adapters(weights), self.folder / "model.safetensors")
            save_adapters(weights, self.folder, str((self.config.get("start") or {}).get("run", "")))
        self._tick()

    def _restore(self, checkpoint: Checkpoint) -> None:
        self.update.restore(checkpoint.tensors)
        self.run = RunState.from_json(checkpoint.run["run"])
        self.passes = float(self.run.epoch)
        self.saved = self._standing()
        before, now = checkpoint.run["threads"], torch.get_num_threads()
        if before != now:
            self.say(f"{before} threads before and {now} now: the result will be equivalent, but not bit-identical")
        if self.run.best is not None and self.run.best["step"] == self.run.step:
            self._write_weights()  # the run may have died between writing its state and this file

    def _tick(self, training: bool = False) -> None:
        now = self.clock()
        self.run.seconds += now - self.now
        self.busy += (now - self.now) * training
        self.run.busy += (now - self.now) * training
        self.now = now


def _refuse_another_recipe(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    if found := differences(old, new):
        lines = "\n  ".join(found)
        raise CallError(
            f"{folder} was started with another recipe:\n  {lines}\nGive the old values or another folder (-o), or "
            "start again in this one (--fresh; in Python overwrite=True)"
        )
