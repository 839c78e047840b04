"""What a table of series decides: how far to look back and ahead."""

from collections.abc import Mapping
from typing import Any

from regard.settings.decisions import Decision, round_up

WITHOUT_CLOCK = 24  # steps ahead, where no clock says what a season is
TRAINED = 0.7  # of the steps are for training
WINDOWS = 1000  # of training, of all series together, that there should be


def windows(facts: Any, told: Mapping[str, Any]) -> tuple[list[Decision], int, int]:
    """Look-back and horizon, the first of them, and both together; one follows from the other, if that was told."""
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
    back = f"14 horizons, at most 512 steps, and less than a third of the {steps:,} there are: windows have to be many"
    decisions = [Decision("data.horizon", horizon, why), Decision("data.look_back", look_back, back)]
    how, filled = ("fill", "; what is missing has the last value") if facts.regular > 0.9 else ("ignore", "")
    why = f"{facts.regular:.0%} of the times follow each other regularly{filled}"
    decisions.append(Decision("data.gaps", how, why))
    return decisions, look_back, look_back + horizon


def _told(told: Mapping[str, Any], key: str) -> int:
    """What the user said, if it is a number of steps; whatever else it is, its own field refuses it."""
    text = str(told.get(key, ""))  # a command line has texts only
    return int(text) if text.isdecimal() else 0
