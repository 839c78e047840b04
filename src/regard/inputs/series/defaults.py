"""What a table of series decides: how far to look back and ahead."""

from typing import Any

from regard.settings.decisions import Decision, round_up

WITHOUT_CLOCK = 24  # steps ahead, where no clock says what a season is


def windows(facts: Any) -> tuple[list[Decision], int, int]:
    """Look-back and horizon, the first of them, and both together."""
    season, steps = facts.season, facts.steps
    wanted = season if season > 1 else WITHOUT_CLOCK
    horizon = max(1, min(wanted, steps // 20))
    why = (
        f"one season of {season} steps"
        if horizon == season
        else f"{steps:,} steps are enough for windows of this length"
    )
    look_back = max(horizon, min(512, 14 * horizon, int(steps * 0.08)))
    look_back = look_back if look_back < 16 else round_up(look_back - 7, 8)
    back = f"14 horizons, but at most 512 steps and a twelfth of the {steps:,} there are"
    decisions = [Decision("data.horizon", horizon, why), Decision("data.look_back", look_back, back)]
    if facts.regular < 1:
        how = "fill" if facts.regular > 0.9 else "ignore"
        decisions.append(Decision("data.gaps", how, f"{facts.regular:.0%} of the times follow each other regularly"))
    return decisions, look_back, look_back + horizon
