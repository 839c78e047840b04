"""Settings chosen from recordings: sampling rate, length limit and augmentation."""

from collections.abc import Sequence

from regard.settings.decisions import Decision, percentile

SPEECH = 16_000  # samples a second; a higher rate improves speech little


SLOWEST = 0.9  # of the speeds that training plays recordings at
AT_ONCE = 10.0  # seconds; one part of a longer recording is enough for its label


def hearing(
    facts: Sequence[tuple[int, float]], *, most: float = float("inf"), done: str = "are read in windows"
) -> list[Decision]:
    """Choose settings. `most`: maximum seconds that are read at once; `done`: what happens to longer recordings."""
    rates, seconds = [fact[0] for fact in facts], [fact[1] for fact in facts]
    usual = max(set(rates), key=rates.count)
    rate = min(SPEECH, usual)
    why = f"recordings have {usual:,}" + (f"; {SPEECH:,} are enough for speech" if usual > SPEECH else "")
    longest = percentile(seconds, 100)
    limit, opened = round(longest * 1.2 + 0.5, 1), f"the longest that was opened has {longest:.2f}"
    if limit > most:
        limit, opened = most, f"{opened}: longer ones {done}"
    return [
        Decision("data.sound.rate", rate, why),
        Decision("data.sound.bands", 40, "usual for speech"),
        Decision("data.max_seconds", limit, opened),
    ]


def frames(seconds: float) -> int:
    """Duration of a recording at the slowest augmentation speed."""
    return int(seconds * 100 / SLOWEST) + 1


def augmentation(count: int) -> list[Decision]:
    if count > 20_000:
        return []
    why = f"{count:,} recordings are few: each epoch augments them differently"
    return [
        Decision("data.augment.speeds", [SLOWEST, 1.0, 1.1], why),
        Decision("data.augment.band_masks", 2, why),
        Decision("data.augment.band_width", 6, why),
        Decision("data.augment.time_masks", 1, why),
        Decision("data.augment.time_width", 0.1, why),
    ]


def usual_seconds(facts: Sequence[tuple[int, float]]) -> float:
    return percentile([fact[1] for fact in facts], 50)
