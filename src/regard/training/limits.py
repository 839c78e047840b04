"""When a run ends, and how far it is."""

from regard.settings.training import TrainingSettings
from regard.training.run_state import RunState


def reached(run: RunState, settings: TrainingSettings, out_of_time: bool) -> str:
    """The limit that ends the run now, or nothing. Processes have to agree on the time, so the caller tells it."""
    if settings.max_steps is not None and run.step >= settings.max_steps:
        return "max_steps"
    if settings.max_epochs is not None and run.epoch >= settings.max_epochs:
        return "max_epochs"
    if settings.patience and run.worse_in_a_row >= settings.patience:
        return "patience"
    return "time_limit" if out_of_time else ""


def share_done(run: RunState, settings: TrainingSettings, passes: float) -> float | None:
    """How much of the run is behind us, by the limit that will be the first to end it; None if nothing limits it."""
    shares: list[float] = []
    if settings.max_steps is not None:
        shares.append(run.step / settings.max_steps)
    if settings.max_epochs is not None:
        shares.append(passes / settings.max_epochs)
    if settings.time_limit is not None:
        shares.append(run.seconds / settings.time_limit)
    return min(1.0, max(shares)) if shares else None


def why_ended(limit: str, settings: TrainingSettings) -> str:
    """A limit by the setting that made it: `training.max_steps=500`."""
    return f"training.{limit}={getattr(settings, limit)}"
