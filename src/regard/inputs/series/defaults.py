"""Settings chosen from a table of series: look-back and horizon."""

from collections.abc import Mapping
from typing import Any

from regard.settings.decisions import Decision, round_up

WITHOUT_CLOCK = 24  # steps ahead, if the table has no clock and so no season
TRAINED = 0.7  # share of the steps for training
WINDOWS = 1000  # desired number of training windows, over all series


def windows(facts: Any, told: Mapping[str, Any]) -> tuple[list[Decision], int, int]:
    """Choose look-back and horizon: the horizon first, then both together; if the user set one,
    the other follows from it.
    """
    season, steps = facts.season, facts.steps
    wanted = season if season > 1 else WITHOUT_CLOCK
    horizon = _told(told, "data.horizon") or max(1, min(wanted, steps // 10))
    why = (
        f"one season of {season} steps"
        if horizon == season
        else f"{steps:,} steps are enough for windows of this length"
    )
    spare = TRAINED * steps - horizon - WINDOWS / facts.series
    most = max(steps / 12, min(steps / 3, spare))
    look_back = max(horizon, min(512, 14 * horizon, int(most)))
    look_back = _told(told, "data.look_back") or (look_back if look_back < 16 else round_up(look_back - 7, 8))
    back = (
        f"14 horizons, at most 512 steps, and less than a third of the {steps:,} there are: there must be many windows"
    )
    decisions = [Decision("data.horizon", horizon, why), Decision("data.look_back", look_back, back)]
    how, filled = ("fill", "; missing values get the last value") if facts.regular > 0.9 else ("ignore", "")
    why = f"{facts.regular:.0%} of the times follow each other regularly{filled}"
    decisions.append(Decision("data.gaps", how, why))
    return decisions, look_back, look_back + horizon


def _told(told: Mapping[str, Any], key: str) -> int:
    """Return the user's setting if it is a number of steps; other values are rejected by their field."""
    text = str(told.get(key, ""))  # a command line passes only texts
    return int(text) if text.isdecimal() else 0
