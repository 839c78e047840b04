"""Progress of a run towards its end, by steps or by time: the position x and the end n that schedules use.

    limits of steps     n = max_steps, or the steps of max_epochs;   x(s) = s
    limit of time       n = s₀ + k(s₀), the plan, made once after the first s₀ steps were timed;
                        x(s+1) = x(s) + (n − x(s)) / k(s)

k(s) is the number of steps that fit after step s, at the running mean of a step's seconds. It subtracts the time of
the validations on the way and of the last one, and never exceeds the limits of steps. In a steady run x grows by one a
step. On a machine that becomes slower it grows faster, on one that becomes faster, slower. It never decreases, and
reaches n with the last step that fits. So the learning rate always ends at the low end of its schedule.

The plan and x are in checkpoints, so a stopped run resumes with both. `seconds` are those of process 0 on all
processes, so all of them have the same x.
"""

import math
from collections.abc import Callable
from typing import assert_never

from regard.settings.training import FALLING, TrainingSettings
from regard.training.checkpoint import RunState

# The limits of a run, and its progress.


def reached_limit(run: RunState, settings: TrainingSettings, out_of_time: bool) -> str:
    """Return the limit that ends the run now, or "". The caller passes `out_of_time`, as processes must agree on it."""
    if settings.max_steps is not None and run.step >= settings.max_steps:
        return "max_steps"
    if settings.max_epochs is not None and run.epoch >= settings.max_epochs:
        return "max_epochs"
    if settings.patience and run.worse_in_a_row >= settings.patience:
        return "patience"
    return "time_limit" if out_of_time else ""


def share_done(run: RunState, settings: TrainingSettings, passes: float) -> float | None:
    """Return the share of the run that is done, by the limit that will be reached first; None without a limit."""
    shares: list[float] = []
    if settings.max_steps is not None:
        shares.append(run.step / settings.max_steps)
    if settings.max_epochs is not None:
        shares.append(passes / settings.max_epochs)
    if settings.time_limit is not None:
        shares.append(run.seconds / settings.time_limit)
    return min(1.0, max(shares)) if shares else None


def why_ended(limit: str, settings: TrainingSettings) -> str:
    """Return a limit as the setting that made it: `training.max_steps=500`."""
    return f"training.{limit}={getattr(settings, limit)}"


# Learning rates as pure functions of the position x between 0 and the end n of a run (`budget`).
#
#     warm-up        η(x) = η x/w                                      for x < w, in all of them
#     inverse_sqrt   η(x) = η √(w/x)                                   Vaswani et al. 2017, section 5.3
#     (arXiv:1706.03762)
#     cosine         η(x) = η (f + (1−f) (1 + cos(π (x−w)/(n−w)))/2)   Loshchilov & Hutter 2016, eq. 5
#     (arXiv:1608.03983)
#     linear         η(x) = η (f + (1−f) (n−x)/(n−w))                  Bergsma et al. 2025 (arXiv:2502.15938): to zero
#     constant       η(x) = η
#
# The Transformer's formula derives the peak from its width (d^−½ w^−½); here the peak η is a setting. Cosine and
# linear fall once, without restarts, from the end w of the warm-up to n, where they reach the share f of η.
#
# x is the number of the step (the first is 1), or with a time limit the position that `budget` plans. w is the
# setting `warmup`, but at most a fifth of n, where n is known, for short runs. inverse_sqrt and constant do not
# depend on n, so such a run can be extended.

Number = int | float
Schedule = Callable[[Number], float]
WARMUP_SHARE = 0.2  # of a run, at most


def inverse_sqrt(position: Number, peak: float, warmup: Number) -> float:
    warmup = max(1, warmup)
    return peak * min(position / warmup, math.sqrt(warmup / position))


def cosine(position: Number, peak: float, warmup: Number, last: Number, final: float = 0.0) -> float:
    if position < warmup:
        return peak * position / warmup
    done = min(1.0, (position - warmup) / max(1, last - warmup))
    return peak * (final + (1 - final) * (1 + math.cos(math.pi * done)) / 2)


def linear(position: Number, peak: float, warmup: Number, last: Number, final: float = 0.0) -> float:
    if position < warmup:
        return peak * position / warmup
    done = min(1.0, (position - warmup) / max(1, last - warmup))
    return peak * (final + (1 - final) * (1 - done))


def constant(position: Number, peak: float, warmup: Number) -> float:
    return peak * min(1.0, position / max(1, warmup))


