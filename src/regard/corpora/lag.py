"""A follower series that repeats its driver with a lag: attention must find the lag.

    driver_t ~ N(0, 1), independent        other_t ~ N(0, 1), independent        follower_t = driver_{t−lag} + 0.1 noise

Nothing else predicts the follower: not its past, the other series, or any other step of the driver. So a model that
predicts it has found the lag, and its attention should be there.
"""

import numpy as np

LAG, LENGTH, NOISE = 17, 4000, 0.1


def lag(steps: int = LAG, length: int = LENGTH, seed: int = 0) -> dict[str, np.ndarray]:
    """Return columns time, follower, driver and other; the follower is `steps` behind the driver."""
    chance = np.random.default_rng(seed)
    driver, other, noise = chance.standard_normal((3, length + steps))
    follower = driver[:length] + NOISE * noise[:length]
    return {"time": np.arange(length), "follower": follower, "driver": driver[steps:], "other": other[:length]}
