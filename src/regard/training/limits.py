"""The limits of a run, and its progress."""

from regard.settings.training import TrainingSettings
from regard.training.run_state import RunState


def reached(run: RunState, settings: TrainingSettings, out_of_time: bool) -> str:
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