def schedule(settings: TrainingSettings, last: Number = math.inf) -> Schedule:
    """Return the schedule of the settings, position → learning rate. `last`: the end of the run, if known."""
    peak, final = settings.learning_rate, settings.final
    warmup = min(settings.warmup, WARMUP_SHARE * last)
    match settings.schedule:
        case "inverse_sqrt":
            return lambda position: inverse_sqrt(position, peak, warmup)
        case "constant":
            return lambda position: constant(position, peak, warmup)
        case "cosine":
            return lambda position: cosine(position, peak, warmup, last, final)
        case "linear":
            return lambda position: linear(position, peak, warmup, last, final)
        case other:
            assert_never(other)


SETTLING = 3  # first steps of a process, not timed: they allocate memory and may compile
TIMED = 5  # steps that are timed before the plan is made
FIRST_VALIDATION = 0.04  # of the time limit: assumed cost of the first validation where validation time is limited
HORIZON = 20  # steps over which the running mean of a step's seconds forgets


class Budget:
    """Progress and learning rate of a run. `len_epoch(number)`: batches of an epoch. `run`: state, with the plan.

    `validating`: the share of the time that validation may take. A validation that is due sooner is skipped.
    """

    def __init__(
        self, settings: TrainingSettings, len_epoch: Callable[[int], int], run: RunState, validating: float = 1.0
    ) -> None:
        self.settings, self.run = settings, run
        self.apart = 1 / validating - 1  # training time between validations, in multiples of a validation's time
        if validating < 1 and settings.time_limit is not None and not run.step:
            run.plan.validation = FIRST_VALIDATION * settings.time_limit
        self.begun, self.seconds = run.step, run.seconds
        self.falls, self.by_time = settings.schedule in FALLING, settings.time_limit is not None
        self.epoch = math.ceil(len_epoch(0) / settings.accumulate) if self.falls or self.by_time else 0  # its steps
        self.most = last_step(settings, len_epoch(0)) if self.falls or self.by_time else math.inf

    # ------------------------------------------------------------------------------------------------ queries
    def rate(self) -> float:
        """Return the learning rate of the next step."""
        step, plan = self.run.step + 1, self.run.plan
        if not self.by_time:
            return schedule(self.settings, self.most)(step)
        return schedule(self.settings, plan.last or math.inf)(plan.position if self.falls and plan.last else step)

    @property
    def out_of_time(self) -> bool:
        return self.by_time and self._left() < max(self.run.plan.pace, 1e-9)

    @property
    def timing(self) -> bool:
        """Whether the next step is timed for the plan, so that the caller must wait for the device."""
        return self.by_time and self.run.plan.timed < TIMED

    def has_time_to_validate(self) -> bool:
        """Whether a step still fits after a validation now. If not, the final validation is soon enough."""
        validation, history = self.run.plan.validation, self.run.history
        if history and self.seconds - history[-1]["seconds"] < self.apart * validation:
            return False
        return not self.by_time or self._left() - validation >= self.run.plan.pace

    # -------------------------------------------------------------------------------------------- updates
    def advance(self, seconds: float, validated: bool) -> None:
        """Record the elapsed time after each step; `validated`: whether it includes a validation."""
        took, self.seconds = seconds - self.seconds, seconds
        if not self.by_time:
            return
        step, plan = self.run.step, self.run.plan
        if step - self.begun > SETTLING and validated:
            plan.validation = max(0.0, took - plan.pace)
        elif step - self.begun > SETTLING:
            plan.timed += 1
            plan.pace += (took - plan.pace) / min(plan.timed, HORIZON)
        if not plan.timed:
            return
        fit = max(1, min(self._fitting(), self.most - step))
        if plan.timed <= TIMED:
            plan.last, plan.position = float(step + fit), float(step)
        plan.position += (plan.last - plan.position) / fit

    def _left(self) -> float:
        """Return the seconds of the limit that are left for training."""
        assert self.settings.time_limit is not None
        return self.settings.time_limit - self.seconds - self.run.plan.validation

    def _fitting(self) -> int:
        """Return how many steps fit into the time left: whole rounds of steps and a validation, then single steps."""
        left, pace, validation = self._left(), max(self.run.plan.pace, 1e-9), self.run.plan.validation
        between = max(self.settings.validate_every or self.epoch, math.ceil(self.apart * validation / pace))
        first = between - self.run.step % between  # steps until the next validation
        if left < first * pace + validation:
            return math.floor(left / pace)
        left -= first * pace + validation
        rounds, rest = divmod(left, between * pace + validation)
        return first + int(rounds) * between + math.floor(rest / pace)


def last_step(settings: TrainingSettings, epoch: int) -> int | float:
    """Return the last step by the limits of steps, or infinity. All epochs are assumed to be as long as the first."""
    steps = math.inf if settings.max_steps is None else settings.max_steps
    epochs = math.inf if settings.max_epochs is None else settings.max_epochs
    return min(steps, math.inf if epochs == math.inf else math.ceil(epoch * epochs / settings.accumulate))
